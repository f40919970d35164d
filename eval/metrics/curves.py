"""The curves behind the pictures: a few hundred points each, whatever the number of trials."""

from dataclasses import dataclass

import numpy as np

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.measure import Settings
from dcaplda.eval.metrics.ranking import Ranking, groups_of, rank
from dcaplda.eval.metrics.scores import Floats, checked_pair
from dcaplda.runtime.decision import bayes_threshold

N_POINTS = 400
N_BINS = 70
PRIOR_LOG_ODDS = np.linspace(-8.0, 8.0, 161)
"""Grid of the applied-probability-of-error plot; the paper's priors lie at 0 and -4.6."""


@dataclass(frozen=True)
class OperatingPoint:
    """Error rates at the Bayes threshold of a prior, and at the best threshold."""

    prior: float
    threshold: float
    actual: tuple[float, float]
    best: tuple[float, float]


@dataclass(frozen=True)
class Curves:
    """Points of every picture of one set of scores; rates are fractions."""

    det_miss: Floats
    det_false_alarm: Floats
    points: list[OperatingPoint]
    grid: Floats
    """Scores at which the Tippett curves are read."""
    target_above: Floats
    nontarget_above: Floats
    pav_scores: Floats
    pav_llrs: Floats
    """Calibrated LLR of PAV at `pav_scores`; infinite pools are left out."""
    actual_error: Floats
    """Bayes error over PRIOR_LOG_ODDS, normalized by the better blind answer."""
    minimum_error: Floats
    bin_edges: Floats
    target_density: Floats
    nontarget_density: Floats


def _window(target: Floats, nontarget: Floats) -> tuple[float, float]:
    """A range that shows all but a thousandth of each class, and 0; sorted input."""
    finite = [scores[np.isfinite(scores)] for scores in (target, nontarget)]
    ends = [
        scores[[int(s * (scores.size - 1)) for s in (0.001, 0.999)]]
        for scores in finite
        if scores.size
    ]
    low = min([0.0, *(float(end[0]) for end in ends)])
    high = max([0.0, *(float(end[1]) for end in ends)])
    margin = 0.03 * (high - low) or 1.0
    return low - margin, high + margin


def _above(scores: Floats, grid: Floats) -> Floats:
    """Share of sorted `scores` at or above each value of the grid."""
    below = np.searchsorted(scores, grid, side="left")
    shares: Floats = 1.0 - below / scores.size
    return shares


def _thinned(pooled: Ranking, n_points: int) -> tuple[Floats, Floats]:
    """Corners of the ROC hull, no more than `n_points`, evenly spread over both log rates."""
    miss, false_alarm = pooled.miss_rate, pooled.false_alarm_rate
    if miss.size <= n_points:
        return miss, false_alarm
    tiny = 1e-9
    way = np.abs(np.diff(np.log(miss + tiny))) + np.abs(np.diff(np.log(false_alarm.clip(0) + tiny)))
    length = np.concatenate([[0.0], np.cumsum(way)])
    chosen = np.searchsorted(length, np.linspace(0.0, length[-1], n_points))
    chosen = np.unique(np.concatenate([[0], chosen.clip(0, miss.size - 1), [miss.size - 1]]))
    return miss[chosen], false_alarm[chosen]


def _pav_curve(target: Floats, ranking: Ranking, grid: Floats) -> tuple[Floats, Floats]:
    """LLR of the PAV pool that each score of the grid falls into, where it is finite."""
    llrs = ranking.pav_llrs(groups_of(np.unique(target), grid))
    finite = np.isfinite(llrs)
    return grid[finite], llrs[finite]


def _errors(target: Floats, nontarget: Floats, pooled: Ranking) -> tuple[Floats, Floats]:
    """Actual and minimum Bayes error over PRIOR_LOG_ODDS, normalized; sorted input."""
    prior = 1.0 / (1.0 + np.exp(-PRIOR_LOG_ODDS))
    blind = np.minimum(prior, 1.0 - prior)
    miss = np.searchsorted(target, -PRIOR_LOG_ODDS, side="left") / target.size
    false_alarm = _above(nontarget, -PRIOR_LOG_ODDS)
    actual = (prior * miss + (1.0 - prior) * false_alarm) / blind
    minimum = np.array([metrics.ranked_min_dcf(pooled, float(p)) for p in prior])
    return actual, minimum


def _operating_points(
    target: Floats, nontarget: Floats, pooled: Ranking, settings: Settings
) -> list[OperatingPoint]:
    points = []
    for prior in settings.priors:
        threshold = bayes_threshold(prior, settings.cost_miss, settings.cost_fa)
        miss = float(np.searchsorted(target, threshold, side="left") / target.size)
        false_alarm = float(_above(nontarget, np.array([threshold]))[0])
        cost = prior * settings.cost_miss * pooled.miss_rate
        cost = cost + (1.0 - prior) * settings.cost_fa * pooled.false_alarm_rate
        best = int(np.argmin(cost))
        points.append(
            OperatingPoint(
                prior,
                threshold,
                (miss, false_alarm),
                (float(pooled.miss_rate[best]), float(pooled.false_alarm_rate[best])),
            )
        )
    return points


def curves(target: Floats, nontarget: Floats, settings: Settings) -> Curves:
    """Everything that the pictures of one set of scores show."""
    target, nontarget = (np.sort(scores) for scores in checked_pair(target, nontarget))
    ranking = rank(target, nontarget)
    pooled = ranking.pool()
    low, high = _window(target, nontarget)
    grid = np.linspace(low, high, N_POINTS)
    edges = np.linspace(low, high, N_BINS + 1)
    densities = [
        np.diff(np.searchsorted(scores, edges)) / scores.size / (edges[1] - edges[0])
        for scores in (target, nontarget)
    ]
    miss, false_alarm = _thinned(pooled, N_POINTS)
    actual, minimum = _errors(target, nontarget, pooled)
    return Curves(
        miss,
        false_alarm,
        _operating_points(target, nontarget, pooled, settings),
        grid,
        _above(target, grid),
        _above(nontarget, grid),
        *_pav_curve(target, ranking, grid),
        actual,
        minimum,
        edges,
        densities[0],
        densities[1],
    )
