"""What a set of scores says through its order alone: ROC, its convex hull, PAV.

The score axis is cut into groups: one for each distinct target score (with the nontargets that
tie with it) and one for each gap between two of them. Nothing changes inside a gap but the
count of nontargets, so the groups keep every corner of the ROC while the memory depends on the
targets only: 24 million trials with 240,000 targets become 480,001 groups.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.metrics.scores import Floats, checked_pair, dot


@dataclass(frozen=True)
class Ranking:
    """Mass (count or weight) of both classes in each group, by rising score."""

    target: Floats
    nontarget: Floats

    @cached_property
    def miss_rate(self) -> Floats:
        """Share of targets below each threshold between groups, from -inf to +inf."""
        return np.concatenate([[0.0], np.cumsum(self.target)]) / self.target.sum()

    @cached_property
    def false_alarm_rate(self) -> Floats:
        """Share of nontargets at or above the same thresholds."""
        below = np.concatenate([[0.0], np.cumsum(self.nontarget)]) / self.nontarget.sum()
        return 1.0 - below

    def auc(self) -> float:
        """Probability that a target outscores a nontarget, ties counting one half."""
        below = np.cumsum(self.nontarget) - self.nontarget
        wins = dot(self.target, below + 0.5 * self.nontarget)
        return float(wins / (self.target.sum() * self.nontarget.sum()))

    def pool(self) -> "Ranking":
        """Pool adjacent violators: groups whose target share rises, the ROC's convex hull.

        scipy's isotonic regression of the share of targets on the score. The pools do not
        depend on the balance of the classes, so one pass serves every prior.
        """
        from scipy.optimize import isotonic_regression

        total = self.target + self.nontarget
        present = total > 0  # gaps without a nontarget, and trials of weight 0
        target, nontarget, total = self.target[present], self.nontarget[present], total[present]
        starts = isotonic_regression(target / total, weights=total).blocks[:-1]
        return Ranking(np.add.reduceat(target, starts), np.add.reduceat(nontarget, starts))

    def pool_llrs(self) -> Floats:
        """LLR that the counts of each group imply; infinite where one class is absent."""
        with np.errstate(divide="ignore"):
            llrs: Floats = (np.log(self.target) - np.log(self.target.sum())) - (
                np.log(self.nontarget) - np.log(self.nontarget.sum())
            )
        return llrs

    def pav_llrs(self, groups: NDArray[np.int64]) -> Floats:
        """Calibrated LLR of each group number, from its pool; an empty group is as its left."""
        from scipy.optimize import isotonic_regression

        total = self.target + self.nontarget
        present = np.flatnonzero(total > 0)
        weights = total[present]
        share = isotonic_regression(self.target[present] / weights, weights=weights).x
        place = np.searchsorted(present, groups, side="right") - 1
        chosen = share[np.maximum(place, 0)]
        with np.errstate(divide="ignore"):
            llrs: Floats = np.log(chosen) - np.log1p(-chosen)
        llrs -= np.log(self.target.sum() / self.nontarget.sum())
        return llrs

    def equal_error_rate(self) -> float:
        """Where miss rate and false alarm rate meet, on straight lines between the corners."""
        excess = self.miss_rate - self.false_alarm_rate  # from -1 to 1, never falling
        right = int(np.searchsorted(excess, 0.0))
        left = right - 1
        share = -excess[left] / (excess[right] - excess[left])
        step = self.miss_rate[right] - self.miss_rate[left]
        return float(self.miss_rate[left] + share * step)


def rank(target: Floats, nontarget: Floats) -> Ranking:
    """Count both classes in each group; O(n log n) time, the scores may be infinite."""
    target, nontarget = checked_pair(target, nontarget)
    corners, n_target = np.unique(target, return_counts=True)
    ordered = np.sort(nontarget)
    below = np.searchsorted(ordered, corners, side="left")
    through = np.searchsorted(ordered, corners, side="right")
    masses = np.zeros((2, 2 * corners.size + 1))
    masses[0, 1::2] = n_target
    masses[1, 1::2] = through - below
    masses[1, 0:-1:2] = below - np.concatenate([[0], through[:-1]])
    masses[1, -1] = ordered.size - through[-1]
    return Ranking(masses[0], masses[1])


def groups_of(corners: Floats, scores: Floats) -> NDArray[np.int64]:
    """Group number of any score, given the distinct target scores."""
    below = np.searchsorted(corners, scores, side="left")
    through = np.searchsorted(corners, scores, side="right")
    # A score that ties with corner i has through = below + 1 = i + 1: group 2i + 1.
    return below + through


@dataclass(frozen=True)
class Ranker:
    """The group of every trial, to rank the same trials again under other weights."""

    target_group: np.ndarray
    nontarget_group: np.ndarray
    n_groups: int

    @classmethod
    def of(cls, target: Floats, nontarget: Floats) -> "Ranker":
        """Find the groups once."""
        target, nontarget = checked_pair(target, nontarget)
        corners, position = np.unique(target, return_inverse=True)
        return cls(
            2 * position.reshape(-1) + 1, groups_of(corners, nontarget), 2 * corners.size + 1
        )

    def rank(self, target_weights: Floats, nontarget_weights: Floats) -> Ranking:
        """Sum the weights of both classes in each group; O(n)."""
        target = np.bincount(self.target_group, target_weights, self.n_groups)
        nontarget = np.bincount(self.nontarget_group, nontarget_weights, self.n_groups)
        return Ranking(target.astype(np.float64), nontarget.astype(np.float64))
