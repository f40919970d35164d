"""Extractor: from samples to an embedding and the seconds of speech that went into it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.audio.network.network import Network
from dcaplda.audio.network.settings import Asked
from dcaplda.audio.record import Recorded, make_record
from dcaplda.audio.signal.decoding import read_audio
from dcaplda.audio.signal.resampling import resampled
from dcaplda.audio.signal.samples import Float32, checked_rate, checked_samples
from dcaplda.audio.speech.detectors import Detector, make_detector
from dcaplda.audio.speech.spans import Span
from dcaplda.runtime.errors import AudioError, UsageError

if TYPE_CHECKING:
    from dcaplda.audio.stream import Stream

MIN_DURATION = 0.5
"""Seconds of speech below which there is no embedding."""
CHUNK = 60.0
"""Seconds of speech that go through the network at once."""
FRAME = 0.01
"""Seconds per frame, of extractors that take samples."""


@dataclass(frozen=True)
class Signal:
    """Samples on their way to an embedding."""

    samples: Float32
    rate: int
    place: str
    """What messages call it."""


@dataclass(frozen=True)
class Extraction:
    """An embedding and what it was made of."""

    embedding: Float32
    """(D,)"""
    seconds: float
    """Speech that went into it."""
    frames: int
    total: float
    """Seconds of the recording."""
    spans: tuple[tuple[float, float], ...]
    """Where the speech lies, in seconds."""
    rate: int
    """Sample rate of the recording."""


class Embedded(NamedTuple):
    """What the backend takes of an utterance."""

    embedding: Float32
    seconds: float


class Extractor:
    """An ONNX extractor with its features and speech detection; safe to use from many threads.

    >>> extractor = Extractor.load("extractor.onnx", kind="3d-speaker")       # doctest: +SKIP
    >>> embedding, seconds = extractor(samples, 16000)                        # doctest: +SKIP
    """

    def __init__(
        self, network: Network, detector: Detector, min_duration: float, chunk: float
    ) -> None:
        if not 0 < min_duration <= chunk < float("inf"):
            raise UsageError(
                f"min_duration = {min_duration:g} s, chunk = {chunk:g} s: expected above 0, the "
                "first not above the second"
            )
        self.network = network
        self.detector = detector
        self.min_duration = min_duration
        self.chunk = chunk
        self.record: dict[str, Any] = make_record(network, detector, min_duration, chunk)
        """What extractor.json says."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        like: str | Path = "",
        kind: str = "",
        sample_rate: int | None = None,
        feature_normalize: str = "",
        window: str = "",
        sample_scale: float | None = None,
        mel_bins: int | None = None,
        output: str = "",
        vad: str = "",
        vad_model: str = "",
        vad_threshold: float | None = None,
        vad_min_speech: float | None = None,
        vad_min_silence: float | None = None,
        vad_pad: float | None = None,
        min_duration: float | None = None,
        chunk: float | None = None,
    ) -> "Extractor":
        """Open an extractor; what its file does not say has to be told (docs/audio.md).

        `like` is an extractor.json, or a bundle that was trained with such embeddings: all
        settings are then those, but for what is given here of speech detection. `vad` is silero
        (the default), energy or none.
        """
        asked = Asked(
            kind=kind,
            sample_rate=sample_rate,
            feature_normalize=feature_normalize,
            window=window,
            sample_scale=sample_scale,
            mel_bins=mel_bins,
            output=output,
        )
        rules = {
            "threshold": vad_threshold,
            "min_speech": vad_min_speech,
            "min_silence": vad_min_silence,
            "pad": vad_pad,
        }
        known = Recorded(str(like)) if like else None
        if known is None:
            network = Network(path, asked)
        else:
            network = _recorded_network(path, known, asked)
            if vad in ("", known.vad):
                given = {name: value for name, value in rules.items() if value is not None}
                rules = {**known.rules, **given}
            vad = vad or known.vad
            min_duration = known.min_duration if min_duration is None else min_duration
            chunk = known.chunk if chunk is None else chunk
        return cls(
            network,
            make_detector(vad or "silero", vad_model, **rules),
            MIN_DURATION if min_duration is None else min_duration,
            CHUNK if chunk is None else chunk,
        )

    @property
    def fingerprint(self) -> str:
        """Hash over graph and features, for Backend.load: embeddings compare only within one."""
        return str(self.record["fingerprint"])

    @property
    def sample_rate(self) -> int:
        """Rate at which the network listens; other signals are resampled."""
        return self.network.settings.sample_rate

    def __call__(self, samples: ArrayLike, sample_rate: int) -> Embedded:
        """Embedding (D,) and seconds of speech of samples (n,): floats from -1 to 1, or int16."""
        made = self.extract(samples, sample_rate)
        return Embedded(made.embedding, made.seconds)

    def from_file(self, path: str | Path, channel: str = "") -> Embedded:
        """The same of a file; `channel` as for read_audio."""
        samples, rate = read_audio(str(path), channel)
        made = self.extract(samples, rate, str(path))
        return Embedded(made.embedding, made.seconds)

    def extract(self, samples: ArrayLike, sample_rate: int, place: str = "samples") -> Extraction:
        """The same, with all that is known of it."""
        signal = Signal(checked_samples(samples, place), checked_rate(sample_rate, place), place)
        (made,) = self.extract_many([signal])
        if isinstance(made, AudioError):
            raise made
        return made

    def extract_many(self, signals: Sequence[Signal]) -> list[Extraction | AudioError]:
        """Embeddings of several signals, or why there is none; speech is sought side by side."""
        own = [resampled(signal.samples, signal.rate, self.sample_rate) for signal in signals]
        found = self.detector.spans(own, self.sample_rate)
        made: list[Extraction | AudioError] = []
        for signal, samples, spans in zip(signals, own, found, strict=True):
            try:
                made.append(self._extraction(signal, samples, spans))
            except AudioError as error:
                made.append(error)
        return made

    def stream(self, sample_rate: int, *, every: float = 5.0) -> "Stream":
        """A call that is going on: an embedding for each `every` seconds of new speech."""
        from dcaplda.audio.stream import Stream

        return Stream(self, sample_rate, every)

    def _extraction(self, signal: Signal, samples: Float32, spans: list[Span]) -> Extraction:
        speech = np.concatenate([samples[begin:end] for begin, end in spans] or [samples[:0]])
        rate = self.sample_rate
        seconds = len(speech) / rate
        total = len(signal.samples) / signal.rate
        if seconds < self.min_duration:
            raise AudioError(
                f"'{signal.place}': {seconds:.2f} s of speech in {total:.2f} s; at least "
                f"{self.min_duration:g} s are needed (--min-duration)"
            )
        try:
            embedding, frames = self.embed(speech)
        except AudioError as error:
            raise AudioError(f"'{signal.place}': {error}") from None
        where = tuple((begin / rate, end / rate) for begin, end in spans)
        return Extraction(embedding, seconds, frames, total, where, signal.rate)

    def embed(self, speech: Float32) -> tuple[Float32, int]:
        """Embedding and number of frames of samples at the network's rate, all of them speech.

        What is longer than a chunk goes through the network in equal parts, of whose embeddings
        the mean is taken: memory stays bounded.
        """
        count = max(1, -(-len(speech) // int(self.chunk * self.sample_rate)))
        embeddings, frames = [], []
        for part in np.array_split(speech, count):
            taken = self.network.frames(part)
            embeddings.append(self.network.embedding(taken))
            per_frame = FRAME * self.sample_rate if taken.ndim == 1 else 1
            frames.append(int(len(taken) / per_frame))
        if count == 1:
            return embeddings[0], frames[0]
        mean = np.stack(embeddings).mean(axis=0, dtype=np.float64)
        return np.asarray(mean, np.float32), sum(frames)


def _recorded_network(path: str | Path, known: Recorded, asked: Asked) -> Network:
    told = {name: value for name, value in vars(asked).items() if value}
    if told:
        name = next(iter(told)).replace("_", "-")
        raise UsageError(f"--{name}: '{known.path}' tells it (--like); leave out one of the two")
    network = Network(path, Asked(output=known.output), known.settings)
    if network.sha256 != known.model_sha256:
        raise UsageError(
            f"{path}: is not the extractor of '{known.path}' ({network.sha256[:12]}, there it is "
            f"{known.model_sha256[:12]}); take that one, or leave out --like"
        )
    return network
