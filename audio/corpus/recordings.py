"""Which recordings there are and what of them is an utterance: wav.scp, segments, a folder."""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dcaplda.audio.extractor import Signal
from dcaplda.audio.signal.decoding import read_audio
from dcaplda.audio.signal.samples import Float32
from dcaplda.runtime.errors import AudioError, DcapldaError, InputError, UsageError
from dcaplda.runtime.tables.scp import read_scp, resolved, starts_of
from dcaplda.runtime.tables.sessions import Segment, read_segments
from dcaplda.runtime.tables.specifiers import (
    is_pipe,
    kaldi_specifier,
    parse_rspecifier,
    read_bytes,
    read_file,
    split_offset,
)

ENDINGS = (".wav", ".flac", ".ogg", ".opus", ".mp3", ".sph", ".aiff", ".aif", ".au", ".caf", ".w64")
"""Of files that are taken from a folder."""
OVERSHOOT = 0.5
"""Seconds that a segment may end after its recording, as in Kaldi."""
AUTO, NO = "auto", "none"
"""Segments beside wav.scp if there are any; or none in spite of them."""


@dataclass(frozen=True)
class Recording:
    """A recording and the utterances in it."""

    source: str
    """Extended file name."""
    utterances: tuple[str, ...]
    segments: tuple[Segment, ...] = ()
    """One for each utterance; none if the utterance is the whole recording."""


def read_recordings(table: str, scp_root: str = "", segments: str = AUTO) -> list[Recording]:
    """The recordings of `scp:wav.scp`, or of a folder, and their utterances."""
    if os.path.isdir(table):
        if segments not in (AUTO, NO):
            raise UsageError(f"--segments={segments}: goes with a wav.scp, not with a folder")
        return list(_of_folder(table))
    specifier = parse_rspecifier(kaldi_specifier(table))
    if specifier.kind != "scp":
        raise UsageError(
            f"'{table}': recordings are named by scp:wav.scp, or by a folder of sound files"
        )
    starts = starts_of(specifier, scp_root)
    sources = {
        name: source if is_pipe(source) else _placed(source, starts)
        for name, source in read_scp(specifier).items()
    }
    beside = segments_beside(table) if segments == AUTO else segments
    if beside in ("", NO):
        return [Recording(source, (name,)) for name, source in sources.items()]
    return _cut(sources, beside, table)


def _placed(source: str, starts: tuple[str, ...]) -> str:
    """An scp's file name, or name and offset, from where it starts."""
    path = resolved(source, starts)
    name, offset = split_offset(source)
    if offset is None or os.path.exists(path):
        return path
    return f"{resolved(name, starts)}:{offset}"


def segments_beside(table: str) -> str:
    """The file `segments` in the folder of a wav.scp; empty where there is none."""
    folder = folder_of(table)
    path = os.path.join(folder, "segments")
    return path if folder and os.path.isfile(path) else ""


def folder_of(table: str) -> str:
    """The folder of a wav.scp that is a file; empty for pipes and folders of recordings."""
    if os.path.isdir(table):
        return ""
    source = parse_rspecifier(kaldi_specifier(table)).source
    return (os.path.dirname(source) or ".") if os.path.isfile(source) else ""


def _of_folder(folder: str) -> Iterator[Recording]:
    """Sound files below a folder, by their names: `ann/1.wav` is the utterance `ann/1`."""
    seen: dict[str, str] = {}
    for place, folders, files in os.walk(folder):
        folders.sort()
        for file in sorted(files):
            stem, ending = os.path.splitext(file)
            if ending.lower() not in ENDINGS or file.startswith("."):
                continue
            path = os.path.join(place, file)
            # Ids have no blanks.
            name = re.sub(r"\s", "_", os.path.relpath(os.path.join(place, stem), folder))
            if name in seen:
                raise UsageError(
                    f"'{path}' and '{seen[name]}' would both be '{name}'; rename one, or write a "
                    "wav.scp with lines 'name file'"
                )
            seen[name] = path
            yield Recording(path, (name,))
    if not seen:
        raise UsageError(f"'{folder}': has no sound files ({' '.join(ENDINGS)})")


def _cut(sources: dict[str, str], segments: str, table: str) -> list[Recording]:
    """Recordings with the segments in them, in the order of their first."""
    found: dict[str, list[Segment]] = {}
    seen: set[str] = set()
    for segment in read_segments(segments):
        place = f"'{segments}' line {segment.line}"
        if segment.recording not in sources:
            raise InputError(f"{place}: recording '{segment.recording}' is not in '{table}'")
        if segment.utterance in seen:
            raise InputError(f"{place}: '{segment.utterance}' occurs twice; ids must be unique")
        if segment.channel and not segment.channel.isdecimal():
            raise InputError(f"{place}: channel '{segment.channel}'; expected 0, 1, ...")
        seen.add(segment.utterance)
        found.setdefault(segment.recording, []).append(segment)
    if not found:
        raise InputError(f"'{segments}': the table is empty")
    return [
        Recording(sources[name], tuple(it.utterance for it in cuts), tuple(cuts))
        for name, cuts in found.items()
    ]


def missing_files(recordings: list[Recording]) -> list[Recording]:
    """Recordings whose file is not there; of a pipe only its command can tell."""
    return [
        it
        for it in recordings
        if not is_pipe(it.source) and not os.path.exists(_file_of(it.source)[0])
    ]


def _file_of(source: str) -> tuple[str, int | None]:
    """File and offset: `wav.ark:12` is an offset unless a file has that name."""
    return (source, None) if os.path.exists(source) else split_offset(source)


def read_signals(recording: Recording, channel: str) -> list[Signal | AudioError]:
    """The samples of each utterance of a recording, or why there are none."""
    try:
        if not recording.segments:
            return [Signal(*_decoded(recording.source, channel), recording.utterances[0])]
        return _segments_of(recording, channel)
    except DcapldaError as error:
        failed = error if isinstance(error, AudioError) else AudioError(str(error))
        return [failed] * len(recording.utterances)


def _segments_of(recording: Recording, channel: str) -> list[Signal | AudioError]:
    decoded: dict[str, tuple[Float32, int]] = {}
    made: list[Signal | AudioError] = []
    for segment in recording.segments:
        # Kaldi counts channels from 0.
        chosen = str(int(segment.channel) + 1) if segment.channel else channel
        if chosen not in decoded:
            decoded[chosen] = _decoded(recording.source, chosen)
        samples, rate = decoded[chosen]
        total = len(samples) / rate
        end = total if segment.end == math.inf else segment.end
        if segment.start >= total or end > total + OVERSHOOT:
            made.append(
                AudioError(
                    f"'{segment.utterance}': goes from {segment.start:g} to {end:g} s, but "
                    f"'{recording.source}' has {total:.2f} s"
                )
            )
            continue
        piece = samples[round(segment.start * rate) : round(end * rate)]
        made.append(Signal(piece, rate, segment.utterance))
    return made


def _decoded(source: str, channel: str) -> tuple[Float32, int]:
    if is_pipe(source):
        return read_audio(read_bytes(source), channel, source)
    path, offset = _file_of(source)
    if offset is None:
        return read_audio(path, channel)
    data = read_file(path)
    # In an archive other recordings follow; a WAV file tells its size.
    head = bytes(data[offset : offset + 8])
    size = 8 + int.from_bytes(head[4:], "little") if head[:4] == b"RIFF" else len(data)
    return read_audio(bytes(data[offset : offset + size]), channel, source)
