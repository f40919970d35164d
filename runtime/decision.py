"""From a log-likelihood ratio to a decision: Bayes threshold and posterior (paper, eq. 2 and 3)."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import values


def check_prior(prior: float) -> float:
    """Return `prior` if it is a probability that leaves both answers possible."""
    return values.prior(prior)


def check_costs(cost_miss: float, cost_fa: float) -> tuple[float, float]:
    """Return the costs if there is a threshold for them."""
    return values.cost(cost_miss, "miss"), values.cost(cost_fa, "false acceptance")


def log_odds(prior: float) -> float:
    """Prior log odds, gamma = log(prior / (1 - prior))."""
    prior = check_prior(prior)
    return math.log(prior) - math.log1p(-prior)


def bayes_threshold(prior: float, cost_miss: float = 1.0, cost_fa: float = 1.0) -> float:
    """Threshold on the LLR that makes the expected cost least (eq. 3).

    t = log(cost_fa / cost_miss) - log(prior / (1 - prior)). A trial is accepted when its LLR
    is at least t; at equality both answers cost the same.
    """
    cost_miss, cost_fa = check_costs(cost_miss, cost_fa)
    return math.log(cost_fa) - math.log(cost_miss) - log_odds(prior)


def posterior(llr: ArrayLike, prior: float) -> NDArray[np.float64]:
    """Probability that the speakers are the same: sigmoid(llr + log odds of the prior).

    Any shape; infinite LLRs give 0 or 1.
    """
    logits = np.asarray(llr, dtype=np.float64) + log_odds(prior)
    # exp of a non-positive number only: no overflow for any LLR.
    small = np.exp(-np.abs(logits))
    result: NDArray[np.float64] = np.where(logits >= 0, 1.0, small) / (1.0 + small)
    return result
