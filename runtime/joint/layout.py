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
from dcaplda.runtime.joint.terms import Array

TAIL = 2
"""Columns of the count and of the spread."""
LENGTHS_AT = slice(-3 - LENGTHS, -3)
PLACE_AT = [-3, -1]
COUNT_AT = -2
"""Of a side's conditions: durations come first, then the lengths of its embeddings, the ease of its
place, the logarithm of the number of utterances, and how well the place is known."""
BIAS, AXES, FACTORS, HALF = "joint.bias", "joint.axes", "joint.factors", "joint.half"
"""Names of constants in graphs: of the model before any place,"""
GATE, KNOWN, SHIFT, CENTRE = "joint.gate", "joint.known", "joint.shift", "joint.centre"
SCORE, ALONE, QUADRATICS = "joint.score", "joint.alone", "joint.quadratics"
"""and those that a place changes."""


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


def place_constants(scorer: JointScorer) -> dict[str, NDArray[np.float32]]:
    """What graphs have of a scorer, by name, as they use it.

    A graph works as the scorer before any place does. An utterance that sounds of the place brings
    k = (ease, known), any other 0, and k times the constants from SHIFT on is what the place
    changes; the ease itself changes nothing but calibration.
    """
    home = scorer.elsewhere
    here, there = _score_constants(scorer), _score_constants(home)
    share = 1.0 / scorer.known if scorer.known > 0 else 0.0
    # The sums of squares have columns for them and, of one utterance, empty ones for weights.
    sums = np.concatenate([scorer.quadratics, np.zeros_like(scorer.quadratics)])
    gate = np.zeros_like(scorer.bias) if scorer.gate is None else scorer.gate
    found = {
        BIAS: home.bias,
        f"{AXES}.weight": home.turn.T,
        f"{AXES}.bias": -home.centre,
        FACTORS: there[0],
        HALF: np.array([there[1], 1.0]),
        f"{GATE}.weight": gate[:, None],
        f"{GATE}.bias": np.array([-scorer.edge]),
        KNOWN: np.array([scorer.ease, scorer.known]),
        SHIFT: _by_known(share * (scorer.bias - home.bias)),
        CENTRE: _by_known(share * (home.centre - scorer.centre)),
        SCORE: _by_known(share * (here[0] - there[0])),
        ALONE: np.array([[1.0, 0.0], [0.0, 0.0], [share * (here[1] - there[1]), 0.0]]),
        QUADRATICS: sums.T * scorer.length**2,
    }
    return {name: np.ascontiguousarray(value, np.float32) for name, value in found.items()}


def _by_known(change: Array) -> Array:
    """Rows for k = (ease, known)."""
    return np.stack([np.zeros_like(change), change])


def _score_constants(scorer: JointScorer) -> tuple[Array, float]:
    """Factors of x and of x^2, (2 R,), and half of the constant."""
    terms, length = scorer.terms(), scorer.length
    factors = np.concatenate([np.sqrt(terms.cross) * length, terms.enroll * length**2])
    return factors, 0.5 * terms.constant
