"""Another sample rate, by soxr: whole signals, and signals that come piece by piece."""

import numpy as np
import soxr

from dcaplda.audio.signal.samples import Float32

QUALITY = "HQ"


def resampled(samples: Float32, rate: int, wanted: int) -> Float32:
    """The signal at another rate; itself if it has that rate."""
    if rate == wanted:
        return samples
    return np.ascontiguousarray(soxr.resample(samples, rate, wanted, quality=QUALITY), np.float32)


class Resampler:
    """The same for a signal that comes in pieces; what it holds back comes with the last one."""

    def __init__(self, rate: int, wanted: int) -> None:
        self._stream = None
        if rate != wanted:
            self._stream = soxr.ResampleStream(rate, wanted, 1, dtype="float32", quality=QUALITY)

    def accept(self, samples: Float32, last: bool = False) -> Float32:
        """Samples at the wanted rate, as far as they are known."""
        if self._stream is None:
            return samples
        return np.ascontiguousarray(self._stream.resample_chunk(samples, last=last), np.float32)
