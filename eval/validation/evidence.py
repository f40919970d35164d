"""What the LLRs of a set are worth as evidence: numbers, intervals, curves in powers of ten."""

import math
from dataclasses import dataclass, field

import numpy as np

from dcaplda.eval.evaluation import Examined
from dcaplda.eval.metrics.bootstrap import intervals
from dcaplda.eval.metrics.forensic import (
    LOG10,
    SupportedRange,
    calibration_distance,
    ece,
    ece_after_pav,
    ece_of_nothing,
)
from dcaplda.eval.metrics.ranking import groups_of, rank
from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.results import Interval

STRENGTHS = (1.0, 10.0, 100.0, 1000.0, 10_000.0)
"""LRs at which misleading evidence is counted."""
PRIOR_POWERS = np.linspace(-3.0, 3.0, 61)
"""Prior odds of the ECE plot, in powers of ten."""
N_POINTS = 400
MOST_DRAWS = 200
MOST_DRAWN_TRIALS = 1_000_000
"""Trials up to which bounds and distance from calibration have intervals, for the sake of time."""


@dataclass(frozen=True)
class Misleading:
    """How often an LR was at least so strong, and wrong."""

    strength: float
    n_nontarget: int
    n_target: int
    nontarget: float
    """Share of nontarget trials with an LR of at least `strength` (above 1 for strength 1)."""
    target: float
    """Share of target trials with an LR of at most 1 / `strength` (below 1 for strength 1)."""
    nontarget_interval: Interval | None = None
    target_interval: Interval | None = None

    @property
    def limit(self) -> float | None:
        """The largest share that calibrated LRs can have; strength 1 has none."""
        return 1.0 / self.strength if self.strength > 1.0 else None


@dataclass(frozen=True)
class EvidenceCurves:
    """Points of the pictures; LRs and prior odds in powers of ten."""

    grid: Floats
    target_above: Floats
    nontarget_above: Floats
    pav_given: Floats
    pav_supported: Floats
    ece: Floats
    ece_pav: Floats
    ece_nothing: Floats


@dataclass(frozen=True)
class Evidence:
    """Natural-log bounds, distance from calibration in powers of ten, shares as fractions."""

    bounds: tuple[float, float]
    """Empirical lower and upper bound of LLRs (ELUB)."""
    devpav: float
    """Powers of ten; NaN where a threshold separates the classes."""
    excess: float
    """By how many powers of ten LRs are too high on average, if positive."""
    right_way: tuple[float, float]
    """Share of target trials with an LR above 1, and of nontarget trials with one below."""
    misleading: tuple[Misleading, ...]
    n_outside: tuple[int, int]
    """Trials with an LLR below and above the bounds."""
    n_trials: int
    curves: EvidenceCurves = field(repr=False)
    lower_interval: Interval | None = None
    upper_interval: Interval | None = None
    devpav_interval: Interval | None = None
    n_draws: int = 0

    @property
    def share_outside(self) -> float:
        """Share of all LLRs that lie outside of the bounds."""
        return sum(self.n_outside) / self.n_trials


def evidence_of(seen: Examined, confidence: float) -> Evidence:
    """Everything about the LLRs of one set."""
    target, nontarget = seen.target, seen.nontarget
    support = SupportedRange(target, nontarget)
    low, high = support.bounds()
    counts, spans = _misleading_counts(target, nontarget), _Spans(None)
    who = seen.people
    n_draws = 0
    if who is not None and who.trials is not None and who.counts is not None:
        if target.size + nontarget.size <= MOST_DRAWN_TRIALS:
            drawn = who.counts[:MOST_DRAWS]
            n_draws = len(drawn)
            rows = []
            for draw in drawn:
                weights = who.trials.weights(draw)
                wrong = _misleading_shares(target, nontarget, *weights)
                off = calibration_distance(target, nontarget, *weights)[0] / LOG10
                rows.append([*support.bounds(*weights), off, *wrong])
            spans = _Spans(np.array(rows), confidence)
    both = np.concatenate([target, nontarget])
    distance, excess = calibration_distance(target, nontarget)
    outside = int(np.count_nonzero(both < low)), int(np.count_nonzero(both > high))
    return Evidence(
        (low, high),
        distance / LOG10,
        excess / LOG10,
        (float(np.mean(target > 0.0)), float(np.mean(nontarget < 0.0))),
        tuple(
            Misleading(
                strength,
                n_nontarget,
                n_target,
                n_nontarget / nontarget.size,
                n_target / target.size,
                spans.of(3 + 2 * number),
                spans.of(4 + 2 * number),
            )
            for number, (strength, n_nontarget, n_target) in enumerate(counts)
        ),
        outside,
        both.size,
        _curves(target, nontarget),
        spans.of(0),
        spans.of(1),
        spans.of(2),
        n_draws,
    )


class _Spans:
    """Percentile intervals of columns; none where there are no rows or any is not a number."""

    def __init__(self, rows: Floats | None, confidence: float = 0.95) -> None:
        self.rows = rows
        self.confidence = confidence

    def of(self, column: int) -> Interval | None:
        if self.rows is None or not np.isfinite(self.rows[:, column]).all():
            return None
        # Percentiles as they are: bounds sit on a grid, and shares of 0 cannot be moved.
        return intervals(self.rows[:, column : column + 1], self.confidence)[0]


def _wrong(scores: Floats, strength: float) -> np.ndarray:
    """Whether an LLR points up at least so strongly; an LR of exactly 1 points nowhere."""
    return scores > 0.0 if strength == 1.0 else scores >= math.log(strength)


def _misleading_counts(target: Floats, nontarget: Floats) -> list[tuple[float, int, int]]:
    return [
        (k, int(np.count_nonzero(_wrong(nontarget, k))), int(np.count_nonzero(_wrong(-target, k))))
        for k in STRENGTHS
    ]


def _misleading_shares(
    target: Floats, nontarget: Floats, target_weights: Floats, nontarget_weights: Floats
) -> list[float]:
    found = []
    for strength in STRENGTHS:
        for scores, weights in ((nontarget, nontarget_weights), (-target, target_weights)):
            found.append(float(weights[_wrong(scores, strength)].sum() / weights.sum()))
    return found


def _curves(target: Floats, nontarget: Floats) -> EvidenceCurves:
    ordered = [np.sort(scores / LOG10) for scores in (target, nontarget)]
    finite = np.concatenate([powers[np.isfinite(powers)] for powers in ordered])
    low, high = (
        (float(end) for end in np.quantile(finite, [0.001, 0.999])) if finite.size else (-1, 1)
    )
    low, high = math.floor(min(low, -1.0)), math.ceil(max(high, 1.0))
    grid = np.linspace(low, high, N_POINTS)
    above = [1.0 - np.searchsorted(p, grid, side="left") / p.size for p in ordered]
    corners = np.unique(ordered[0])
    llrs = rank(*ordered).pav_llrs(groups_of(corners, grid)) / LOG10
    known = np.isfinite(llrs)
    priors = 1.0 / (1.0 + 10.0**-PRIOR_POWERS)
    return EvidenceCurves(
        grid,
        above[0],
        above[1],
        grid[known],
        llrs[known],
        ece(target, nontarget, priors),
        ece_after_pav(target, nontarget, priors),
        ece_of_nothing(priors),
    )
