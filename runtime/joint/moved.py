"""Voiceprints of a model moved to a place that it was adapted to, from what they keep.

Adaptation moves an utterance before the first normalization (`bias`) and the second (`centre`):

    parent    x  = length Norm(turn v - centre)       v  = w / |w|              w: embedding by LDA
    adapted   x' = length Norm(turn v' - centre')     v' = (w - d) / |w - d|    d = bias - bias'

Of one utterance nothing is lost: v is where the ray from the centre along x meets the unit sphere,
and |w| is among the conditions, as far as they reach. The mean of several is moved as one utterance
of its direction and of their usual |w|; how far they agree, the length of the mean, stays.
"""

import numpy as np

from dcaplda.runtime.joint.layout import LENGTHS_AT, PLACE_AT
from dcaplda.runtime.joint.rows import Sides
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.runtime.joint.terms import Array


def moved_sides(parent: JointScorer, adapted: JointScorer, sides: Sides) -> Sides:
    """Sides of the parent as the adapted model would have made them."""
    usual = parent.usual[-1]
    lengths = np.exp(sides.conditions[:, LENGTHS_AT][:, -1] + usual)
    v = _on_the_sphere(parent, sides.x)
    # What does not sound of the place stays as it is.
    inside = np.ones(len(v), np.bool_) if adapted.gate is None else v @ adapted.gate > adapted.edge
    w = lengths[:, None] * v + (adapted.bias - parent.bias)
    there = np.linalg.norm(w, axis=1)
    x = (w / there[:, None]) @ adapted.turn.T - adapted.centre
    agreement = np.linalg.norm(sides.x, axis=1) / np.linalg.norm(x, axis=1)
    conditions = sides.conditions.copy()
    far = parent.reach[-1]
    told = np.clip(np.log(there) - usual, -far, far)
    conditions[inside, LENGTHS_AT.stop - 1] = told[inside]
    conditions[:, PLACE_AT] = inside[:, None] * np.array([adapted.ease, adapted.known])
    moved = np.where(inside[:, None], x * agreement[:, None], sides.x)
    return Sides(moved, sides.count, sides.spread, conditions)


def _on_the_sphere(scorer: JointScorer, x: Array) -> Array:
    """v of length 1 with turn v - centre along x: the larger root of |t a + b| = 1.

    The centre is a mean of vectors of length 1, so |b| < 1 and the root is positive.
    """
    a = np.linalg.solve(scorer.turn, x.T).T
    b = np.linalg.solve(scorer.turn, scorer.centre)
    squares, along = (a**2).sum(axis=1), a @ b
    t = (np.sqrt(along**2 + squares * (1.0 - b @ b)) - along) / squares
    return t[:, None] * a + b
