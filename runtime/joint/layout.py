"""Where things stand in a joint model's voiceprint, and the constants that make them in a graph.

    z | own 1 | sums of squares | weights of them | e own 1 | e own 1 | count spread e
    score                                         | scale   | shift   | what was averaged

z = sqrt(cross) x, so that the product of two z is the cross term of two single utterances. `own`,
and the weights that an enrolment gives to the sums of squares of a test, are zero or usual for one
utterance; for several, `rows` puts in what the closed form asks for. So a side of several can be
compared with a single one, on whichever side it stands; two sides of several need JointModel.llrs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.joint.scorer import LENGTHS, JointScorer

TAIL = 2
"""Columns of the count and of the spread."""
LENGTHS_AT = slice(-2 - LENGTHS, -2)
"""Of a side's conditions: durations come first, then the lengths of its embeddings, the logarithm
of the number of utterances, and how well the place is known."""
BIAS, AXES, ROOT = "joint.bias", "joint.axes", "joint.root"
SQUARES, CONDITIONS = "joint.squares", "joint.conditions"
"""Names of constants that a place changes."""


@dataclass(frozen=True)
class Layout:
    """Columns of a voiceprint with R axes, Q sums of squares and F conditions."""

    axes: int
    quadratics: int
    conditions: int

    @property
    def own(self) -> int:
        """What the side adds by itself; a one follows."""
        return self.axes

    @property
    def sums(self) -> slice:
        """Sums of squares, for the other side's weights."""
        return slice(self.axes + 2, self.axes + 2 + self.quadratics)

    @property
    def weights(self) -> slice:
        """Weights of the other side's sums of squares."""
        return slice(self.sums.stop, self.sums.stop + self.quadratics)

    @property
    def score(self) -> int:
        """Width of the score's part."""
        return self.weights.stop

    @property
    def calibration(self) -> tuple[int, int]:
        """Where scale and shift start."""
        return self.score, self.score + self.conditions + 2

    @property
    def tail(self) -> int:
        """Where count, spread and conditions start."""
        return self.score + 2 * (self.conditions + 2)

    @property
    def width(self) -> int:
        """All columns (K)."""
        return self.tail + TAIL + self.conditions


def place_constants(scorer: JointScorer, conditions: int) -> dict[str, NDArray[np.float32]]:
    """What graphs have of a scorer that adaptation changes, by name, as they use it."""
    terms = scorer.terms()
    root = np.sqrt(terms.cross)
    count = len(scorer.quadratics)
    squares = np.zeros((len(root), 2 + 2 * count))
    squares[:, 0] = terms.enroll / terms.cross
    squares[:, 2 : 2 + count] = (scorer.quadratics / terms.cross).T
    start = np.zeros(2 + 2 * count)
    start[:2] = 0.5 * terms.constant, 1.0
    told = np.zeros(conditions)
    told[-1] = scorer.known
    found = {
        BIAS: scorer.bias,
        f"{AXES}.weight": scorer.turn.T,
        f"{AXES}.bias": -scorer.centre,
        ROOT: root * scorer.length,
        f"{SQUARES}.weight": squares,
        f"{SQUARES}.bias": start,
        CONDITIONS: told,
    }
    return {name: np.ascontiguousarray(value, np.float32) for name, value in found.items()}
