"""Metrics of speaker verification scores (paper, section "Performance Metrics").

Every function takes the scores of the target and of the nontarget trials, in any order. Rates
are fractions of 1. Time is log-linear and memory linear in the number of trials. Infinite
scores are allowed and count as their limit; NaN is refused.
"""

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.eval.metrics.calibration import (
    apply_affine,
    cross_entropy,
    entropy,
    fit_affine,
    misplaced_infinities,
)
from dcaplda.eval.metrics.ranking import Ranking, rank
from dcaplda.eval.metrics.scores import Floats, checked_pair, checked_weights, dot
from dcaplda.runtime.decision import bayes_threshold, check_costs, check_prior, log_odds
from dcaplda.runtime.errors import InputError

PAPER_PRIORS = (0.5, 0.01)
"""Target priors that the paper reports: Cllr.5 and Cllr.01."""


def eer(target: ArrayLike, nontarget: ArrayLike, method: str = "rocch") -> float:
    """Equal error rate.

    "rocch" reads it off the convex hull of the ROC, where a straight line between two
    corners is a coin thrown between two thresholds. "kaldi" is what compute-eer prints.
    """
    target, nontarget = checked_pair(target, nontarget)
    if method == "rocch":
        return rank(target, nontarget).pool().equal_error_rate()
    if method == "kaldi":
        return _kaldi_eer(target, nontarget)
    raise InputError(f"EER method '{method}' is unknown; there are rocch and kaldi")


def _kaldi_eer(target: Floats, nontarget: Floats) -> float:
    """The lowest share of missed targets k/T whose threshold accepts fewer nontargets.

    With both lists rising, k is the first index at which target k lies above the nontarget
    that has floor(N k / T) nontargets over it; at most T - 1.
    """
    target, nontarget = np.sort(target), np.sort(nontarget)
    missed = np.arange(target.size)
    # The truncation of a quotient of floats, as compute-eer computes it.
    accepted = (nontarget.size * missed / target.size).astype(np.int64)
    rival = nontarget[np.maximum(nontarget.size - 1 - accepted, 0)]
    crossed = rival < target
    k = int(np.argmax(crossed)) if crossed.any() else target.size - 1
    return k / target.size


def auc(target: ArrayLike, nontarget: ArrayLike) -> float:
    """Area under the ROC: probability that a target outscores a nontarget, ties one half."""
    return rank(*checked_pair(target, nontarget)).auc()


def cllr(
    target: ArrayLike,
    nontarget: ArrayLike,
    prior: float = 0.5,
    *,
    target_weights: ArrayLike | None = None,
    nontarget_weights: ArrayLike | None = None,
) -> float:
    """Actual Cllr: cross-entropy of the LLRs (eq. 14) over the entropy of the prior.

    1 is what a system pays that knows only the prior; more than 1 is harm. At prior 0.5 this
    is the Cllr of the literature, in bits.
    """
    loss = cross_entropy(
        target,
        nontarget,
        prior,
        target_weights=target_weights,
        nontarget_weights=nontarget_weights,
    )
    return loss / entropy(prior)


def min_cllr_lin(
    target: ArrayLike,
    nontarget: ArrayLike,
    prior: float = 0.5,
    *,
    target_weights: ArrayLike | None = None,
    nontarget_weights: ArrayLike | None = None,
    start: tuple[float, float] | None = None,
) -> float:
    """Cllr after the best affine map, trained on the same trials at the same prior (eq. 16)."""
    target, nontarget = checked_pair(target, nontarget)
    weights = target_weights, nontarget_weights
    return affine_cllr(target, nontarget, prior, start, weights)[0]


def affine_cllr(
    target: Floats,
    nontarget: Floats,
    prior: float,
    start: tuple[float, float] | None = None,
    weights: tuple[ArrayLike | None, ArrayLike | None] = (None, None),
) -> tuple[float, tuple[float, float]]:
    """Minimum Cllr of an affine map, and its (alpha, beta)."""
    target, nontarget = finite_equivalent(target, nontarget)
    kwargs = {"target_weights": weights[0], "nontarget_weights": weights[1]}
    alpha, beta = fit_affine(target, nontarget, prior, start=start, **kwargs)
    target, nontarget = apply_affine(target, alpha, beta), apply_affine(nontarget, alpha, beta)
    return cllr(target, nontarget, prior, **kwargs), (alpha, beta)


