"""The LLR of two means of several utterances as a second-order form, axis by axis.

On axes where the within-speaker covariance is 1 and those of speakers (b) and places (o) are
diagonal, the mean of utterances with spread u (1 / their effective number) has variance
o + b + u. Two sides of one place share o whether or not they share the speaker:

    same speaker       cov(x_e, x_t) = o + b        other speaker   cov(x_e, x_t) = o

Sides of different places, each with an offset of its own, share nothing but the speaker: b against
0. The scatter of utterances around their own mean is the same under both hypotheses and falls out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Terms(NamedTuple):
    """LLR = sum_d cross x_e x_t + enroll x_e^2 + test x_t^2, + constant."""

    cross: Array
    enroll: Array
    test: Array
    constant: float


def pair_terms(
    between: Array,
    offsets: tuple[Array, Array],
    spreads: tuple[float, float],
    same_place: bool = True,
) -> Terms:
    """The form for one pair of conditions; `offsets` are variances, of either side's place.

    Of one place the two are the same, and the first is taken.
    """
    enroll_offset, test_offset = offsets if not same_place else (offsets[0], offsets[0])
    enroll = enroll_offset + between + spreads[0]
    test = test_offset + between + spreads[1]
    nothing = np.zeros_like(between)
    same = _gaussian(enroll, test, enroll_offset + between if same_place else between)
    other = _gaussian(enroll, test, enroll_offset if same_place else nothing)
    return Terms(
        same.cross - other.cross,
        same.enroll - other.enroll,
        same.test - other.test,
        same.constant - other.constant,
    )


def _gaussian(enroll: Array, test: Array, shared: Array) -> Terms:
    """Logarithm of the density of both sides, without what both hypotheses have in common."""
    determinant = enroll * test - shared * shared
    return Terms(
        shared / determinant,
        -0.5 * test / determinant,
        -0.5 * enroll / determinant,
        -0.5 * float(np.log(determinant).sum()),
    )
