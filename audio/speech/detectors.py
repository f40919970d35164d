"""The detectors by their names: silero, energy, none.

A detector is a class with `spans` of whole signals and, if it can, `stream` for signals that still
come; a new one is a class here and an entry of DETECTORS.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from dcaplda.audio.signal.resampling import Resampler, resampled
from dcaplda.audio.signal.samples import Float32
from dcaplda.audio.speech.energy import loud_windows, window_of
from dcaplda.audio.speech.silero import WINDOWS, Silero, SileroStream
from dcaplda.audio.speech.spans import Span, SpanFinder, SpanRules, find_spans
from dcaplda.runtime.errors import UsageError


class SpeechStream(Protocol):
    """Speech in a signal that comes in pieces."""

    def accept(self, samples: Float32) -> list[Span]:
        """Stretches that are now sure to be speech, counted from the start of the signal."""

    def finish(self) -> list[Span]:
        """The signal has ended."""

    @property
    def undecided(self) -> int:
        """First sample that may still become part of a stretch."""


class Detector(Protocol):
    """Finds speech in signals of one rate."""

    def spans(self, signals: Sequence[Float32], rate: int) -> list[list[Span]]:
        """The stretches of speech of each signal."""

    def stream(self, rate: int) -> SpeechStream:
        """The same for a signal that comes in pieces."""

    def described(self) -> dict[str, Any]:
        """What it is and its settings, for extractor.json."""


@dataclass
class NoDetector:
    """Everything is speech."""

    def spans(self, signals: Sequence[Float32], rate: int) -> list[list[Span]]:
        """Each signal as a whole."""
        return [[(0, len(signal))] for signal in signals]

    def stream(self, rate: int) -> SpeechStream:
        """All that comes."""
        return _Everything()

    def described(self) -> dict[str, Any]:
        """Its name."""
        return {"name": "none"}


class _Everything:
    def __init__(self) -> None:
        self.undecided = 0

    def accept(self, samples: Float32) -> list[Span]:
        begin = self.undecided
        self.undecided += len(samples)
        return [(begin, self.undecided)] if len(samples) else []

    def finish(self) -> list[Span]:
        return []


@dataclass
class EnergyDetector:
    """What is not much softer than the loudest part."""

    rules: SpanRules

    def spans(self, signals: Sequence[Float32], rate: int) -> list[list[Span]]:
        """The loud stretches of each signal."""
        window = window_of(rate)
        return [
            find_spans(loud_windows(signal, rate), self.rules, rate, window, len(signal))
            for signal in signals
        ]

    def stream(self, rate: int) -> SpeechStream:
        """Refused: the loudest part may still come."""
        raise UsageError("vad 'energy' needs the whole recording; a stream takes silero or none")

    def described(self) -> dict[str, Any]:
        """Its name and settings."""
        return {"name": "energy", **asdict(self.rules)}


@dataclass
class SileroDetector:
    """silero-vad."""

    rules: SpanRules
    file: str = ""
    model: Silero = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Open the model."""
        self.model = Silero(self.file)

    def spans(self, signals: Sequence[Float32], rate: int) -> list[list[Span]]:
        """Stretches of speech; signals of other rates than silero's are resampled to look at."""
        own = own_rate(rate)
        heard = [resampled(signal, rate, own) for signal in signals]
        found = self.model.probabilities(heard, own)
        spans = []
        for signal, looked_at, values in zip(signals, heard, found, strict=True):
            made = find_spans(values.tolist(), self.rules, own, WINDOWS[own], len(looked_at))
            spans.append([_scaled(span, own, rate, len(signal)) for span in made])
        return spans

    def stream(self, rate: int) -> SpeechStream:
        """The same window by window."""
        return _SileroSpeech(self.model.stream(own_rate(rate)), self.rules, rate)

    def described(self) -> dict[str, Any]:
        """Its name, the model's hash and settings."""
        return {"name": "silero", "model_sha256": self.model.sha256, **asdict(self.rules)}


class _SileroSpeech:
    def __init__(self, stream: SileroStream, rules: SpanRules, rate: int) -> None:
        own = own_rate(rate)
        self._stream = stream
        self._finder = SpanFinder(rules, own, WINDOWS[own])
        self._resampler = Resampler(rate, own)
        self._rate, self._own = rate, own
        self._heard = self._heard_own = 0

    @property
    def undecided(self) -> int:
        # One sample less: scaled numbers are rounded.
        return max(0, self._finder.undecided * self._rate // self._own - 1)

    def accept(self, samples: Float32, last: bool = False) -> list[Span]:
        self._heard += len(samples)
        own = self._resampler.accept(samples, last)
        self._heard_own += len(own)
        return self._found([self._finder.accept(p) for p in self._stream.accept(own)])

    def finish(self) -> list[Span]:
        import numpy as np

        spans = self.accept(np.zeros(0, np.float32), last=True)
        rest = [self._finder.accept(p) for p in self._stream.finish()]
        return spans + self._found([*rest, self._finder.finish(self._heard_own)])

    def _found(self, spans: Sequence[Span | None]) -> list[Span]:
        made = (_scaled(s, self._own, self._rate, self._heard) for s in spans if s is not None)
        return [span for span in made if span[0] < span[1]]


def own_rate(rate: int) -> int:
    """The rate at which silero looks at a signal of some other one."""
    return rate if rate in WINDOWS else max(WINDOWS)


def _scaled(span: Span, rate: int, wanted: int, most: int) -> Span:
    if rate == wanted:
        return span[0], min(span[1], most)
    return span[0] * wanted // rate, min(span[1] * wanted // rate, most)


# Word corpora have words of a fifth of a second; silero's own values are those of SpanRules.
ENERGY_RULES = SpanRules(min_speech=0.1, min_silence=0.2, pad=0.05)
DETECTORS = ("silero", "energy", "none")


def make_detector(name: str, file: str = "", **changed: float | None) -> Detector:
    """The detector of a name; `changed` are fields of SpanRules, None where the usual will do."""
    given = {key: value for key, value in changed.items() if value is not None}
    if name == "none":
        if given or file:
            raise UsageError("vad 'none' detects nothing: it takes no settings")
        return NoDetector()
    if name == "energy":
        if file:
            raise UsageError("vad 'energy' has no model; leave out the file")
        return EnergyDetector(replace(ENERGY_RULES, **given))
    if name == "silero":
        return SileroDetector(replace(SpanRules(), **given), file)
    raise UsageError(f"vad '{name}': expected {' or '.join(DETECTORS)}")
