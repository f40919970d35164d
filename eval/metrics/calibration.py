"""Cross-entropy of LLRs and the affine map that makes it least (paper, eq. 14 to 16)."""

import math

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.eval.metrics.logistic import ScoreClass, frame_of, pieces, solve
from dcaplda.eval.metrics.scores import Floats, checked_pair, checked_weights, softplus
from dcaplda.runtime.decision import check_prior, log_odds
from dcaplda.runtime.errors import InputError

# The fit stops when another Newton step would gain less than this share of the prior's entropy.
TOLERANCE = 1e-13
# Logit at which a score counts as certain when nothing limits it: exp(-50) is below rounding.
CERTAIN = 50.0


def entropy(prior: float) -> float:
    """Cross-entropy of LLRs that are all 0: what a system that knows only the prior pays."""
    check_prior(prior)
    return -prior * math.log(prior) - (1.0 - prior) * math.log1p(-prior)


def _mean_softplus(logits: Floats, sign: float, shift: float, weights: Floats | None) -> float:
    """Weighted mean of log(1 + exp(sign * (logits + shift))); infinity is a legal answer."""
    total = 0.0
    for piece, weight in pieces(logits, weights):
        loss = softplus(sign * (piece + shift))
        if weight is not None:
            # An infinite loss of weight 0 counts 0, not NaN.
            loss = np.where(weight > 0, loss, 0.0) * weight
        total += float(loss.sum())
    return total / (logits.size if weights is None else float(weights.sum()))


def cross_entropy(
    target: ArrayLike,
    nontarget: ArrayLike,
    prior: float,
    *,
    target_weights: ArrayLike | None = None,
    nontarget_weights: ArrayLike | None = None,
) -> float:
    """Prior-weighted cross-entropy of LLRs in nats (eq. 14).

    C = -prior mean_targets log q - (1 - prior) mean_nontargets log(1 - q) with
    q = sigmoid(llr + log odds of the prior). Infinite LLRs count as their limit: nothing on
    the right side, infinity on the wrong side.
    """
    target, nontarget = checked_pair(target, nontarget)
    gamma = log_odds(prior)
    weights = checked_weights(target_weights, target.size, "target")
    target_part = _mean_softplus(target, -1.0, gamma, weights)
    weights = checked_weights(nontarget_weights, nontarget.size, "nontarget")
    nontarget_part = _mean_softplus(nontarget, 1.0, gamma, weights)
    return prior * target_part + (1.0 - prior) * nontarget_part


def misplaced_infinities(target: Floats, nontarget: Floats) -> int:
    """How many targets score -inf or nontargets +inf: no rising affine map can save them."""
    if target.min() > -np.inf and nontarget.max() < np.inf:  # quicker, and nearly always so
        return 0
    return int(np.count_nonzero(np.isneginf(target)) + np.count_nonzero(np.isposinf(nontarget)))


def apply_affine(scores: Floats, alpha: float, beta: float) -> Floats:
    """Calibrated LLRs (eq. 16); an infinite score stays infinite even at alpha 0, its limit."""
    if alpha == 0.0:
        return np.where(np.isinf(scores), scores, beta)
    return scores * alpha + beta


def fit_affine(
    target: ArrayLike,
    nontarget: ArrayLike,
    prior: float,
    *,
    target_weights: ArrayLike | None = None,
    nontarget_weights: ArrayLike | None = None,
    start: tuple[float, float] | None = None,
) -> tuple[float, float]:
    """Linear logistic regression: (alpha, beta) of llr = alpha * score + beta (eq. 14, 16).

    Minimizes `cross_entropy` of the LLRs at `prior` by Newton's method in float64; `start` may
    give a guess, as for the many similar fits of a bootstrap. Weights multiply a trial's loss.

    Classes that a threshold separates have no finite optimum; the fit then stops where the
    loss has fallen to about 1e-13 of the prior's entropy, with finite alpha and beta. Equal
    scores give alpha 0 and beta 0. Infinite scores on the right side cost nothing; on the
    wrong side they are refused, since no alpha above 0 can repair them.
    """
    target, nontarget = checked_pair(target, nontarget)
    if misplaced_infinities(target, nontarget):
        raise InputError(
            "a target scores -inf or a nontarget +inf: no affine calibration exists; "
            "remove or clip the infinite scores"
        )
    gamma = log_odds(prior)
    targets = _finite_class(target, target_weights, "target", prior)
    nontargets = _finite_class(nontarget, nontarget_weights, "nontarget", 1.0 - prior)
    if targets.mass == 0.0 or nontargets.mass == 0.0:
        return _certain(targets.scores, nontargets.scores)
    # The best intercept if finite scores tell nothing: gamma, unless infinities took their share.
    flat = log_odds(targets.mass / (targets.mass + nontargets.mass))
    classes = [targets, nontargets]
    frame, reach = frame_of(classes)
    if not frame.spread > 0.0:
        return 0.0, flat - gamma
    starts = [(0.0, flat)]
    if start is not None:
        starts = [(start[0] * frame.spread, start[1] + gamma + start[0] * frame.center)]
    found = solve(classes, frame, reach, starts, TOLERANCE * entropy(prior))
    n_finite = targets.scores.size + nontargets.scores.size
    if found.slope < 0.0 and n_finite < target.size + nontarget.size:
        return 0.0, flat - gamma  # alpha -> 0 from above keeps the infinities on their side
    alpha = found.slope / frame.spread
    return alpha, found.intercept - gamma - alpha * frame.center


def _finite_class(scores: Floats, weights: ArrayLike | None, kind: str, prior: float) -> ScoreClass:
    """The finite scores of one class; infinite ones lose nothing but keep their share."""
    checked = checked_weights(weights, scores.size, kind)
    unit = prior / (scores.size if checked is None else float(checked.sum()))
    finite = np.isfinite(scores)
    if not finite.all():
        scores = scores[finite]
        checked = None if checked is None else checked[finite]
    return ScoreClass(scores, checked, unit, -1.0 if kind == "target" else 1.0)


def _certain(target: Floats, nontarget: Floats) -> tuple[float, float]:
    """A map for when only one class, or none, has finite scores: they all become certain."""
    if target.size:
        return 1.0, CERTAIN - float(target.min())
    if nontarget.size:
        return 1.0, -CERTAIN - float(nontarget.max())
    return 1.0, 0.0
