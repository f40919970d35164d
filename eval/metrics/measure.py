"""All metrics of one set of scores in one go, plain or under trial weights."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.calibration import entropy, fit_affine
from dcaplda.eval.metrics.ranking import Ranker, rank
from dcaplda.eval.metrics.scores import Floats, checked_pair, dot, softplus
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


MOST = {"eer": 100.0, "auc": 1.0, "calibration_loss": 1.0}
"""Largest possible value of metrics that have one; the least of all metrics is 0."""


def limits(name: str) -> tuple[float, float]:
    """Between which values a metric lies, by its name such as `cllr_0.5`."""
    return 0.0, MOST.get(name.rpartition("_")[0] or name, np.inf)


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
    with ThreadPoolExecutor(1) as other:  # numpy sorts without Python's lock
        in_order = other.submit(_by_order, target, nontarget, settings)
        affine, losses = _by_value(target, nontarget, settings)
        found = in_order.result() | losses
    return Measured({name: found[name] for name in settings.names}, affine)


def _by_order(target: Floats, nontarget: Floats, settings: Settings) -> dict[str, float]:
    """The metrics for which only the order of the scores matters."""
    ranking = rank(target, nontarget)
    pooled = ranking.pool()
    if settings.eer_method == "kaldi":
        eer = metrics.eer(target, nontarget, "kaldi")
    else:
        eer = pooled.equal_error_rate()
    found = {"eer": 100.0 * eer, "auc": ranking.auc()}
    costs = settings.cost_miss, settings.cost_fa, settings.normalize_dcf
    for prior in settings.priors:
        found[f"min_cllr_pav_{prior_name(prior)}"] = metrics.pooled_cllr(pooled, prior)
        found[f"min_dcf_{prior_name(prior)}"] = metrics.ranked_min_dcf(pooled, prior, *costs)
    return found


def _by_value(
    target: Floats, nontarget: Floats, settings: Settings
) -> tuple[dict[float, tuple[float, float]], dict[str, float]]:
    """The best affine map at each prior, and the metrics that take scores at their word."""
    affine: dict[float, tuple[float, float]] = {}
    found = {}
    costs = settings.cost_miss, settings.cost_fa, settings.normalize_dcf
    start = None
    for prior in settings.priors:
        name = prior_name(prior)
        cllr = metrics.cllr(target, nontarget, prior)
        linear, start = metrics.affine_cllr(target, nontarget, prior, start)
        affine[prior] = start
        found[f"cllr_{name}"] = cllr
        found[f"min_cllr_lin_{name}"] = linear
        found[f"calibration_loss_{name}"] = metrics.calibration_loss(cllr, linear)
        found[f"dcf_{name}"] = metrics.dcf(target, nontarget, prior, *costs)
    return affine, found


@dataclass(frozen=True)
class WeightedPoint:
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
        self.sided = metrics.finite_equivalent(target, nontarget)
        self.points = [self._point(target, nontarget, prior) for prior in settings.priors]

    def _point(self, target: Floats, nontarget: Floats, prior: float) -> WeightedPoint:
        threshold = bayes_threshold(prior, self.settings.cost_miss, self.settings.cost_fa)
        gamma = log_odds(prior)
        return WeightedPoint(
            prior,
            softplus(-(target + gamma)),
            softplus(nontarget + gamma),
            (target < threshold).astype(np.float64),
            (nontarget >= threshold).astype(np.float64),
            fit_affine(*self.sided, prior),
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
            linear = self.linear(point, target_weights, nontarget_weights)
            dcf = prior * costs[0] * _mean(point.missed, target_weights)
            dcf += rest * costs[1] * _mean(point.accepted, nontarget_weights)
            if self.settings.normalize_dcf:
                dcf /= metrics.default_cost(prior, *costs)
            values += [cllr, linear, metrics.pooled_cllr(pooled, prior)]
            values += [metrics.calibration_loss(cllr, linear), dcf]
            values += [metrics.ranked_min_dcf(pooled, prior, *costs, self.settings.normalize_dcf)]
        return values

    def linear(
        self, point: WeightedPoint, target_weights: Floats, nontarget_weights: Floats
    ) -> float:
        """Minimum Cllr of an affine map, without the trials that the draw left out."""
        chosen = [weights > 0 for weights in (target_weights, nontarget_weights)]
        target, nontarget = self.sided[0][chosen[0]], self.sided[1][chosen[1]]
        return metrics.min_cllr_lin(
            target,
            nontarget,
            point.prior,
            target_weights=target_weights[chosen[0]],
            nontarget_weights=nontarget_weights[chosen[1]],
            start=point.start,
        )
