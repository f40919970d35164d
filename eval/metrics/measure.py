"""All metrics of one set of scores in one go, plain or under trial weights."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.calibration import entropy, fit_affine
from dcaplda.eval.metrics.ranking import Ranker, rank
from dcaplda.eval.metrics.scores import Floats, checked_pair, dot
from dcaplda.runtime.decision import bayes_threshold, check_costs, check_prior, log_odds
from dcaplda.runtime.errors import UsageError


@dataclass(frozen=True)
class Settings:
    """Operating points and conventions of an evaluation."""

    priors: tuple[float, ...] = metrics.PAPER_PRIORS
    cost_miss: float = 1.0
    cost_fa: float = 1.0
    normalize_dcf: bool = True
    eer_method: str = "rocch"

    def __post_init__(self) -> None:
        """Check ranges."""
        for prior in self.priors:
            check_prior(prior)
        if not self.priors or len(set(map(prior_name, self.priors))) < len(self.priors):
            raise UsageError(f"priors {list(self.priors)}: expected one or more, none twice")
        check_costs(self.cost_miss, self.cost_fa)
        if self.eer_method not in ("rocch", "kaldi"):
            raise UsageError(f"EER method '{self.eer_method}': expected rocch or kaldi")

    @property
    def names(self) -> list[str]:
        """Names of all metrics in the order of tables and files."""
        return ["eer", "auc"] + [
            f"{metric}_{prior_name(prior)}" for prior in self.priors for metric in PER_PRIOR
        ]


PER_PRIOR = ("cllr", "min_cllr_lin", "min_cllr_pav", "calibration_loss", "dcf", "min_dcf")
"""Metrics that depend on the prior. `calibration_loss` is (cllr - min_cllr_lin) / cllr."""


def prior_name(prior: float) -> str:
    """How a prior is written in the name of a metric: 0.5, 0.01."""
    return f"{prior:g}"


class Measured(NamedTuple):
    """All metrics by name, and the affine map (alpha, beta) behind each minimum Cllr."""

    values: dict[str, float]
    affine: dict[float, tuple[float, float]]


def measure(target: Floats, nontarget: Floats, settings: Settings) -> Measured:
    """Every metric of `settings.names`; EER in percent, everything else as it is defined."""
    target, nontarget = checked_pair(target, nontarget)
    ranking = rank(target, nontarget)
    pooled = ranking.pool()
    costs = settings.cost_miss, settings.cost_fa, settings.normalize_dcf
    if settings.eer_method == "kaldi":
        eer = metrics.eer(target, nontarget, "kaldi")
    else:
        eer = pooled.equal_error_rate()
    values = {"eer": 100.0 * eer, "auc": ranking.auc()}
    affine: dict[float, tuple[float, float]] = {}
    start = None
    for prior in settings.priors:
        name = prior_name(prior)
        cllr = metrics.cllr(target, nontarget, prior)
        linear, start = metrics.affine_cllr(target, nontarget, prior, start)
        affine[prior] = start
        values[f"cllr_{name}"] = cllr
        values[f"min_cllr_lin_{name}"] = linear
        values[f"min_cllr_pav_{name}"] = metrics.pooled_cllr(pooled, prior)
        values[f"calibration_loss_{name}"] = metrics.calibration_loss(cllr, linear)
        values[f"dcf_{name}"] = metrics.dcf(target, nontarget, prior, *costs)
        values[f"min_dcf_{name}"] = metrics.ranked_min_dcf(pooled, prior, *costs)
    return Measured(values, affine)


@dataclass(frozen=True)
class _Point:
    """What does not change at one prior when only the weights change."""

    prior: float
    target_loss: Floats
    nontarget_loss: Floats
    missed: Floats
    accepted: Floats
    start: tuple[float, float]


def _mean(values: Floats, weights: Floats) -> float:
    total = dot(weights, values)
    if np.isnan(total):  # an infinite loss of weight 0 counts 0
        total = dot(weights, np.where(weights > 0, values, 0.0))
    return total / float(weights.sum())


class WeightedMeasure:
    """The metrics of `measure` for the same trials under many sets of weights.

    The Kaldi way of the EER does not know weights; its replicates read the crossing off the
    ROC itself, which differs from it by less than one trial.
    """

    def __init__(self, target: Floats, nontarget: Floats, settings: Settings) -> None:
        target, nontarget = checked_pair(target, nontarget)
        self.settings = settings
        self.ranker = Ranker.of(target, nontarget)
        # Misplaced infinities have a finite stand-in that every affine map serves as well.
        self.linear = metrics.finite_equivalent(target, nontarget)
        self.points = [self._point(target, nontarget, prior) for prior in settings.priors]

    def _point(self, target: Floats, nontarget: Floats, prior: float) -> _Point:
        threshold = bayes_threshold(prior, self.settings.cost_miss, self.settings.cost_fa)
        gamma = log_odds(prior)
        return _Point(
            prior,
            np.logaddexp(0.0, -(target + gamma)),
            np.logaddexp(0.0, nontarget + gamma),
            (target < threshold).astype(np.float64),
            (nontarget >= threshold).astype(np.float64),
            fit_affine(*self.linear, prior),
        )

    def __call__(self, target_weights: Floats, nontarget_weights: Floats) -> list[float]:
        """Values in the order of `settings.names`."""
        ranking = self.ranker.rank(target_weights, nontarget_weights)
        pooled = ranking.pool()
        source = ranking if self.settings.eer_method == "kaldi" else pooled
        values = [100.0 * source.equal_error_rate(), ranking.auc()]
        costs = self.settings.cost_miss, self.settings.cost_fa
        for point in self.points:
            prior, rest = point.prior, 1.0 - point.prior
            loss = prior * _mean(point.target_loss, target_weights)
            loss += rest * _mean(point.nontarget_loss, nontarget_weights)
            cllr = loss / entropy(prior)
            linear = self._linear(point, target_weights, nontarget_weights)
            dcf = prior * costs[0] * _mean(point.missed, target_weights)
            dcf += rest * costs[1] * _mean(point.accepted, nontarget_weights)
            if self.settings.normalize_dcf:
                dcf /= metrics.default_cost(prior, *costs)
            values += [cllr, linear, metrics.pooled_cllr(pooled, prior)]
            values += [metrics.calibration_loss(cllr, linear), dcf]
            values += [metrics.ranked_min_dcf(pooled, prior, *costs, self.settings.normalize_dcf)]
        return values

    def _linear(self, point: _Point, target_weights: Floats, nontarget_weights: Floats) -> float:
        """Minimum Cllr of an affine map, without the trials that the draw left out."""
        chosen = [weights > 0 for weights in (target_weights, nontarget_weights)]
        target, nontarget = self.linear[0][chosen[0]], self.linear[1][chosen[1]]
        return metrics.min_cllr_lin(
            target,
            nontarget,
            point.prior,
            target_weights=target_weights[chosen[0]],
            nontarget_weights=nontarget_weights[chosen[1]],
            start=point.start,
        )
