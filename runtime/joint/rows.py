"""Voiceprints of several utterances: sums and counts in, one row out, and what rows say again.

A row of a joint model keeps what was averaged, so that an utterance can be added or given back
without the others, and two rows of any numbers, or of two places, can be compared exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.checks import finite_llrs
from dcaplda.runtime.errors import BundleError, InputError
from dcaplda.runtime.joint.layout import COUNT_AT, TAIL, Layout
from dcaplda.runtime.joint.scorer import (
    JointScorer,
    form_scores,
    mostly_inside,
    read_scorer,
    side_terms,
    what_is_wrong,
)
from dcaplda.runtime.joint.terms import Array, Terms

Float32 = NDArray[np.float32]
_ACROSS = ("scale_across", "shift_across")
_WITHIN = ("scale_within", "shift_within")
_FORM = ("basis", "weights", "auto", "linear", "half")


@dataclass(frozen=True, eq=False)
class CalibrationForm:
    """Scale or shift as a form of both sides' conditions e (eq. 21, 22) on a = basis'e."""

    basis: Array
    weights: Array
    auto: Array
    linear: Array
    half: float

    def block(self, conditions: Array) -> Array:
        """[a, own(a), 1] of each row of conditions (n, F)."""
        a = conditions @ self.basis
        own = np.einsum("ij,jk,ik->i", a, self.auto, a) + a @ self.linear + self.half
        return np.column_stack([a, own, np.ones(len(a))])

    def values(self, enroll: Array, test: Array) -> Array:
        """The form of every enrolment with every test; (E, F), (T, F) -> (E, T)."""
        left, right = self.block(enroll), self.block(test)
        cross = (left[:, :-2] * self.weights) @ right[:, :-2].T
        return cross + left[:, -2][:, None] + right[:, -2][None, :]

    def pair_values(self, enroll: Array, test: Array) -> Array:
        """The same row by row; (n,)."""
        left, right = self.block(enroll), self.block(test)
        cross = (left[:, :-2] * self.weights * right[:, :-2]).sum(axis=1)
        values: Array = cross + left[:, -2] + right[:, -2]
        return values


@dataclass(frozen=True, eq=False)
class Sides:
    """What several utterances come to: mean x, their number, their spread, their conditions."""

    x: Array
    count: Array
    spread: Array
    conditions: Array

    def __len__(self) -> int:
        return len(self.count)

    def take(self, rows: Any) -> "Sides":
        """Some of them."""
        return Sides(self.x[rows], self.count[rows], self.spread[rows], self.conditions[rows])


class Kind(NamedTuple):
    """What decides which terms serve a side."""

    spread: float
    inside: bool
    """Whether it sounds as if it were of the model's place."""


def joined_sides(sides: Sequence[Sides]) -> Sides:
    """Sides one after the other."""
    names = ("x", "count", "spread", "conditions")
    return Sides(*(np.concatenate([getattr(side, name) for side in sides]) for name in names))


