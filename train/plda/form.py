"""Score parameters of a two-covariance PLDA model (paper, eq. 10-13), in float64."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import ModelError

Array = NDArray[np.floating[Any]]


class PldaForm(NamedTuple):
    """Lambda, Gamma, c, k of eq. 9."""

    cross: Array
    auto: Array
    linear: Array
    offset: float


def plda_form(between: Array, within: Array, mean: Array) -> PldaForm:
    """Eq. 10-13 from the precisions B and W and the mean mu.

    y ~ N(mu, B^-1), w | y ~ N(y, W^-1). The paper corrects the k of an earlier publication;
    tests compare the result with the densities themselves.
    """
    between, within = (np.asarray(m, dtype=np.float64) for m in (between, within))
    mean = np.asarray(mean, dtype=np.float64)
    pair = np.linalg.inv(between + 2.0 * within)  # Lambda tilde
    single = np.linalg.inv(between + within)  # Gamma tilde
    pull = between @ mean  # B mu
    cross = 0.5 * within.T @ pair @ within
    auto = 0.5 * within.T @ (pair - single) @ within
    linear = within.T @ (pair - single) @ pull
    k_tilde = (
        -2.0 * _logdet(single, "B + W")
        - _logdet(between, "B")
        + _logdet(pair, "B + 2 W")
        + mean @ pull
    )
    offset = 0.5 * k_tilde + 0.5 * pull @ (pair - 2.0 * single) @ pull
    # Rounding leaves the products a little asymmetric; the form needs only the symmetric part.
    return PldaForm(0.5 * (cross + cross.T), 0.5 * (auto + auto.T), linear, float(offset))


def _logdet(matrix: Array, name: str) -> float:
    sign, value = np.linalg.slogdet(matrix)
    if sign <= 0 or not np.isfinite(value):
        raise ModelError(
            f"PLDA: {name} is not positive definite; use fewer LDA dimensions, more speakers "
            "or shrinkage"
        )
    return float(value)
