"""Places that training knew, found again by what a pool of unlabelled utterances has in common.

Training has heard its own places much longer than any pool will: who adapts to one of them should
not learn it anew from thirty utterances. Whether a pool is of one of them is a question of its mean
m alone. Of the place d with the centre c_d it lies around c_d as far as its people scatter, of any
other as much farther as places differ:

    m - c_d  ~  N(0, a)  or  N(0, a + g)     a = SCATTER (what is left unknown of d + b / p + 1 / n)

axis by axis, g being the variance of the difference of two of training's places.
"""

from typing import NamedTuple

import numpy as np

from dcaplda.runtime.joint.terms import Array

FEWEST_HEARD = 10
"""Utterances from which on a place is recognized; of five, other places look alike too."""
FEWEST_VOICES = 2.0
"""Effective people; one voice says little of where it was heard."""
FEWEST_PLACES = 3
"""Of training, from which on it is known how places differ."""
SCATTER = 0.4
"""Of the scatter of people that the model expects, what pools of known places show: the between-
covariance is shrunk towards more than there is (egs/recordings/RESULTS.md)."""
DOUBT = 80.0
"""Over the utterances heard: logarithm of how much likelier the known place has to be. To miss one
costs little, to take another place for it a lot, and the people of few utterances are not known."""


class TrainedPlaces(NamedTuple):
    """What training knows of K places; an axis of everything is the place."""

    shift: Array
    """Of the embeddings there, before the length normalization, (K, D)."""
    centre: Array
    """Posterior mean of the offset behind that shift, (K, R)."""
    mean: Array
    """The same without the shift, which pools are compared with, (K, R)."""
    left: Array
    """Variance of the offset that is left unknown, (K, R)."""
    own: Array
    """What each side from there adds to its score, (K,): places differ in the threshold that they
    need beside what the model explains, and of these training has labels."""

    def place(self, number: int) -> "TrainedPlace":
        """One of them."""
        return TrainedPlace(*(values[number] for values in self))


class TrainedPlace(NamedTuple):
    """What training knows of one place: prior of its offset, and the shift that goes with it."""

    shift: Array
    centre: Array
    mean: Array
    left: Array
    own: float


def recognized(
    places: TrainedPlaces | None, mean: Array, between: Array, count: int, people: float
) -> int | None:
    """Number of the place that `count` utterances of `people` with this mean x (R,) are of."""
    if places is None or len(places.mean) < FEWEST_PLACES:
        return None
    if count < FEWEST_HEARD or people < FEWEST_VOICES:
        return None
    near = SCATTER * (places.left + between / people + 1.0 / count)
    far = near + 2.0 * places.mean.var(axis=0, ddof=1)
    squares = (mean - places.mean) ** 2
    odds = 0.5 * (squares / far - squares / near + np.log(far / near)).sum(axis=1)
    best = int(np.argmax(odds))
    return best if odds[best] > DOUBT / count else None