@dataclass(frozen=True, eq=False)
class JointModel:
    """The scorer and the calibration of a bundle, for rows of any number of utterances."""

    scorer: JointScorer
    scale: CalibrationForm
    shift: CalibrationForm
    across: tuple[CalibrationForm, CalibrationForm] | None = None
    """Scale and shift of trials between two places; None: those of one place serve."""
    within: tuple[CalibrationForm, CalibrationForm] | None = None
    """Scale and shift of utterances of one recording; None: those of one place serve."""

    @property
    def layout(self) -> Layout:
        """Columns of a row."""
        scorer = self.scorer
        return Layout(len(scorer.between), len(scorer.quadratics), len(self.scale.linear))

    def sides(self, rows: NDArray[np.floating]) -> Sides:
        """What stands behind voiceprints (n, K)."""
        layout, matrix = self.layout, np.asarray(rows, np.float64)
        count, spread = matrix[:, layout.tail], matrix[:, layout.tail + 1]
        counted = (count >= 1) & (count < np.inf) & (spread > 0) & (spread <= 1)
        if not counted.all():
            raise InputError("voiceprints: the number of utterances is not kept in them")
        found = Sides(
            matrix[:, : layout.axes].copy(), count, spread, matrix[:, layout.tail + TAIL :]
        )
        for kind, chosen in self._kinds(found):
            scorer = self._scorer_of(kind)
            found.x[chosen] *= np.sqrt(scorer.terms().cross) / scorer.terms(kind.spread).cross
        return found

    def inside(self, sides: Sides) -> NDArray[np.bool_]:
        """Which sides sound as if they were of this model's place: half of their utterances do."""
        return mostly_inside(sides.conditions, self.scorer.known)

    def _kinds(self, sides: Sides) -> "list[tuple[Kind, NDArray[np.int64]]]":
        """Sides that the same terms serve, by their rows."""
        inside = self.inside(sides)
        pairs = np.stack([sides.spread, inside], axis=1)
        kinds, number = np.unique(pairs, axis=0, return_inverse=True)
        number = number.reshape(-1)
        return [
            (Kind(float(spread), bool(here)), np.flatnonzero(number == place))
            for place, (spread, here) in enumerate(kinds)
        ]

    def _scorer_of(self, kind: "Kind") -> JointScorer:
        return self.scorer if kind.inside else self.scorer.elsewhere

    def _terms(self, enroll: "Kind", test: "Kind", place: "JointModel | None") -> Terms:
        """The form of sides of these kinds; the tests are of `place`, if it is another one."""
        sides = (self.scorer, enroll.inside), ((place or self).scorer, test.inside)
        return side_terms(sides, (enroll.spread, test.spread), place is None)

    def merged(
        self,
        sides: Sides,
        groups: NDArray[np.integer],
        n_groups: int,
        sessions: NDArray[np.integer] | None = None,
    ) -> Sides:
        """One side of each group of sides; `groups` numbers them from 0.

        `sessions` numbers the session of each side; without it, those of a group may all be of one.
        """
        weights = sides.count
        total: Array = np.bincount(groups, weights, n_groups).astype(np.float64)
        lengths = weights * np.sqrt(self.one_session(sides))
        owner, session = np.arange(n_groups), groups
        if sessions is not None:
            pairs, session = np.unique(
                np.column_stack([groups, sessions]), axis=0, return_inverse=True
            )
            owner, session = pairs[:, 0], session.reshape(-1)
        squares = np.bincount(session, lengths, len(owner)) ** 2
        shared = np.bincount(owner, squares, n_groups) / total**2
        share = weights / total[groups]

        def mean(values: Array) -> Array:
            sums = np.zeros((n_groups, values.shape[1]))
            np.add.at(sums, groups, values * share[:, None])
            return sums

        return self._counted(mean(sides.x), total, mean(sides.conditions), shared)

    def one_session(self, sides: Sides) -> Array:
        """Share of a side's pairs of utterances (i, j), i = j too, that are of one session; (n,).

        The spread keeps it: u = c h + (1 - c) / n with the correlation c within a session. Of
        sessions with n_1, n_2, ... utterances it is h = (n_1^2 + n_2^2 + ...) / n^2.
        """
        correlation = self.scorer.correlation
        if correlation == 0:
            return np.ones(len(sides))
        shared = (sides.spread - (1.0 - correlation) / sides.count) / correlation
        # Spreads of stored rows are rounded; what is almost one session is one.
        return np.where(shared > 1.0 - 1e-4, 1.0, np.maximum(shared, 1.0 / sides.count))

    def without(self, side: Sides, part: Sides, whole_sessions: bool = False) -> Sides:
        """One side without the utterances of another (one each) that is part of it.

        `whole_sessions`: the part is all that there was of its sessions; else it is taken from the
        largest, so that giving back undoes adding.
        """
        left = side.count - part.count
        if not (left >= 1).all():
            raise InputError(
                f"speaker: has {side.count[0]:g} utterances, {part.count[0]:g} cannot be taken; "
                "at least one must stay"
            )

        def rest(whole: Array, gone: Array) -> Array:
            kept: Array = (side.count[:, None] * whole - part.count[:, None] * gone) / left[:, None]
            return kept

        lengths, gone = (it.count * np.sqrt(self.one_session(it)) for it in (side, part))
        squares = lengths**2 - gone**2 if whole_sessions else (lengths - gone) ** 2
        shared = np.clip(squares / left**2, 1.0 / left, 1.0)
        x, conditions = rest(side.x, part.x), rest(side.conditions, part.conditions)
        return self._counted(x, left, conditions, shared)

    def _counted(self, x: Array, count: Array, conditions: Array, shared: Array) -> Sides:
        conditions = conditions.copy()
        conditions[:, COUNT_AT] = np.log(np.minimum(count, self.scorer.told_count))
        correlation = self.scorer.correlation
        return Sides(x, count, correlation * shared + (1.0 - correlation) / count, conditions)

    def rows(self, sides: Sides) -> Float32:
        """Voiceprints of sides, to be compared by the graphs with single tests; (n, K)."""
        layout = self.layout
        made = np.zeros((len(sides), layout.width))
        squares = sides.x**2
        made[:, layout.sums] = squares @ self.scorer.quadratics.T
        for kind, chosen in self._kinds(sides):
            scorer = self._scorer_of(kind)
            terms, single = scorer.terms(kind.spread), scorer.terms()
            made[chosen, : layout.axes] = sides.x[chosen] * (terms.cross / np.sqrt(single.cross))
            # A single test brings half of its own constant, and x^2 as against a single enrolment.
            own = terms.constant - 0.5 * single.constant
            made[chosen, layout.own] = squares[chosen] @ terms.enroll + own
            if kind.spread != 1.0:
                made[chosen, layout.weights] = self.scorer.quadratics @ (terms.test - single.test)
        made[:, layout.own + 1] = 1.0
        for start, form in zip(layout.calibration, (self.scale, self.shift), strict=True):
            made[:, start : start + layout.conditions + 2] = form.block(sides.conditions)
        made[:, layout.tail] = sides.count
        made[:, layout.tail + 1] = sides.spread
        made[:, layout.tail + TAIL :] = sides.conditions
        return made.astype(np.float32)

    def llrs(self, enroll: Sides, test: Sides, place: "JointModel | None" = None) -> Array:
        """LLR of every enrolment with every test by the closed form itself, float64; (E, T).

        `place` is the model of the tests, if their place is another one.
        """
        scores = np.zeros((len(enroll), len(test)))
        tests = (place or self)._kinds(test)
        for one, i in self._kinds(enroll):
            for other, j in tests:
                terms = self._terms(one, other, place)
                scores[np.ix_(i, j)] = form_scores(terms, enroll.x[i], test.x[j])
        scale, shift = self._calibration(place)
        alpha = scale.values(enroll.conditions, test.conditions)
        llrs: Array = alpha * scores + shift.values(enroll.conditions, test.conditions)
        return finite_llrs(llrs)

    def _calibration(self, place: "JointModel | None") -> tuple[CalibrationForm, CalibrationForm]:
        usual = self.scale, self.shift
        return usual if place is None or self.across is None else self.across

    def pair_llrs(self, enroll: Sides, test: Sides, place: "JointModel | None" = None) -> Array:
        """The same row by row; (n,)."""
        scores = np.zeros(len(enroll))
        tests = (place or self)._kinds(test)
        for one, i in self._kinds(enroll):
            for other, j in tests:
                chosen = np.intersect1d(i, j, assume_unique=True)
                terms = self._terms(one, other, place)
                left, right = enroll.x[chosen], test.x[chosen]
                values = left * right * terms.cross
                values += left**2 * terms.enroll + right**2 * terms.test
                # A sum per row: the LLR of a pair does not depend on what else is in the list.
                scores[chosen] = values.sum(axis=1) + terms.constant
        scale, shift = self._calibration(place)
        alpha = scale.pair_values(enroll.conditions, test.conditions)
        llrs: Array = alpha * scores + shift.pair_values(enroll.conditions, test.conditions)
        return finite_llrs(llrs)

    def of_recording(self) -> "JointModel":
        """The model for utterances that are all of one recording.

        What a place's trials between sessions need says nothing of those within a recording.
        """
        if self.within is None:
            return self
        scorer = replace(self.scorer, own=0.0)
        return replace(self, scorer=scorer, scale=self.within[0], shift=self.within[1])

    def adapted(self, scorer: JointScorer) -> "JointModel":
        """The same calibration with the scorer of a place."""
        return replace(self, scorer=scorer)

    def arrays(self) -> dict[str, Array]:
        """Everything, by name, to be stored."""
        found = self.scorer.arrays()
        forms = {"scale": self.scale, "shift": self.shift}
        if self.across is not None:
            forms |= dict(zip(_ACROSS, self.across, strict=True))
        if self.within is not None:
            forms |= dict(zip(_WITHIN, self.within, strict=True))
        for name, form in forms.items():
            found |= {f"{name}.{key}": np.asarray(getattr(form, key)) for key in _FORM}
        return found


