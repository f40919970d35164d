"""What samples may be: numbers between -1 and 1, or integers of a sound card."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import AudioError

Float32 = NDArray[np.float32]

LOUDEST = 64.0
"""Floats beyond this are integers in disguise; a float file may pass 1 a little."""
LOWEST_RATE, HIGHEST_RATE = 4000, 1_000_000
_FULL_SCALE = {"int16": 1 << 15, "int32": 1 << 31}


def checked_rate(rate: Any, place: str) -> int:
    """A sample rate that speech can have."""
    try:
        known = int(rate)
        whole = known == rate
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or not LOWEST_RATE <= known <= HIGHEST_RATE:
        raise AudioError(
            f"'{place}': sample rate {rate!r}; expected {LOWEST_RATE} to {HIGHEST_RATE} a second"
        )
    return known


def checked_samples(samples: Any, place: str) -> Float32:
    """Samples (n,) as float32 between about -1 and 1; int16 and int32 are scaled."""
    try:
        signal = np.asarray(samples)
    except (TypeError, ValueError) as error:
        raise AudioError(f"'{place}': not an array of samples ({error})") from None
    if signal.ndim == 2 and 1 in signal.shape:
        signal = signal.reshape(-1)
    if signal.ndim != 1:
        raise AudioError(f"'{place}': samples of shape {signal.shape}; expected one channel, (n,)")
    if not len(signal):
        raise AudioError(f"'{place}': has no samples; record or copy it again")
    scale = _FULL_SCALE.get(signal.dtype.name)
    if scale is not None:
        return signal.astype(np.float32) / np.float32(scale)
    if signal.dtype.kind != "f":
        raise AudioError(
            f"'{place}': samples of type {signal.dtype.name}; expected floats, int16 or int32"
        )
    with np.errstate(over="ignore"):
        signal = np.ascontiguousarray(signal, np.float32)
    finite = np.isfinite(signal)
    if not finite.all():
        first = int(np.argmin(finite))
        raise AudioError(
            f"'{place}': sample {first + 1} is {signal[first]} ({int((~finite).sum())} such); "
            "decode or record it again"
        )
    loudest = float(np.abs(signal).max())
    if loudest > LOUDEST:
        raise AudioError(
            f"'{place}': samples reach {loudest:g}; floats go from -1 to 1 (divide by 32768, or "
            "hand over int16)"
        )
    return signal