def finite_equivalent(target: Floats, nontarget: Floats) -> tuple[Floats, Floats]:
    """Scores that an affine map serves as well as these, none of them misplaced infinities.

    Write an infinite score as +-M with M growing. If one is on the wrong side, only
    alpha = a / M keeps its loss finite: the infinities become +-a + beta and every finite
    score becomes beta. In the limit the scores are worth no more than their signs -1, 0, 1.
    A system that is simply reversed (infinities all wrong) is turned round instead.
    """
    if not misplaced_infinities(target, nontarget):
        return target, nontarget
    if not misplaced_infinities(-target, -nontarget):
        return -target, -nontarget
    return (
        np.where(np.isinf(target), np.sign(target), 0.0),
        np.where(np.isinf(nontarget), np.sign(nontarget), 0.0),
    )


def min_cllr_pav(target: ArrayLike, nontarget: ArrayLike, prior: float = 0.5) -> float:
    """Cllr after the best monotone map (PAV), trained on the same trials.

    The least value that any calibration without change of order can reach; optimistic where
    trials are few (the paper prefers `min_cllr_lin`).
    """
    return pooled_cllr(rank(*checked_pair(target, nontarget)).pool(), prior)


def pooled_cllr(pooled: Ranking, prior: float) -> float:
    """Cllr of the LLRs that PAV gave to its pools."""
    gamma = log_odds(prior)
    logits = pooled.pool_llrs() + gamma
    target, nontarget = pooled.target, pooled.nontarget
    has_target, has_nontarget = target > 0, nontarget > 0
    target_loss = dot(target[has_target], np.logaddexp(0.0, -logits[has_target]))
    nontarget_loss = dot(nontarget[has_nontarget], np.logaddexp(0.0, logits[has_nontarget]))
    loss = prior * target_loss / target.sum() + (1.0 - prior) * nontarget_loss / nontarget.sum()
    return float(loss) / entropy(prior)


def default_cost(prior: float, cost_miss: float = 1.0, cost_fa: float = 1.0) -> float:
    """Expected cost of the better of two answers given without listening: all or none."""
    check_prior(prior)
    check_costs(cost_miss, cost_fa)
    return min(prior * cost_miss, (1.0 - prior) * cost_fa)


def _share(chosen: np.ndarray, weights: Floats | None) -> float:
    if weights is None:
        return float(np.mean(chosen))
    return float(weights[chosen].sum() / weights.sum())


def dcf(
    target: ArrayLike,
    nontarget: ArrayLike,
    prior: float = 0.01,
    cost_miss: float = 1.0,
    cost_fa: float = 1.0,
    normalize: bool = True,
    *,
    target_weights: ArrayLike | None = None,
    nontarget_weights: ArrayLike | None = None,
) -> float:
    """Actual detection cost: prior C_miss P_miss + (1 - prior) C_fa P_fa at the Bayes threshold.

    The threshold is eq. 3, so the scores are taken at their word as LLRs. Normalized by
    `default_cost`: above 1, deciding without the system is cheaper.
    """
    target, nontarget = checked_pair(target, nontarget)
    threshold = bayes_threshold(prior, cost_miss, cost_fa)
    weights = checked_weights(target_weights, target.size, "target")
    missed = _share(target < threshold, weights)
    weights = checked_weights(nontarget_weights, nontarget.size, "nontarget")
    accepted = _share(nontarget >= threshold, weights)
    cost = prior * cost_miss * missed + (1.0 - prior) * cost_fa * accepted
    return cost / default_cost(prior, cost_miss, cost_fa) if normalize else cost


def min_dcf(
    target: ArrayLike,
    nontarget: ArrayLike,
    prior: float = 0.01,
    cost_miss: float = 1.0,
    cost_fa: float = 1.0,
    normalize: bool = True,
) -> float:
    """Detection cost at the threshold that is best on these very trials."""
    ranking = rank(*checked_pair(target, nontarget))
    return ranked_min_dcf(ranking, prior, cost_miss, cost_fa, normalize)


def ranked_min_dcf(
    ranking: Ranking,
    prior: float,
    cost_miss: float = 1.0,
    cost_fa: float = 1.0,
    normalize: bool = True,
) -> float:
    """Minimum DCF of scores already ranked; pooled or not makes no difference."""
    least = default_cost(prior, cost_miss, cost_fa)
    miss = prior * cost_miss * ranking.miss_rate
    false_alarm = (1.0 - prior) * cost_fa * ranking.false_alarm_rate
    cost = float(np.min(miss + false_alarm))
    return cost / least if normalize else cost


def calibration_loss(actual: float, minimum: float) -> float:
    """Share of an actual metric that miscalibration causes: (actual - minimum) / actual."""
    if np.isinf(actual):
        return 1.0
    # Rounding can put a minimum above a perfect actual value.
    return max(0.0, (actual - minimum) / actual) if actual > 0.0 else 0.0