def read_joint(arrays: Mapping[str, Any], place: str) -> JointModel:
    """A model from stored arrays, checked."""
    scorer = read_scorer(arrays, place)
    forms = {}
    further = [names for names in (_ACROSS, _WITHIN) if f"{names[0]}.basis" in arrays]
    for name in ("scale", "shift", *(name for names in further for name in names)):
        try:
            found = {key: np.asarray(arrays[f"{name}.{key}"], np.float64) for key in _FORM}
        except (KeyError, ValueError, TypeError) as error:
            raise BundleError(f"{place}: {what_is_wrong(error)}; export again") from None
        size = found["linear"].size
        shapes = {"basis": (size, size), "auto": (size, size), "linear": (size,)}
        shapes |= {"weights": (size,), "half": ()}
        if any(found[k].shape != s or not np.isfinite(found[k]).all() for k, s in shapes.items()):
            raise BundleError(f"{place}: '{name}' has a wrong size or value; export again")
        forms[name] = CalibrationForm(**{**found, "half": float(found["half"])})  # type: ignore[arg-type]
    sizes = {len(form.linear) for form in forms.values()}
    if len(sizes) > 1 or min(sizes) < 3:
        raise BundleError(f"{place}: 'scale' and 'shift' do not belong together; export again")
    across, within = (
        (forms[names[0]], forms[names[1]]) if names in further else None
        for names in (_ACROSS, _WITHIN)
    )
    return JointModel(scorer, forms["scale"], forms["shift"], across, within)
