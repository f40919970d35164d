"""How large the LLR of a row that was not looked at can be, at most: what the stop rule rests on.

The score of a row is that of its codes and what the codes got wrong, q'r, which is at most |q| |r|
(both in the scale in which that says most). A scan adds |q| times what |r| is more than usual, as
the row's codes tell it, so that |q| times the usual one is left. A score that is at most S gives an
LLR of at most alpha S + beta, with the largest that scales and shifts can be over the conditions of
the rows: these are sorted into cells, and a cell is the box of what is in it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.codes.forms import Forms
from dcaplda.runtime.gallery.codes.quantizer import Coding, Quantizer, Query

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

CELLS = 64
ROUNDS = 8
SLACK = 1e-3
"""Of arithmetic in float32, in an LLR and in parts of it."""


@dataclass(frozen=True, eq=False)
class Bounds:
    """What the codes of a gallery got wrong at most, and boxes (cells, conditions) of its rows."""

    beyond: float
    """How much longer the errors of a row are than its codes say."""
    own: float
    low: Float64
    high: Float64

    def score_error(self, quantizer: Quantizer, query: Query) -> float:
        """How much more the score of a row can be than what a scan finds."""
        length = query.length * (quantizer.usual + self.beyond)
        return length + self.own + quantizer.rounding(query)

    def ceiling(self, forms: Forms, probe: Float32) -> "Ceiling":
        """What calibration makes of scores of a probe (K,), at most."""
        sides = forms.sides(probe)[1:, forms.conditions]
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        values, spread = middle @ sides.T, half @ np.abs(sides.T)
        return Ceiling(values - spread, values + spread)


@dataclass(frozen=True, eq=False)
class Ceiling:
    """Least and largest scales and shifts (cells, scale and shift by turns) for one probe."""

    lowest: Float64
    highest: Float64

    def largest_llr(self, score: float) -> float:
        """The largest LLR of any row whose score is at most `score`; infinite if none is known."""
        top = np.full(len(self.lowest), score)
        for stage in range(0, self.lowest.shape[1], 2):
            # With a scale that may be negative, the least score would give the largest LLR.
            known = self.lowest[:, stage] >= 0.0
            scaled = np.maximum(self.lowest[:, stage] * top, self.highest[:, stage] * top)
            top = np.where(known, scaled + self.highest[:, stage + 1], np.inf)
        most = float(top.max())
        return most + SLACK * (1.0 + abs(most)) if np.isfinite(most) else most

    def needed_score(self, llr: float) -> float:
        """The least score that may give such an LLR."""
        least = np.full(len(self.lowest), llr)
        for stage in reversed(range(0, self.lowest.shape[1], 2)):
            least = least - self.highest[:, stage + 1]
            scale = np.where(least > 0, self.highest[:, stage], self.lowest[:, stage])
            least = np.where(scale > 0, least / np.where(scale > 0, scale, 1.0), -np.inf)
        return float(least.min())


def expected_missed(scores: Float32, needed: float, usual_error: float) -> float:
    """How many rows behind the last of `scores` reach a score, if codes err at random.

    The scores of codes, the largest first, thin out upwards about exponentially, with a rate that
    their mean above the last one tells; below it they are taken to go on so. What codes get wrong
    is taken to be normal: n = N (exp(d r^2 / 2 - r gap) Q(gap / d - r d) - Q(gap / d)) with the
    rate r, the deviation d and the tail Q of the normal distribution.
    """
    gap, deviation = needed - float(scores[-1]), max(usual_error, 1e-9)
    mean = float((scores - scores[-1]).mean())
    if not math.isfinite(gap) or mean <= 0.0:
        return math.inf
    rate = 1.0 / mean
    above = math.exp(min((deviation * rate) ** 2 / 2 - rate * gap, 700.0))
    tails = above * _tail(gap / deviation - rate * deviation) - _tail(gap / deviation)
    return len(scores) * max(tails, 0.0)


def _tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2.0))


class Survey:
    """Gathers the bounds while rows are coded."""

    def __init__(self, forms: Forms, rows: Float32) -> None:
        self._forms = forms
        self._beyond = self._own = 0.0
        conditions = rows[:, forms.conditions].astype(np.float64)
        spread = conditions.std(axis=0)
        self._scale = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), 0.0)
        self._centres = _centres(conditions * self._scale)
        self._low = np.full((len(self._centres), len(forms.conditions)), np.inf)
        self._high = -self._low

    def add(self, rows: Float32, coding: Coding) -> None:
        """Take in rows, and what their codes leave out."""
        self._beyond = max(self._beyond, float(coding.beyond.max()))
        self._own = max(self._own, float(coding.own_error.max()))
        conditions = rows[:, self._forms.conditions].astype(np.float64)
        cells = _nearest(conditions * self._scale, self._centres)
        order = np.argsort(cells, kind="stable")
        present, begins = np.unique(cells[order], return_index=True)
        least = np.minimum.reduceat(conditions[order], begins, axis=0)
        most = np.maximum.reduceat(conditions[order], begins, axis=0)
        self._low[present] = np.minimum(self._low[present], least)
        self._high[present] = np.maximum(self._high[present], most)

    def bounds(self) -> Bounds:
        """What holds for all rows that were taken in."""
        used = np.isfinite(self._low).all(axis=1)
        return Bounds(self._beyond, self._own, self._low[used], self._high[used])


def _centres(points: Float64) -> Float64:
    """Centres of cells for such conditions: some of the points, moved to the means."""
    if not points.shape[1]:
        return np.zeros((1, 0))
    centres = points[np.linspace(0, len(points) - 1, min(CELLS, len(points))).astype(int)]
    for _ in range(ROUNDS):
        cells = _nearest(points, centres)
        counts = np.bincount(cells, minlength=len(centres))
        sums = np.zeros_like(centres)
        np.add.at(sums, cells, points)
        centres = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
    return centres


def _nearest(points: Float64, centres: Float64) -> NDArray[np.int64]:
    distances = (centres**2).sum(axis=1) - 2.0 * points @ centres.T
    return distances.argmin(axis=1)
