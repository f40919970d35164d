"""compute-durations: seconds of speech per utterance, for the tools that need them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import TableError

USAGE = """Compute the seconds of speech of each utterance.

From Kaldi's voice activity decisions (the sum of the speech frames; the best choice where the
extractor drops silence), from numbers of frames, from a segments file, or from the lengths of
WAV files. An utterance without any speech is left out, with a warning.

Usage: compute-durations [options] <utt2dur-wxfilename>
e.g.: compute-durations --vad=scp:data/test/vad.scp data/test/utt2dur
 or: compute-durations --num-frames=data/test/utt2num_frames --frame-shift=0.01 utt2dur
 or: compute-durations --segments=data/test/segments utt2dur
 or: compute-durations --wav=scp:data/test/wav.scp utt2dur
See also: score-trials, train-backend
"""
# Of warnings that name an utterance, before only their number is given.
_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of compute-durations."""

    vad: str = option("", "voice activity: vectors of 0 and 1, one value per frame (vad.scp)")
    num_frames: str = option("", "numbers of frames (utt2num_frames)")
    segments: str = option("", "segments: 'utterance recording start end', in seconds")
    wav: str = option("", "WAV files: whole recordings, for extractors that use all of them")
    frame_shift: float = option(0.01, "seconds per frame, for --vad and --num-frames")
    scp_root: str = option(
        "", "directory where relative names in an scp start; left out: here, then its folder"
    )

    def __post_init__(self) -> None:
        """Exactly one input."""
        given = [name for name in (self.vad, self.num_frames, self.segments, self.wav) if name]
        if len(given) != 1:
            raise ValueError("give one of --vad, --num-frames, --segments and --wav")
        if not 0 < self.frame_shift < math.inf:
            raise ValueError(f"--frame-shift={self.frame_shift:g}: expected seconds above 0")


def speech_frames(options: Options, log: Log) -> Iterator[tuple[str, float]]:
    """Utterances and their speech frames, from voice activity decisions (floats or int32)."""
    import numpy as np

    from dcaplda.runtime.tables.vectors import iterate_vectors

    skipped: list[str] = []
    for name, frames in iterate_vectors(options.vad, options.scp_root, skipped):
        odd = frames[(frames != 0) & (frames != 1)]
        if len(odd):
            raise TableError(
                f"'{options.vad}': '{name}' holds {odd[0]:g}; voice activity is 0 or 1 per frame"
            )
        yield name, float(np.count_nonzero(frames))
    for message in skipped:
        log.warning(message)


def segment_seconds(table: str) -> Iterator[tuple[str, float]]:
    """Utterances and their seconds, from a segments file."""
    from dcaplda.runtime.tables.sessions import read_segments

    for segment in read_segments(table):
        if segment.end == math.inf:
            raise TableError(
                f"'{table}' line {segment.line}: '{segment.utterance}' goes to the end of the "
                "recording; write the recording's length in place of -1"
            )
        yield segment.utterance, segment.end - segment.start


def recording_seconds(table: str, scp_root: str) -> Iterator[tuple[str, float]]:
    """Utterances and the lengths of their WAV files, from the files' headers.

    By the standard library: kaldiio 2.18 takes every format for PCM, so that 100 samples of
    4-bit ADPCM pass for 50, and its `read_wav` loads the samples, too.
    """
    import io
    import wave

    from dcaplda.runtime.tables.scp import read_scp, resolved, starts_of
    from dcaplda.runtime.tables.specifiers import is_pipe, parse_rspecifier, read_input

    specifier = parse_rspecifier(table)
    starts = starts_of(specifier, scp_root)
    for name, source in read_scp(specifier).items():
        try:
            # A pipe has to be read whole; of a file the header is enough.
            place = io.BytesIO(read_input(source)) if is_pipe(source) else None
            with wave.open(place or resolved(source, starts), "rb") as stream:
                yield name, stream.getnframes() / stream.getframerate()
        except (OSError, EOFError, wave.Error, ZeroDivisionError) as error:
            raise TableError(
                f"'{table}': '{name}' points to '{source}', which is no readable PCM WAV file "
                f"({error}); convert it first"
            ) from None


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read one of the inputs, write utt2dur."""
    from dcaplda.runtime.tables.specifiers import check_output, table_source, writing
    from dcaplda.runtime.tables.text_tables import read_numbers
    from dcaplda.runtime.values import check_seconds

    target = table_source(arguments[0])
    check_output(target)
    if options.segments:
        entries, unit = segment_seconds(options.segments), 1.0
    elif options.wav:
        entries, unit = recording_seconds(options.wav, options.scp_root), 1.0
    elif options.vad:
        entries, unit = speech_frames(options, log), options.frame_shift
    else:
        entries = iter(read_numbers(options.num_frames, whole=True).items())
        unit = options.frame_shift
    seconds: dict[str, float] = {}
    silent = 0
    for name, amount in entries:
        if name in seconds:
            raise TableError(f"'{options.segments}': '{name}' occurs twice; ids must be unique")
        if amount < 0:
            raise TableError(f"'{options.num_frames}': '{name}' has {amount:g} frames")
        if amount == 0:
            silent += 1
            if silent <= _SHOWN:
                log.warning(f"'{name}' has no speech and is left out")
            continue
        seconds[name] = amount * unit
    if not seconds:
        raise TableError("no utterance has any speech; nothing was written")
    given = options.segments or options.wav or options.vad or options.num_frames
    check_seconds(seconds, f"'{given}'", TableError)
    # Rounded to a microsecond: 300 * 0.01 is to be written as 3, not 3.0000000000000004.
    lines = "".join(f"{name} {round(value, 6):.10g}\n" for name, value in seconds.items())
    with writing(target) as stream:
        stream.write(lines.encode())
    log.info(
        f"wrote {len(seconds)} durations, {silent} without speech left out; "
        f"{sum(seconds.values()) / 3600:.2f} hours in all"
    )
    return 0


TOOL = Tool("compute-durations", USAGE, Options, 1, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
