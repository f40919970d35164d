"""One number of a row in a few codes of four bits: a rung of a ladder, and where around it.

A scan rounds the products of all codes alike, by the widest. So the rung stands in several codes,
each of which brings a part of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Levels = NDArray[np.uint8]

LEVELS = 16


@dataclass(frozen=True)
class Ladder:
    """Rungs bottom + step * 0, 1, ... 15, each in `copies` codes, and one code of what is left."""

    bottom: float
    step: float
    copies: int

    @property
    def codes(self) -> int:
        """Codes of a number."""
        return self.copies + 1

    @property
    def grain(self) -> float:
        """How far a number on the ladder and what its codes stand for are apart at most."""
        return self.step / (2 * LEVELS)

    def levels(self, values: Float64) -> Levels:
        """The codes (n, codes) of numbers; those beyond the ladder get its ends."""
        rung = np.clip(np.rint((values - self.bottom) / self.step), 0, LEVELS - 1)
        left = (values - self.bottom) / self.step - rung
        place = np.clip(np.floor((left + 0.5) * LEVELS), 0, LEVELS - 1)
        return np.column_stack([*[rung] * self.copies, place]).astype(np.uint8)

    def values(self, levels: Levels) -> Float64:
        """What codes (n, codes) stand for."""
        steps = self.steps()
        return sum((steps[code, levels[:, code]] for code in range(self.codes)), start=np.zeros(1))

    def steps(self) -> Float64:
        """What each level of each code adds: (codes, 16)."""
        rungs = (self.bottom + self.step * np.arange(LEVELS)) / self.copies
        places = self.step * ((np.arange(LEVELS) + 0.5) / LEVELS - 0.5)
        return np.stack([*[rungs] * self.copies, places])


def ladder_for(values: Float64, spare: float, copies: int) -> Ladder:
    """A ladder for numbers like these, that reaches farther by a share of their range."""
    low, high = float(values.min()), float(values.max())
    reach = max(high - low, 1e-6) * spare
    return Ladder(low - reach, (high - low + 2 * reach) / (LEVELS - 1), copies)
