"""JointScorer: the place, speaker and sample model of a bundle, in float64.

It is the readable definition of what graphs and voiceprints of several utterances compute, the
oracle of their tests, and what training and adaptation work with.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.joint.terms import Array, Terms, pair_terms
from dcaplda.runtime.joint.trained import TrainedPlaces

QUADRATICS = 10
"""Sums of squares that a test brings; the LLR loses less than 1e-6 by their being so few."""
NO_LIMIT = 1e9
"""Utterances that nobody has."""
LENGTHS = 2
"""Conditions that an embedding's own lengths are: before and after LDA."""
PLACE = {"gate", "parent_bias", "parent_centre"}
"""What only a scorer that is adapted to a place has."""
SINCE = {"told_count", "own"}
"""What bundles that were exported before do not have."""
APART = {"trained", "place_number"}
"""What is stored in another form, or not at all."""
MOST_OWN = 100.0
"""Of what a place adds to the scores of its trials, in either direction."""
LEAST_LEFT = 1e-9
"""Of a place's variance that stays unknown, however much of it training heard."""


@dataclass(frozen=True, eq=False)
class JointScorer:
    """From an embedding to x, whose axes have within-speaker variance 1 and are independent.

    x = length Norm(turn Norm(weight embedding + bias) - centre)

    The second normalization is around the centre of the place: without it an utterance that lies
    far from where it is expected says more, for or against, than any utterance can.

    Of a scorer that is adapted to a place, an utterance that does not sound as if it came from
    there (`inside`) is scored as one of whose place nothing is known: `elsewhere`.
    """

    weight: Array
    """LDA, (R, D)."""
    bias: Array
    """Of LDA, (R,); a place's shift of the embeddings is in it."""
    turn: Array
    """(R, R)."""
    centre: Array
    """(R,); the expected offset of a place is in it."""
    between: Array
    """Variance of speakers, (R,)."""
    offset: Array
    """Variance of a place's offset, as far as it is not known, (R,)."""
    correlation: float
    """Of the samples of one speaker: what a mean of very many utterances keeps of u = 1."""
    embedding_mean: Array
    """Mean of the training's places, (D,)."""
    quadratics: Array
    """(Q, R), orthonormal rows: a test brings its squares x^2 as Q sums."""
    prior_offset: Array
    """`offset` of a place of which nothing is known."""
    same_score: float
    """Of an utterance pair's difference: few strangers of a training domain reach it."""
    length: float
    """Of every x: the usual one in training, before the second normalization."""
    usual: Array
    """Logarithms of the usual lengths of training's embeddings, before and after LDA, (2,)."""
    reach: Array
    """How far those logarithms may lie from the usual, (2,): beyond what training saw, calibration
    is told the farthest that it knows."""
    usual_ease: float = 0.0
    """Ease of the places that training held out (see `ease`)."""
    reach_ease: float = np.inf
    """How far a place's ease may lie from it."""
    told_count: float = NO_LIMIT
    """Utterances of a side that calibration is told at most, as many as training's had: what a line
    fitted to six says of twenty is not what twenty are worth."""
    known: float = 0.0
    """How well the place is known, from 0 to below 1: what calibration is told."""
    ease: float = 0.0
    """How well people who return are recognized in the utterances heard, over the usual: the raw
    score of an utterance with its best partner, upper quartile. Calibration is told, since places
    differ in how hard they are; 0 where too little was heard."""
    heard: float = 0.0
    """Effective number of people that it is known from."""
    own: float = 0.0
    """Of a place that training knew: what each side from there adds to the score."""
    place_number: int | None = None
    """Of that place; not stored."""
    gate: Array | None = None
    """Direction in which the place differs from any other, of w before the place's shift, (R,)."""
    edge: float = -1.0
    """Along it, from where on an utterance sounds as if it were of the place."""
    parent_bias: Array | None = None
    parent_centre: Array | None = None
    """`bias` and `centre` of the scorer that was adapted."""
    trained: TrainedPlaces | None = None
    """Places that training knew; bundles from before have none."""

    @property
    def elsewhere(self) -> "JointScorer":
        """The scorer as it was before it was adapted."""
        if self.gate is None or self.parent_bias is None or self.parent_centre is None:
            return self
        return replace(
            self,
            bias=self.parent_bias,
            centre=self.parent_centre,
            offset=self.prior_offset,
            known=0.0,
            ease=0.0,
            heard=0.0,
            own=0.0,
            gate=None,
        )

    def inside(self, embeddings: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Which utterances (n, D) sound as if they were of the place; all, if it is any place."""
        if self.gate is None:
            return np.ones(len(embeddings), np.bool_)
        w = self.elsewhere._reduced(embeddings)
        found: NDArray[np.bool_] = w @ self.gate > self.edge * np.linalg.norm(w, axis=1)
        return found

    def place_conditions(self, embeddings: NDArray[np.floating]) -> Array:
        """What calibration is told of the place of each utterance: its ease and `known`; (n, 2)."""
        return self.inside(embeddings)[:, None] * np.array([self.ease, self.known])

    def _by_place(
        self, embeddings: NDArray[np.floating], values: "Callable[[JointScorer, Array], Array]"
    ) -> Array:
        """Values of each utterance by this scorer, or of those of elsewhere by the one before."""
        matrix = np.asarray(embeddings, np.float64)
        inside = self.inside(matrix)
        found = values(self, matrix)
        if not inside.all():
            found[~inside] = values(self.elsewhere, matrix[~inside])
        return found

    def centred(self, embeddings: NDArray[np.floating]) -> Array:
        """x of single utterances before the second normalization; (n, D) -> (n, R)."""
        return self._by_place(embeddings, JointScorer._centred)

    def _centred(self, embeddings: Array) -> Array:
        w = self._reduced(embeddings)
        w /= np.linalg.norm(w, axis=1, keepdims=True)
        x: Array = w @ self.turn.T - self.centre
        return x

    def projected(self, embeddings: NDArray[np.floating]) -> Array:
        """x of single utterances; (n, D) -> (n, R)."""
        x = self.centred(embeddings)
        x *= self.length / np.linalg.norm(x, axis=1, keepdims=True)
        return x

    def lengths(self, embeddings: NDArray[np.floating]) -> Array:
        """Logarithm of each embedding's length, before and after LDA, over the usual; (n, 2).

        Noise and a strange place shorten an embedding: calibration is told.
        """
        return self._by_place(embeddings, JointScorer._lengths)

    def _lengths(self, embeddings: Array) -> Array:
        both = embeddings, self._reduced(embeddings)
        found = [np.log(np.linalg.norm(values, axis=1)) for values in both]
        lengths: Array = np.clip(np.stack(found, axis=1) - self.usual, -self.reach, self.reach)
        return lengths

    def _reduced(self, embeddings: NDArray[np.floating]) -> Array:
        reduced: Array = np.asarray(embeddings, np.float64) @ self.weight.T + self.bias
        return reduced

    def spread(self, count: float) -> float:
        """u of the mean of so many utterances: 1 for one, `correlation` for very many."""
        return self.correlation + (1.0 - self.correlation) / count

    def terms(self, spread_enroll: float = 1.0, spread_test: float = 1.0) -> Terms:
        """The form of two sides of this place."""
        spreads = spread_enroll, spread_test
        found = pair_terms(self.between, (self.offset, self.offset), spreads, True)
        return found._replace(constant=found.constant + 2.0 * self.own)

    def across(self, other: "JointScorer", spread_enroll: float, spread_test: float) -> Terms:
        """The form of an enrolment of this place and a test of the other's."""
        offsets = self.offset, other.offset
        found = pair_terms(self.between, offsets, (spread_enroll, spread_test), False)
        return found._replace(constant=found.constant + self.own + other.own)

    def scores(self, enroll: Array, n_enroll: float, test: Array, n_test: float = 1.0) -> Array:
        """Every mean of `n_enroll` utterances against every mean of `n_test`; (E, T)."""
        return form_scores(self.terms(self.spread(n_enroll), self.spread(n_test)), enroll, test)

    def arrays(self) -> dict[str, Array]:
        """Everything, by name, to be stored."""
        names = (f.name for f in fields(self) if f.name not in APART)
        found = {name: getattr(self, name) for name in names}
        if self.trained is not None:
            found |= {f"trained.{name}": value for name, value in self.trained._asdict().items()}
        return {k: np.asarray(v, np.float64) for k, v in found.items() if v is not None}


def mostly_inside(conditions: Array, known: float) -> NDArray[np.bool_]:
    """Which sides sound as if they were of the place, by their conditions (n, F).

    The last one is the mean of what single utterances have, `known` or 0; half of them are enough,
    and a half that was rounded is one too.
    """
    found: NDArray[np.bool_] = conditions[:, -1] >= 0.499 * known
    return found


def side_terms(
    sides: tuple[tuple[JointScorer, bool], tuple[JointScorer, bool]],
    spreads: tuple[float, float],
    same_place: bool = True,
) -> Terms:
    """The form of two sides, each with the scorer of its place and whether it sounds of there."""
    enroll, test = (scorer if inside else scorer.elsewhere for scorer, inside in sides)
    if not same_place:
        return enroll.across(test, *spreads)
    if sides[0][1] == sides[1][1]:
        return enroll.terms(*spreads)
    return _meeting_terms(enroll, test, *spreads)


def _meeting_terms(enroll: JointScorer, test: JointScorer, u: float, v: float) -> Terms:
    """Of one place, but only one side sounds of there: what the rows of either model give.

    Each brings its own part as against a single utterance of its own model, and of the cross term
    its root: the same that a plain product of two voiceprints comes to.
    """
    one, other = enroll.terms(u, 1.0), test.terms(1.0, v)
    single, alone = enroll.terms(), test.terms()
    return Terms(
        one.cross * other.cross / np.sqrt(single.cross * alone.cross),
        one.enroll + other.enroll - alone.enroll,
        one.test - single.test + other.test,
        one.constant - 0.5 * single.constant + other.constant - 0.5 * alone.constant,
    )


def form_scores(terms: Terms, enroll: Array, test: Array) -> Array:
    """A form of every enrolment x (E, R) with every test x (T, R)."""
    own = (enroll**2 @ terms.enroll)[:, None] + (test**2 @ terms.test)[None, :]
    return (enroll * terms.cross) @ test.T + own + terms.constant


def read_scorer(arrays: Any, place: str) -> JointScorer:
    """A scorer from stored arrays, all sizes and values checked."""
    try:
        found = {
            f.name: np.asarray(arrays[f.name], np.float64)
            for f in fields(JointScorer)
            if f.name not in APART and (f.name not in PLACE | SINCE or f.name in arrays)
        }
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise BundleError(f"{place}: {what_is_wrong(error)}; export again") from None
    rank, dim = found["weight"].shape if found["weight"].ndim == 2 else (0, 0)
    shapes: dict[str, tuple[int, ...]] = {
        name: (rank,) for name in ("bias", "centre", "between", "offset", "prior_offset")
    }
    shapes |= {"turn": (rank, rank), "embedding_mean": (dim,), "weight": (rank, dim)}
    shapes |= {"usual": (LENGTHS,), "reach": (LENGTHS,)}
    shapes |= {name: (rank,) for name in PLACE if name in found}
    of_model = "correlation", "same_score", "length", "usual_ease", "reach_ease", "told_count"
    numbers = [*of_model, "known", "ease", "heard", "own", "edge"]
    numbers = [name for name in numbers if name in found or name not in SINCE]
    shapes |= {name: () for name in numbers}
    shapes["quadratics"] = (len(np.atleast_1d(found["quadratics"])), rank)
    for name, shape in shapes.items():
        if found[name].shape != shape or not np.isfinite(found[name]).all() or 0 in shape:
            raise BundleError(f"{place}: '{name}' has a wrong size or value; export again")
    for name in ("between", "offset", "prior_offset"):
        if not (found[name] > 0).all():
            raise BundleError(f"{place}: '{name}' holds a variance that is not above 0")
    if not (0 <= found["correlation"] < 1 and 0 <= found["known"] < 1):
        raise BundleError(f"{place}: 'correlation' or 'known' is not from 0 to below 1")
    if (found["known"] > 0) != (len(found.keys() & PLACE) == len(PLACE)):
        raise BundleError(f"{place}: a part of what adaptation leaves is missing; adapt again")
    far = found["reach"].min(), found["reach_ease"]
    if not found["length"] > 0 or min(far) < 0 or found.get("told_count", 1) < 1:
        raise BundleError(f"{place}: 'length', 'reach' or 'told_count' is below what it can be")
    if "own" in found and abs(float(found["own"])) > MOST_OWN:
        raise BundleError(f"{place}: 'own' is beyond {MOST_OWN:g}; adapt again")
    scalars = {name: float(found.pop(name)) for name in numbers}
    trained = _read_trained(arrays, place, found["prior_offset"], dim)
    return JointScorer(**found, **scalars, trained=trained)  # type: ignore[arg-type]


def what_is_wrong(error: Exception) -> str:
    """Which array is not there, or what is wrong with one."""
    if isinstance(error, KeyError):
        return f"'{error.args[0]}' is missing"
    return f"an array is wrong ({' '.join(str(error).split())})"


def _read_trained(arrays: Any, place: str, offset: Array, dim: int) -> TrainedPlaces | None:
    """Training's places, checked; None of a bundle that has none."""
    names = [f"trained.{name}" for name in TrainedPlaces._fields]
    if not any(name in arrays for name in names):
        return None
    try:
        found = TrainedPlaces(*(np.asarray(arrays[name], np.float64) for name in names))
    except (KeyError, ValueError, TypeError, OSError) as error:
        raise BundleError(f"{place}: {what_is_wrong(error)}; export again") from None
    count = len(np.atleast_1d(found.shift))
    shapes = [(count, dim), *[(count, len(offset))] * 3, (count,)]
    for name, values, shape in zip(names, found, shapes, strict=True):
        if values.shape != shape or not np.isfinite(values).all() or 0 in shape:
            raise BundleError(f"{place}: '{name}' has a wrong size or value; export again")
    if np.abs(found.own).max() > MOST_OWN:
        raise BundleError(
            f"{place}: 'trained.own' holds {np.abs(found.own).max():.3g}; expected at most "
            f"{MOST_OWN:g}; export again"
        )
    share = found.left / offset
    if not (share.min() >= LEAST_LEFT and share.max() <= 1.0 + 1e-6):
        raise BundleError(
            f"{place}: 'trained.left' holds a variance of {share.min():.3g} to {share.max():.3g} "
            f"of that of any place; expected {LEAST_LEFT:g} to 1; export again"
        )
    return found


def quadratic_basis(between: Array, *offsets: Array, count: int = QUADRATICS) -> Array:
    """Rows in which the squares of a single test utterance are summed; (count, R).

    The coefficients of x_t^2 are smooth functions of the enrolment's spread, so a few combinations
    of axes carry them for every number of enrolled utterances: the main directions over a grid.
    Utterances of a place and of elsewhere have `offsets` of their own, and one basis.
    """
    spreads = np.geomspace(1e-3, 1.0, 200)
    rows = []
    for offset in offsets:
        single = pair_terms(between, (offset, offset), (1.0, 1.0)).test
        rows += [pair_terms(between, (offset, offset), (u, 1.0)).test - single for u in spreads]
    directions: Array = np.linalg.svd(np.array(rows), full_matrices=False)[2][:count]
    if len(directions) < count:  # fewer axes than that: sums of nothing fill up
        missing = np.zeros((count - len(directions), directions.shape[1]))
        directions = np.concatenate([directions, missing])
    return directions
