"""extract-embeddings: recordings to embeddings and the seconds of speech behind each."""

import contextlib
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcaplda.bin.common.option_groups import ScpRoot, Threads, check_not_negative
from dcaplda.bin.common.options import Log, Tool, option, run

if TYPE_CHECKING:
    from dcaplda.audio.corpus.job import Job, Outcome
    from dcaplda.audio.extractor import Extraction, Extractor
    from dcaplda.runtime.errors import AudioError

USAGE = """Extract speaker embeddings from recordings with an ONNX extractor.

Takes scp:wav.scp (files or pipes; a file 'segments' beside it is used), or a folder of sound files:
wav, flac, ogg, mp3, sph, any sample rate and depth. Speech is detected, and only speech goes into
the extractor. Writes into <out-dir>: xvector.ark and xvector.scp, utt2dur (the seconds of speech
that went in), utt2num_frames, utt2cut (the seconds that were cut), speech (where it lies, as
segments), extractor.json (all settings and the extractor's hash, which training and scoring
compare), left_out (with --allow-missing), and the utt2spk, utt2sess, utt2dom that lie beside
wav.scp. A run that was interrupted goes on where it was when it is started again.

What an extractor takes is read from its file and its sherpa-onnx metadata; what these do not say
has to be told, most easily by --kind, or by --like=extractor.json of other embeddings of it. See
docs/audio.md.

Usage: extract-embeddings [options] <extractor.onnx> <wav-rspecifier|folder> <out-dir>
e.g.: extract-embeddings --kind=wespeaker voxceleb_resnet34.onnx scp:data/train/wav.scp exp/train
 or: extract-embeddings --like=exp/train/extractor.json voxceleb_resnet34.onnx recordings exp/mine
See also: train-backend, score-trials, enroll-speakers, compute-durations
"""
# Of warnings that name an utterance, before only their number is given.
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Options(Threads, ScpRoot):
    """Options of extract-embeddings."""

    kind: str = option("", "toolkit of the extractor: wespeaker, 3d-speaker, nemo or waveform")
    like: str = option("", "extractor.json, or a bundle trained with it: the same settings")
    sample_rate: int | None = option(None, "rate that the extractor was trained with")
    feature_normalize: str = option("", "of each feature: mean, mean-variance or none")
    window: str = option("", "window of a frame: povey, hamming, hann, ...")
    sample_scale: float | None = option(None, "full scale of the samples: 1 or 32768")
    mel_bins: int | None = option(None, "mel filters, where the graph does not say it")
    output: str = option("", "output that is the embedding, where there are several")
    vad: str = option("", "speech detection: silero (the default), energy or none")
    vad_threshold: float | None = option(None, "probability from which on it is speech (0.5)")
    vad_min_speech: float | None = option(None, "shorter stretches are no speech (0.25 s)")
    vad_min_silence: float | None = option(None, "shorter pauses stay in (0.1 s)")
    vad_pad: float | None = option(None, "added on both sides of a stretch (0.03 s)")
    vad_model: str = option("", "another silero_vad.onnx than the installed one")
    min_duration: float | None = option(None, "least seconds of speech of an utterance (0.5)")
    chunk: float | None = option(None, "seconds of speech that go through the network at once (60)")
    segments: str = option("auto", "segments file; auto: the one beside wav.scp; none")
    channel: str = option("", "of recordings with several: 1, 2, ... or mix")
    allow_missing: bool = option(False, "leave out what is missing, and count it")
    part: int = option(1, "which of --num-parts parts to extract, from 1")
    num_parts: int = option(1, "processes that share the work; the last puts it together")

    def check(self) -> None:
        """Check ranges."""
        if self.num_parts < 1 or not 1 <= self.part <= self.num_parts:
            raise ValueError(f"--part={self.part} --num-parts={self.num_parts}: parts count from 1")
        if self.channel and self.channel != "mix" and not self.channel.isdecimal():
            raise ValueError(f"--channel={self.channel}: expected 1, 2, ... or mix")
        if self.sample_rate is not None:
            check_not_negative(self, "sample_rate")


