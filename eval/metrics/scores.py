"""Checks that every metric makes on its scores, and on the weights of the trials."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime.errors import InputError

Floats = NDArray[np.float64]


def checked(scores: ArrayLike, kind: str) -> Floats:
    """Scores as a float64 vector; none at all or a NaN is refused, infinities are welcome."""
    values = np.asarray(scores, dtype=np.float64).reshape(-1)
    if values.size == 0:
        raise InputError(f"no {kind} trials: the metrics need both target and nontarget scores")
    bad = int(np.count_nonzero(np.isnan(values)))
    if bad:
        raise InputError(f"{bad} of {values.size} {kind} scores are NaN; leave those trials out")
    return values


def checked_pair(target: ArrayLike, nontarget: ArrayLike) -> tuple[Floats, Floats]:
    """Both classes of scores, checked."""
    return checked(target, "target"), checked(nontarget, "nontarget")


def checked_weights(weights: ArrayLike | None, n_trials: int, kind: str) -> Floats | None:
    """Trial weights as float64: one per trial, none negative, not all zero."""
    if weights is None:
        return None
    values = np.asarray(weights, dtype=np.float64).reshape(-1)
    if values.size != n_trials:
        raise InputError(f"{values.size} weights for {n_trials} {kind} trials")
    if not (np.all(values >= 0.0) and np.isfinite(values.sum()) and values.sum() > 0.0):
        raise InputError(f"weights of {kind} trials must be finite, not negative, not all 0")
    return values


def dot(left: Floats, right: Floats) -> float:
    """Sum of products. Not BLAS, whose threads cost more than they save on vectors."""
    return float(np.einsum("i,i->", left, right))


def softplus(values: Floats) -> Floats:
    """log(1 + exp(x)): what a trial loses. A third of the time of `np.logaddexp(0, x)`."""
    found = np.log1p(np.exp(-np.abs(values)))
    found += np.maximum(values, 0.0)
    return found
