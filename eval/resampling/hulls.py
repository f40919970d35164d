"""The ROC and its convex hull for many weightings of the same runs of trials.

Rows are draws, columns runs by rising score; `metrics.ranking` has the same for one draw.
"""

from dataclasses import dataclass

import numpy as np

from dcaplda.eval.metrics.calibration import entropy
from dcaplda.eval.metrics.scalars import default_cost
from dcaplda.eval.metrics.scores import Floats, softplus
from dcaplda.runtime.decision import log_odds

NEXT_TO_NOTHING = 1e-300


@dataclass(frozen=True)
class Masses:
    """Weight of both classes in each run or pool, (draws, columns); some may be empty."""

    target: Floats
    nontarget: Floats

    def auc(self) -> Floats:
        """Probability that a target outscores a nontarget, ties counting one half."""
        half = 0.5 * self.nontarget
        below = np.cumsum(self.nontarget, axis=1)
        below -= half
        wins = np.einsum("rg,rg->r", self.target, below)
        found: Floats = wins / (self.target.sum(axis=1) * self.nontarget.sum(axis=1))
        return found

    def rates(self) -> tuple[Floats, Floats]:
        """Miss and false alarm rate at each threshold between columns, from -inf to +inf."""
        shares = []
        for masses in (self.target, self.nontarget):
            passed = np.zeros((masses.shape[0], masses.shape[1] + 1))
            np.cumsum(masses, axis=1, out=passed[:, 1:])
            passed /= masses.sum(axis=1, keepdims=True)
            shares.append(passed)
        return shares[0], 1.0 - shares[1]

    def pool(self) -> "Masses":
        """Pool adjacent violators in each row: `Ranking.pool`, rows filled up with empty pools.

        One pass for all rows: row r is lifted by 2 r, so that no pool reaches across rows. An empty
        column weighs next to nothing, and so joins a neighbour or is an empty pool.
        """
        from scipy.optimize import isotonic_regression

        n_rows, n_columns = self.target.shape
        total = self.target + self.nontarget
        np.maximum(total, NEXT_TO_NOTHING, out=total)
        share = self.target / total
        share += 2.0 * np.arange(n_rows)[:, None]
        starts = isotonic_regression(share.ravel(), weights=total.ravel()).blocks[:-1]
        row = starts // n_columns
        n_pools = np.bincount(row, minlength=n_rows)
        column = np.arange(row.size) - (np.cumsum(n_pools) - n_pools)[row]
        pools = np.zeros((2, n_rows, int(n_pools.max())))
        pools[0, row, column] = np.add.reduceat(self.target.ravel(), starts)
        pools[1, row, column] = np.add.reduceat(self.nontarget.ravel(), starts)
        return Masses(pools[0], pools[1])


def equal_error_rates(miss: Floats, false_alarm: Floats) -> Floats:
    """Where the two rates of each row meet, on straight lines between the corners."""
    excess = miss - false_alarm  # from -1 to 1, never falling
    right = np.argmax(excess >= 0.0, axis=1)[:, None]
    low, high = (np.take_along_axis(excess, place, 1) for place in (right - 1, right))
    before, after = (np.take_along_axis(miss, place, 1) for place in (right - 1, right))
    found: Floats = (before - low / (high - low) * (after - before))[:, 0]
    return found


def min_dcfs(
    miss: Floats, false_alarm: Floats, prior: float, costs: tuple[float, float], normalize: bool
) -> Floats:
    """Least detection cost of each row over all thresholds."""
    cost = prior * costs[0] * miss + (1.0 - prior) * costs[1] * false_alarm
    least: Floats = cost.min(axis=1)
    return least / default_cost(prior, *costs) if normalize else least


def pooled_cllrs(pools: Masses, prior: float) -> Floats:
    """Cllr of the LLRs that PAV gave to the pools of each row."""
    share = [m / m.sum(axis=1, keepdims=True) for m in (pools.target, pools.nontarget)]
    with np.errstate(divide="ignore", invalid="ignore"):
        logits = np.log(share[0]) - np.log(share[1]) + log_odds(prior)
    losses = np.zeros(share[0].shape[0])
    for part, sign, weight in ((share[0], -1.0, prior), (share[1], 1.0, 1.0 - prior)):
        # A pool that has none of a class loses nothing on it, whatever its infinite LLR.
        lost = softplus(sign * np.where(part > 0, logits, 0.0))
        losses += weight * np.einsum("rp,rp->r", part, lost)
    return losses / entropy(prior)
