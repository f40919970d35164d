"""Stretches of speech, from the probability of speech in each window.

The rules are those of silero's own package: speech starts where a window reaches the threshold and
ends where the probability stays below a lower one for a while; what is too short is no speech; a
little is added on both sides. They are followed window by window here, so that a call that is
still going on and a file get the same stretches.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dcaplda.runtime.errors import UsageError

Span = tuple[int, int]
"""First sample, and the one after the last."""

HYSTERESIS, LEAST_THRESHOLD = 0.15, 0.01
"""Speech ends so much below the threshold where it starts, but not below the second."""


@dataclass(frozen=True, kw_only=True)
class SpanRules:
    """What makes a stretch of speech; seconds, but for the threshold."""

    threshold: float = 0.5
    """Probability from which on a window starts speech."""
    min_speech: float = 0.25
    """A shorter stretch is no speech."""
    min_silence: float = 0.1
    """A shorter pause does not end a stretch."""
    pad: float = 0.03
    """Added on both sides of a stretch."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if not 0 < self.threshold < 1:
            raise UsageError(f"speech threshold {self.threshold:g}: expected between 0 and 1")
        for name in ("min_speech", "min_silence", "pad"):
            if not 0 <= getattr(self, name) < 60:
                raise UsageError(f"{name} = {getattr(self, name):g} s: expected 0 to 60")
        if self.pad > self.min_silence:
            raise UsageError(
                f"pad = {self.pad:g} s: cannot be longer than min_silence = {self.min_silence:g} s"
            )


class SpanFinder:
    """Takes probabilities one by one and gives out what is then sure to be speech."""

    def __init__(self, rules: SpanRules, rate: int, window: int) -> None:
        self._rules = rules
        self._window = window
        self._exit = max(rules.threshold - HYSTERESIS, LEAST_THRESHOLD)
        self._min_speech = rules.min_speech * rate
        self._min_silence = rules.min_silence * rate
        self._pad = int(rules.pad * rate)
        self._heard = 0
        self._start: int | None = None
        self._quiet: int | None = None
        self._given = 0

    @property
    def undecided(self) -> int:
        """First sample that may still turn out to be speech."""
        if self._start is None:
            return max(self._given, self._heard - self._pad)
        return max(self._given, self._start - self._pad)

    def accept(self, probability: float) -> Span | None:
        """Take in the next window."""
        begin = self._heard
        self._heard += self._window
        if probability >= self._rules.threshold:
            self._quiet = None
            if self._start is None:
                self._start = begin
        elif probability < self._exit and self._start is not None:
            if self._quiet is None:
                self._quiet = begin
            if begin - self._quiet >= self._min_silence:
                return self._close(self._quiet)
        if self._start is None or self._quiet is not None:
            return None
        if self._heard - self._start > self._min_speech:
            return self._give(self._start - self._pad, self._heard)
        return None

    def finish(self, total: int) -> Span | None:
        """The signal ends after `total` samples: the last window may be padded."""
        start, self._start = self._start, None
        if start is None or total - start <= self._min_speech:
            return None
        return self._give(start - self._pad, total)

    def _close(self, end: int) -> Span | None:
        start, self._start, self._quiet = self._start, None, None
        assert start is not None
        if end - start <= self._min_speech:
            return None
        return self._give(start - self._pad, end + self._pad)

    def _give(self, begin: int, end: int) -> Span | None:
        begin = max(begin, self._given)
        if end <= begin:
            return None
        self._given = end
        return begin, end


def find_spans(
    probabilities: Iterable[float], rules: SpanRules, rate: int, window: int, total: int
) -> list[Span]:
    """The stretches of a whole signal of `total` samples."""
    finder = SpanFinder(rules, rate, window)
    found = [finder.accept(value) for value in probabilities]
    found.append(finder.finish(total))
    spans: list[Span] = []
    for span in found:
        if span is None:
            continue
        begin, end = span[0], min(span[1], total)
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], end
        elif begin < end:
            spans.append((begin, end))
    return spans
