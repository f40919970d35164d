"""Stream: a call that is going on, with an embedding whenever enough new speech came."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.audio.signal.resampling import Resampler
from dcaplda.audio.signal.samples import Float32, checked_rate, checked_samples
from dcaplda.audio.speech.spans import Span
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    from dcaplda.audio.extractor import Embedded, Extractor


class Stream:
    """One channel of a call; made by Extractor.stream, for one thread at a time.

    Embeddings are of pieces of speech that follow each other and do not overlap, as the running
    evidence of a call wants them. How the samples are cut into pieces by the caller changes
    nothing.

    >>> call = backend.evidence(ann, prior=0.01)                              # doctest: +SKIP
    >>> for embedding, seconds in stream.accept(samples):                     # doctest: +SKIP
    ...     answer = call.add(embedding, seconds)
    """

    def __init__(self, extractor: "Extractor", sample_rate: int, every: float) -> None:
        if not extractor.min_duration <= every <= extractor.chunk:
            raise UsageError(
                f"every = {every:g} s of speech: expected {extractor.min_duration:g} "
                f"(min_duration) to {extractor.chunk:g} (chunk)"
            )
        self._extractor = extractor
        self._resampler = Resampler(checked_rate(sample_rate, "stream"), extractor.sample_rate)
        self._detection = extractor.detector.stream(extractor.sample_rate)
        self._piece = int(every * extractor.sample_rate)
        self._signal = np.zeros(0, np.float32)
        self._first = 0  # number of the first sample that is kept
        self._speech = np.zeros(0, np.float32)
        self._heard = 0
        self._done = False

    @property
    def heard(self) -> float:
        """Seconds of speech so far, in embeddings or waiting for one."""
        return self._heard / self._extractor.sample_rate

    @property
    def waiting(self) -> float:
        """Seconds of speech that are in no embedding yet."""
        return len(self._speech) / self._extractor.sample_rate

    def accept(self, samples: ArrayLike) -> "list[Embedded]":
        """Take in what was recorded since; gives an embedding for each piece that is full."""
        if self._done:
            raise UsageError("the stream was finished; start another")
        if not np.size(samples):
            return []
        self._keep(self._resampler.accept(checked_samples(samples, "stream")))
        return self._full_pieces()

    def finish(self) -> "list[Embedded]":
        """The call has ended: what was waiting, if it is long enough."""
        if self._done:
            return []
        self._keep(self._resampler.accept(np.zeros(0, np.float32), last=True))
        self._done = True
        self._take(self._detection.finish())
        made = self._full_pieces()
        if self.waiting >= self._extractor.min_duration:
            made.append(self._embedded(self._speech))
            self._speech = self._speech[:0]
        return made

    def _keep(self, samples: Float32) -> None:
        self._signal = np.concatenate([self._signal, samples])
        self._take(self._detection.accept(samples))
        old = self._detection.undecided - self._first
        if old > 0:
            self._signal = self._signal[old:]
            self._first += old

    def _take(self, spans: list[Span]) -> None:
        pieces = [self._signal[begin - self._first : end - self._first] for begin, end in spans]
        self._heard += sum(map(len, pieces))
        self._speech = np.concatenate([self._speech, *pieces])

    def _full_pieces(self) -> "list[Embedded]":
        made = []
        while len(self._speech) >= self._piece:
            made.append(self._embedded(self._speech[: self._piece]))
            self._speech = self._speech[self._piece :]
        return made

    def _embedded(self, speech: Float32) -> "Embedded":
        from dcaplda.audio.extractor import Embedded

        embedding, _ = self._extractor.embed(speech)
        return Embedded(embedding, len(speech) / self._extractor.sample_rate)