EXTRACTOR_OPTIONS = (
    *("like", "kind", "sample_rate", "feature_normalize", "window", "sample_scale", "mel_bins"),
    *("output", "vad", "vad_threshold", "vad_min_speech", "vad_min_silence", "vad_pad"),
    *("vad_model", "min_duration", "chunk"),
)


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Open the extractor, go through the recordings, put the tables together."""
    from dcaplda.audio.corpus.job import Job, run_job
    from dcaplda.audio.extractor import Extractor

    model, table, target = arguments
    extractor = Extractor.load(
        model, **{name: getattr(options, name) for name in EXTRACTOR_OPTIONS}
    )
    _describe(extractor, log)
    job = Job(
        table=table,
        directory=Path(target),
        segments=options.segments,
        channel=options.channel,
        scp_root=options.scp_root,
        allow_missing=options.allow_missing,
        threads=options.threads or len(os.sched_getaffinity(0)),
        part=options.part,
        num_parts=options.num_parts,
    )
    with _Progress(log) as progress:
        try:
            outcome = run_job(job, extractor, progress.report, progress.begin)
        except KeyboardInterrupt:
            log.error(f"interrupted; what is done is kept in {target}: the same command goes on")
            return 1
    _sum_up(job, outcome, extractor, progress, log)
    return 0


def _describe(extractor: "Extractor", log: Log) -> None:
    settings = extractor.network.settings
    made = "samples"
    if settings.features is not None:
        made = f"{settings.features.bins} mel filters, normalized by {settings.normalize}"
    log.info(
        f"extractor {extractor.fingerprint[:12]} ({settings.kind}): {made}, "
        f"{settings.sample_rate} Hz; speech detection: {extractor.record['speech']['name']}"
    )


class _Progress(contextlib.AbstractContextManager["_Progress"]):
    """Counts, warns of what fails, and shows a bar if somebody is looking."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.failed = 0
        self.audio = 0.0
        self.start = time.perf_counter()
        self.bar: Any = None

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def begin(self, count: int) -> None:
        """So many utterances are to be done."""
        self.start = time.perf_counter()
        if sys.stderr.isatty() and count:
            from tqdm import tqdm

            self.bar = tqdm(total=count, unit=" utterances", leave=False)

    def report(self, name: str, result: "Extraction | AudioError") -> None:
        """One more utterance."""
        from dcaplda.runtime.errors import AudioError

        if isinstance(result, AudioError):
            self.failed += 1
            if self.failed <= _SHOWN:
                self.log.warning(f"{name}: {result}")
        else:
            self.audio += result.total
        if self.bar is not None:
            self.bar.update(1)

    @property
    def speed(self) -> float:
        """Seconds of audio in a second."""
        return self.audio / max(time.perf_counter() - self.start, 1e-9)


def _sum_up(
    job: "Job", outcome: "Outcome", extractor: "Extractor", progress: _Progress, log: Log
) -> None:
    if outcome.waiting:
        log.info(
            f"part {job.part} of {job.num_parts} is done; {outcome.waiting} blocks of other parts "
            "are not there yet, the last part puts all together"
        )
        return
    low = {rate: n for rate, n in outcome.rates.items() if rate < extractor.sample_rate}
    if low:
        rates = ", ".join(f"{rate} Hz" for rate in sorted(low))
        log.warning(
            f"{sum(low.values())} utterances have a lower sample rate ({rates}) than the extractor "
            f"({extractor.sample_rate} Hz): above half of it they hold nothing; see docs/audio.md"
        )
    if outcome.labels:
        log.info(f"copied {', '.join(outcome.labels)}: {job.directory} is a data directory")
    speed = f"; {progress.speed:.0f} times real time" if progress.audio else ""
    before = " before" if outcome.before else ""
    log.info(
        f"extracted {outcome.utterances} utterances{before}, {outcome.left_out} left out: "
        f"{outcome.speech:.1f} s of speech in {outcome.total:.1f} s of audio{speed}"
    )


TOOL = Tool("extract-embeddings", USAGE, Options, 3, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
