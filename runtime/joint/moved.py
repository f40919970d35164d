"""Voiceprints of a model moved to a place that it was adapted to, from what they keep.

Adaptation moves an utterance before the length normalization (`bias`) and behind it (`centre`):

    parent    x  = turn v - centre           v  = w / |w|              w of the embedding, by LDA
    adapted   x' = turn v' - centre'         v' = (w - d) / |w - d|    d = bias - bias'

A voiceprint keeps the mean of x and so of v; the length |w| is lost. Without a shift (d = 0) the
mean of x' is exact. With one, w = L v with one length L for all gives

    mean of v'  =  (L v - d) / sqrt(L^2 - 2 L v'd + d'd)

which is exact for one utterance of length L, and close for others of the place that L is of.
"""

import numpy as np

from dcaplda.runtime.joint.rows import Sides
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.runtime.joint.terms import Array


def usual_length(scorer: JointScorer, embeddings: Array) -> float:
    """L of utterances (n, D): the harmonic mean of |w|, as shifts count by 1 / |w|."""
    w = np.asarray(embeddings, np.float64) @ scorer.weight.T + scorer.bias
    return float(1.0 / np.mean(1.0 / np.linalg.norm(w, axis=1)))


def moved_sides(parent: JointScorer, adapted: JointScorer, sides: Sides, length: float) -> Sides:
    """Sides of the parent as the adapted model would have made them."""
    shift = parent.bias - adapted.bias
    v = np.linalg.solve(parent.turn, (sides.x + parent.centre).T).T
    if shift.any():
        squares = length**2 - 2.0 * length * (v @ shift) + shift @ shift
        v = (length * v - shift) / np.sqrt(squares)[:, None]
    conditions = sides.conditions.copy()
    conditions[:, -1] = adapted.known
    return Sides(v @ adapted.turn.T - adapted.centre, sides.count, sides.spread, conditions)
