"""Measures of forensic validation: bounds of supported LLRs, distance from calibration, ECE.

All take and give natural-log LLRs, as everywhere here; the literature has them in powers of ten
(`LOG10`). Weights are whole numbers, as a draw of speakers gives them: a trial of weight 2 counts
as two trials.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.eval.metrics.calibration import cross_entropy, entropy
from dcaplda.eval.metrics.ranking import rank
from dcaplda.eval.metrics.scalars import pooled_cllr
from dcaplda.eval.metrics.scores import Floats, checked_pair, checked_weights

LOG10 = math.log(10.0)
"""Natural log of ten: an LLR divided by it counts powers of ten."""
STEP = 0.01
"""Distance of the thresholds at which the bounds are looked for, in powers of ten."""
FARTHEST = 9.0
"""Larger LLRs, infinite ones among them, count as this many powers of ten."""


class SupportedRange:
    """Empirical lower and upper bound of LLRs (ELUB), for many weightings of the same trials.

    Vergeer, van Es, de Jongh, Alberink and Stoel, Science and Justice 56 (2016). Somebody decides
    by comparing the LR with a threshold t, and misses cost 1, false acceptances t. The LRs are of
    use at t if that costs no more than deciding without them, min(1, t), even when one more target
    with the lowest and one more nontarget with the highest LR is added. The bounds are the
    thresholds next to 1, on either side, up to which they are.
    """

    def __init__(self, target: ArrayLike, nontarget: ArrayLike) -> None:
        target, nontarget = checked_pair(target, nontarget)
        self.sizes = target.size, nontarget.size
        powers = [np.clip(llrs / LOG10, -FARTHEST, FARTHEST) for llrs in (target, nontarget)]
        self.ends = min(p.min() for p in powers), max(p.max() for p in powers)
        self.orders = [np.argsort(p, kind="stable") for p in powers]
        self.ratios = [10.0 ** p[order] for p, order in zip(powers, self.orders, strict=True)]

    def bounds(
        self, target_weights: ArrayLike | None = None, nontarget_weights: ArrayLike | None = None
    ) -> tuple[float, float]:
        """The lower bound, at most 0, and the upper one, at least 0."""
        given = (target_weights, "target"), (nontarget_weights, "nontarget")
        weights = [
            checked_weights(w, size, kind)
            for (w, kind), size in zip(given, self.sizes, strict=True)
        ]
        totals = [
            float(size if w is None else w.sum())
            for w, size in zip(weights, self.sizes, strict=True)
        ]
        powers = self._thresholds(totals)
        thresholds = 10.0**powers
        accepted = [self._above(k, weights[k], thresholds) for k in (0, 1)]
        cost = 1.0 - accepted[0] / (totals[0] + 1.0)
        cost = cost + thresholds * ((accepted[1] + 1.0) / (totals[1] + 1.0))
        harmful = np.where(thresholds < 1.0, thresholds, 1.0) / cost < 1.0
        below = powers[harmful & (powers <= 0.0)] + STEP
        above = powers[harmful & (powers >= 0.0)] - STEP
        low = min(float(np.max(below, initial=powers[0])), 0.0)
        high = max(float(np.min(above, initial=powers[-1])), 0.0)
        return low * LOG10, high * LOG10

    def _thresholds(self, totals: list[float]) -> Floats:
        """Where to look: n trials of a class cannot support more than n + 1 to one."""
        low = max(self.ends[0], -math.log10(totals[0] + 1.0))
        high = min(self.ends[1], math.log10(totals[1] + 1.0))
        first = min(0, math.floor(low / STEP))
        last = max(0, math.floor(high / STEP) + 1)
        return np.linspace(first * STEP, last * STEP, last - first + 1)

    def _above(self, kind: int, weights: Floats | None, thresholds: Floats) -> Floats:
        """Trials of a class whose LR is above each threshold."""
        place = np.searchsorted(self.ratios[kind], thresholds, side="right")
        if weights is None:
            return (self.sizes[kind] - place).astype(np.float64)
        passed = np.concatenate([[0.0], np.cumsum(weights[self.orders[kind]])])
        return passed[-1] - passed[place]


def elub(target: ArrayLike, nontarget: ArrayLike) -> tuple[float, float]:
    """Empirical lower and upper bound of LLRs that these trials support; see SupportedRange."""
    return SupportedRange(target, nontarget).bounds()


def devpav(target: ArrayLike, nontarget: ArrayLike) -> float:
    """Mean distance of LLRs from those that PAV makes of them; see calibration_distance."""
    return calibration_distance(target, nontarget)[0]


def calibration_distance(
    target: ArrayLike,
    nontarget: ArrayLike,
    target_weights: ArrayLike | None = None,
    nontarget_weights: ArrayLike | None = None,
) -> tuple[float, float]:
    """Mean distance of LLRs from those that PAV makes of them (devPAV), and the mean excess.

    Means along the LLR axis. The PAV curve goes in straight lines from score to score; where one
    class is absent it is infinite and not looked at. NaN where that is everywhere: a threshold
    separates the classes. Infinity where infinite LLRs are in a pool of both classes. The excess
    is positive where LLRs are too high.
    """
    target, nontarget = checked_pair(target, nontarget)
    masses = [
        np.ones(scores.size) if w is None else np.asarray(w, dtype=np.float64)
        for scores, w in ((target, target_weights), (nontarget, nontarget_weights))
    ]
    x, y = _pav_corners(target, nontarget, masses)
    if not x.size:
        return math.nan, math.nan
    if not np.isfinite(x).all():
        return math.inf, math.nan
    off = y - x
    steps = np.diff(x)
    width = float(x[-1] - x[0])
    if width == 0.0:
        return float(abs(off[0])), float(-off[0])
    before, after = off[:-1], off[1:]
    sides = np.abs(before) + np.abs(after)
    crossing = before * after < 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        # Two triangles where the curve crosses the diagonal, else a trapezium.
        mean = np.where(crossing, (before**2 + after**2) / (2.0 * sides), sides / 2.0)
    excess = -float(np.sum((before + after) / 2.0 * steps)) / width
    return float(np.sum(mean * steps)) / width, excess


def _pav_corners(target: Floats, nontarget: Floats, masses: list[Floats]) -> tuple[Floats, Floats]:
    """First and last score of each pool that has both classes, and the pools' LLRs."""
    from scipy.optimize import isotonic_regression

    scores, place = np.unique(np.concatenate([target, nontarget]), return_inverse=True)
    place = place.reshape(-1)
    in_target = np.bincount(place[: target.size], masses[0], scores.size)
    in_nontarget = np.bincount(place[target.size :], masses[1], scores.size)
    present = in_target + in_nontarget > 0.0
    scores, in_target, in_nontarget = scores[present], in_target[present], in_nontarget[present]
    total = in_target + in_nontarget
    blocks = isotonic_regression(in_target / total, weights=total).blocks
    pools = [np.add.reduceat(mass, blocks[:-1]) for mass in (in_target, in_nontarget)]
    both = (pools[0] > 0.0) & (pools[1] > 0.0)
    llrs = np.log(pools[0][both] / in_target.sum()) - np.log(pools[1][both] / in_nontarget.sum())
    ends = np.stack([scores[blocks[:-1]], scores[blocks[1:] - 1]], axis=1)[both]
    return ends.reshape(-1), np.repeat(llrs, 2)


def ece(target: ArrayLike, nontarget: ArrayLike, priors: ArrayLike) -> Floats:
    """Empirical cross-entropy in bits at each prior: what is not known after hearing the LLRs."""
    found = [cross_entropy(target, nontarget, float(prior)) for prior in np.atleast_1d(priors)]
    return np.array(found) / math.log(2.0)


def ece_after_pav(target: ArrayLike, nontarget: ArrayLike, priors: ArrayLike) -> Floats:
    """The same after the best monotone calibration on these very trials."""
    pooled = rank(*checked_pair(target, nontarget)).pool()
    found = [
        pooled_cllr(pooled, float(prior)) * entropy(float(prior)) for prior in np.atleast_1d(priors)
    ]
    return np.array(found) / math.log(2.0)


def ece_of_nothing(priors: ArrayLike) -> Floats:
    """The same without any LLR: the entropy of the prior."""
    return np.array([entropy(float(prior)) for prior in np.atleast_1d(priors)]) / math.log(2.0)
