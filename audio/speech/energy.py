"""The plain detector: speech is what is not much softer than the loudest part of a recording.

For single words and the like in quiet rooms, where silero misses short ones. It needs the whole
recording, and takes music and noise for speech.
"""

import numpy as np

from dcaplda.audio.signal.samples import Float32

WINDOW_SECONDS = 0.02
RANGE_DB = 30.0
"""Windows that are so much softer than the loud ones are no speech."""
LOUD = 95
"""Percentile of the windows' levels that counts as loud."""
SILENCE_DB = -70.0
"""Levels below this, where 0 is a full-scale square wave, are never speech."""


def window_of(rate: int) -> int:
    """Samples of a window."""
    return round(WINDOW_SECONDS * rate)


def loud_windows(samples: Float32, rate: int) -> Float32:
    """1 for each window that is loud enough, else 0."""
    window = window_of(rate)
    padded = np.zeros(-(-len(samples) // window) * window)
    padded[: len(samples)] = samples
    power = np.square(padded).reshape(-1, window).mean(axis=1)
    levels = 10 * np.log10(np.maximum(power, 1e-20))
    least = max(float(np.percentile(levels, LOUD)) - RANGE_DB, SILENCE_DB)
    return (levels >= least).astype(np.float32)
