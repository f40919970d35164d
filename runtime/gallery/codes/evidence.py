"""What all speakers add up to, where only the likeliest were compared: an estimate, and its error.

The sum of exp(LLR) over a gallery is mostly that of its largest terms, which are known. The next
thousands, by their codes, and all others are two strata of which some speakers drawn at random
are compared: their mean stands for the stratum.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

DEVIATIONS = 4.0
"""Standard errors that the error of a mean is taken to be at most."""
UNSEEN = 3.0
"""So many speakers like the likeliest drawn one may be in every share of which one was drawn."""


class Total(NamedTuple):
    """A sum of exp(LLR - top) over speakers."""

    value: float
    error: float = 0.0

    def plus(self, other: "Total") -> "Total":
        """The sum over both."""
        return Total(self.value + other.value, self.error + other.error)


def known(llrs: NDArray[np.floating], top: float) -> Total:
    """Of speakers who were all compared."""
    return Total(float(np.exp(llrs.astype(np.float64) - top).sum()))


def estimated(llrs: NDArray[np.floating], count: int, top: float, most: float) -> Total:
    """Of `count` speakers, some of whom were compared, none of whom has more than `most`."""
    if count <= 0:
        return Total(0.0)
    terms = np.exp(llrs.astype(np.float64) - top)
    if len(terms) >= count:
        return Total(float(terms.sum()))
    limit = count * math.exp(min(most - top, 700.0))
    if len(terms) < 2:
        return Total(0.0, limit)
    value = count * float(terms.mean())
    spread = float(terms.std(ddof=1)) / math.sqrt(len(terms))
    error = count * (DEVIATIONS * spread + UNSEEN * float(terms.max()) / len(terms))
    return Total(value, min(error, max(limit - value, value)))


def posteriors(
    best: float, top: float, total: Total, count: int, prior: float
) -> tuple[float, float]:
    """Probability of the best speaker, and how far it may be off.

    Each of `count` speakers weighs prior / count * exp(LLR), nobody weighs 1 - prior.
    """
    own = math.log(prior) - math.log(count) + best

    def probability(summed: float) -> float:
        everybody = math.log(prior) - math.log(count) + top + math.log(max(summed, 1e-300))
        return min(math.exp(own - float(np.logaddexp(everybody, math.log1p(-prior)))), 1.0)

    found = probability(total.value)
    least = math.exp(best - top)
    edges = (
        probability(total.value + total.error),
        probability(max(total.value - total.error, least)),
    )
    return found, max(abs(found - edge) for edge in edges)
