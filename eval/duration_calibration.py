"""Scores to LLRs by the seconds of speech behind both sides (paper, eq. 21 and 22).

llr = alpha(x, y) s + beta(x, y) with x, y the logarithms of the seconds, and alpha and beta
quadratic forms of them that know no order: c0 + c1 (x + y) + c2 (x^2 + y^2) + c3 x y.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.metrics.scores import Floats, softplus
from dcaplda.runtime.decision import check_prior, log_odds
from dcaplda.runtime.errors import InputError

RIDGE = 1e-3
"""Penalty of the terms of durations, in units of the whole loss, on features of unit spread."""
STEPS, TOLERANCE = 60, 1e-10
LEAST_SLOPE = 0.05
"""Of alpha within the durations that were seen, relative to its mean there: less is no scale."""
TERMS = 4


@dataclass(frozen=True)
class DurationTerms:
    """Coefficients of alpha and beta, of log seconds less `centre`, clipped to what was seen."""

    scale: tuple[float, ...]
    shift: tuple[float, ...]
    centre: float
    low: float
    high: float
    """Log seconds less centre of the shortest and the longest utterance."""

    def features(self, seconds: Floats) -> Floats:
        """x of seconds."""
        return np.clip(np.log(seconds) - self.centre, self.low, self.high)

    def llrs(self, scores: Floats, enroll: Floats, test: Floats) -> Floats:
        """LLRs of scores, given the seconds of both sides."""
        terms = _terms(self.features(enroll), self.features(test))
        return scores * (terms @ np.array(self.scale)) + terms @ np.array(self.shift)


def _terms(x: Floats, y: Floats) -> Floats:
    return np.stack([np.ones_like(x), x + y, x * x + y * y, x * y], axis=-1)


def fit_durations(
    scores: Floats, labels: NDArray[np.bool_], enroll: Floats, test: Floats, prior: float
) -> DurationTerms:
    """Logistic regression at `prior` (eq. 14) on trials with the seconds of their sides."""
    check_prior(prior)
    if not np.isfinite(scores).all():
        raise InputError("an infinite score cannot be calibrated by durations; leave it out")
    logs = np.log(np.concatenate([enroll, test]))
    centre = float(logs.mean())
    low, high = float(logs.min() - centre), float(logs.max() - centre)
    if not high > low:
        raise InputError("all durations are equal: calibrate without --durations")
    terms = _terms(np.log(enroll) - centre, np.log(test) - centre)
    design = np.concatenate([terms * scores[:, None], terms], axis=1)
    found = _newton(design, labels, prior)
    made = DurationTerms(tuple(found[:TERMS]), tuple(found[TERMS:]), centre, low, high)
    _check_slope(made)
    return made


def _newton(design: Floats, labels: NDArray[np.bool_], prior: float) -> Floats:
    """Coefficients of least penalized loss."""
    spread = np.sqrt((design * design).mean(axis=0))
    spread[spread == 0.0] = 1.0
    unit = design / spread
    sign = np.where(labels, 1.0, -1.0)
    n_target = int(labels.sum())
    weight = np.where(labels, prior / n_target, (1.0 - prior) / (len(labels) - n_target))
    penalty = np.full(unit.shape[1], RIDGE)
    penalty[[0, TERMS]] = 0.0
    point = np.zeros(unit.shape[1])
    # From the scores as they are: alpha 1.
    point[0] = spread[0]

    def loss(at: Floats) -> float:
        margin = sign * (unit @ at + log_odds(prior))
        return float(weight @ softplus(-margin) + 0.5 * penalty @ (at * at))

    here = loss(point)
    for _ in range(STEPS):
        probability = 1.0 / (1.0 + np.exp(np.clip(-(unit @ point + log_odds(prior)), -700, 700)))
        gradient = unit.T @ (weight * (probability - labels)) + penalty * point
        bend = weight * probability * (1.0 - probability)
        hessian = (unit * bend[:, None]).T @ unit + np.diag(penalty + 1e-12)
        step = np.linalg.solve(hessian, gradient)
        if float(gradient @ step) < TOLERANCE:
            break
        for _ in range(STEPS):
            there = loss(point - step)
            if there <= here - 1e-4 * float(gradient @ step):
                break
            step = step / 2.0
        else:
            break
        point, here = point - step, there
    return point / spread


def _check_slope(terms: DurationTerms) -> None:
    """A higher score must be a higher LLR at all durations that were seen."""
    grid = np.linspace(terms.low, terms.high, 25)
    x, y = (axis.reshape(-1) for axis in np.meshgrid(grid, grid))
    alpha = _terms(x, y) @ np.array(terms.scale)
    if not alpha.min() > LEAST_SLOPE * abs(alpha.mean()):
        raise InputError(
            "the trials do not tell how durations act (a higher score would be a lower LLR at some "
            "of them); give more trials, or calibrate without --durations"
        )
