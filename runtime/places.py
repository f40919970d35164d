"""Enrolled at one place, tested at another: each side with its own offset, known as well as it is.

Places of one parent model share its axes, so a voice met at two of them is compared there: of one
place both sides share the offset, of two they share nothing but the speaker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import checks
from dcaplda.runtime.adaptation import is_empty, refuse_one_voice
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.joint.layout import LENGTHS_AT, PLACE_AT
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.joint.rows import JointModel, Sides, joined_sides
from dcaplda.runtime.several import joint_needed, session_numbers
from dcaplda.runtime.verification import (
    Speaker,
    Verification,
    decided,
    decision_rule,
    test_figures,
    test_warnings,
    total_seconds,
)

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

PAIRS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class PlacedSides:
    """Sides and the number of each one's place."""

    sides: Sides
    place: NDArray[np.int64]


class Places:
    """A backend and what is known of several places: utterances heard there, or adapted bundles.

    >>> places = Places(backend, {"office": office_embeddings, "phone": phone_embeddings})
    >>> enrolled = places.sides(calls, seconds, ["office"] * 3, groups=[0, 0, 0])
    >>> tested = places.sides(call, 9.0, ["phone"])
    >>> places.llrs(enrolled, tested)

    >>> places = Places.from_backends(backend, {"office": office, "phone": phone})
    >>> ann = office.enroll(calls, seconds)
    >>> places.verify(ann, call, 9.0, place="phone", prior=0.01).accept
    """

    def __init__(self, backend: "Backend", pools: Mapping[str, ArrayLike]) -> None:
        """`pools` are embeddings (n, D); a place with none is known only as another place."""
        self.backend = backend
        joint = joint_needed(backend)
        if joint.scorer.known > 0:
            raise InputError("this bundle is adapted to one place; give the one it was made of")
        self.names: list[str] = []
        self.models: list[JointModel] = []
        self.fingerprints: list[str] = []
        """Of the bundle of each place; empty where there is none."""
        for name, pool in pools.items():
            self.names.append(name)
            scorer = joint.scorer
            if not is_empty(pool):
                dim = backend.info.embedding_dim
                matrix = checks.embeddings(pool, f"place '{name}'", dim)
                scorer = adapted(scorer, matrix)
                refuse_one_voice(len(matrix), scorer.heard, f"place '{name}': ")
            self.models.append(joint.adapted(scorer))
            self.fingerprints.append("")

    @classmethod
    def from_backends(cls, parent: "Backend", backends: Mapping[str, "Backend"]) -> "Places":
        """Places by the bundles that were adapted to them; `parent` is what all were made of."""
        places = cls(parent, {})
        for name, backend in backends.items():
            places.add(name, backend)
        return places

    def add(self, name: str, backend: "Backend") -> None:
        """One more place, by its adapted bundle; the parent itself is a place of its own too."""
        if name in self.names:
            raise InputError(f"place '{name}' is known already; give it once")
        parent, info = self.backend.info, backend.info
        if parent.fingerprint not in (info.parent, info.fingerprint):
            made_of = f"adapted from {info.parent[:12]}" if info.parent else "not adapted"
            raise InputError(
                f"place '{name}': {backend.directory} is {made_of}, and the model of these places "
                f"is {parent.fingerprint[:12]}; adapt that model to the place (adapt-backend)"
            )
        self.names.append(name)
        self.models.append(joint_needed(backend))
        self.fingerprints.append(info.fingerprint)

    def number(self, speaker: Speaker, what: str = "speaker") -> int:
        """Which place a speaker was enrolled at."""
        if speaker.model and speaker.model in self.fingerprints:
            return self.fingerprints.index(speaker.model)
        kin = self.backend.info.fingerprint in (speaker.model, speaker.parent)
        raise InputError(
            f"{what}: enrolled at a place that is none of {', '.join(self.names) or 'those given'} "
            f"(model {speaker.model[:12] or 'not known'}); "
            + ("give its bundle with the others" if kin else "enrol again")
        )

    def speakers(self, speakers: Sequence[Speaker]) -> PlacedSides:
        """Sides of speakers whose voiceprints the bundles of these places made."""
        found, place = [], []
        for position, speaker in enumerate(speakers):
            if len(speaker.voiceprints) != 1:
                raise InputError(
                    f"speaker {position}: {len(speaker.voiceprints)} voiceprints; enrol with "
                    "multi_enroll='joint'"
                )
            place.append(self.number(speaker, f"speaker {position}"))
            found.append(self.models[place[-1]].sides(speaker.voiceprints))
        if not found:
            raise InputError("speakers: none; there is nothing to score")
        return PlacedSides(joined_sides(found), np.array(place, np.int64))

    def told(self, voiceprints: NDArray[np.floating], place: int) -> NDArray[np.float32]:
        """What voiceprints (n, K) of a place, by its number, tell: rows for told_llrs."""
        sides = self.models[place].sides(voiceprints)
        columns = [sides.x, sides.count, sides.spread, sides.conditions]
        return np.column_stack(columns).astype(np.float32)

    def told_llrs(
        self,
        enroll: NDArray[np.float32],
        enroll_place: int,
        test: NDArray[np.float32],
        test_place: int,
    ) -> NDArray[np.float32]:
        """LLR of every row of `told` with every voiceprint (T, K) of a place; (E, T)."""
        here, there = self.models[enroll_place], self.models[test_place]
        rows, axes = enroll.astype(np.float64), here.layout.axes
        enrolled = Sides(rows[:, :axes], rows[:, axes], rows[:, axes + 1], rows[:, axes + 2 :])
        elsewhere = None if enroll_place == test_place else there
        return here.llrs(enrolled, there.sides(test), elsewhere).astype(np.float32)

    def verify(
        self,
        speaker: Speaker,
        embedding: ArrayLike,
        seconds: ArrayLike | None = None,
        *,
        place: str,
        prior: float,
        cost_miss: float = 1.0,
        cost_fa: float = 1.0,
    ) -> Verification:
        """Does what was said at `place`, one utterance or several, come from that speaker?"""
        rule = decision_rule(prior, cost_miss, cost_fa)
        info = self.backend.info
        matrix = checks.embeddings(embedding, "embedding", info.embedding_dim)
        times = checks.seconds(seconds, "durations", len(matrix), info.uses_durations)
        together = np.zeros(len(matrix), np.int64)
        test = self.sides(matrix, times, [place] * len(matrix), together)
        (llr,) = self.llrs(self.speakers([speaker]), test)
        warnings = test_warnings(self.backend, test_figures(self.backend, matrix, times))
        told = total_seconds(seconds, times)
        return decided(float(llr), rule, speaker.warnings + warnings, self.backend, speaker, told)

    def sides(
        self,
        embeddings: ArrayLike,
        seconds: ArrayLike | None,
        places: Sequence[str],
        groups: ArrayLike | None = None,
        sessions: ArrayLike | None = None,
    ) -> PlacedSides:
        """Utterances (n, D) of these places; with `groups`, numbers from 0, one side of each.

        The utterances of a group are of one place; `sessions` are as in Backend.enroll.
        """
        singles = joint_needed(self.backend).sides(self.backend.voiceprints(embeddings, seconds))
        if isinstance(places, str):
            raise InputError(f"places: '{places}' is one word; give a list, one for each embedding")
        number = {name: place for place, name in enumerate(self.names)}
        unknown = sorted(set(places) - set(number))
        if unknown:
            raise InputError(f"place '{unknown[0]}' is none of {', '.join(self.names)}")
        place = np.array([number[name] for name in places], np.int64)
        matrix = checks.embeddings(embeddings, "embeddings", self.backend.info.embedding_dim)
        if len(place) != len(matrix):
            raise InputError(f"places: {len(place)} for {len(matrix)} embeddings")
        x, conditions = singles.x.copy(), singles.conditions.copy()
        for current in np.unique(place):
            chosen = place == current
            scorer = self.models[current].scorer
            x[chosen] = scorer.projected(matrix[chosen])
            conditions[chosen, LENGTHS_AT] = scorer.lengths(matrix[chosen])
            conditions[np.ix_(chosen, PLACE_AT)] = scorer.place_conditions(matrix[chosen])
        made = Sides(x, singles.count, singles.spread, conditions)
        if groups is None:
            return PlacedSides(made, place)
        numbers = checks.group_numbers(groups, len(matrix))
        n_groups = int(numbers.max()) + 1
        of_group = np.zeros(n_groups, np.int64)
        of_group[numbers] = place
        if (of_group[numbers] != place).any():
            bad = int(numbers[np.argmax(of_group[numbers] != place)])
            raise InputError(f"groups: number {bad} has utterances of two places")
        named = session_numbers(self.backend, sessions, len(matrix))
        return PlacedSides(self.models[0].merged(made, numbers, n_groups, named), of_group)

    def llrs(
        self,
        enroll: PlacedSides,
        test: PlacedSides,
        enroll_index: ArrayLike | None = None,
        test_index: ArrayLike | None = None,
    ) -> NDArray[np.float32]:
        """LLRs of pairs of rows; without indices, of each enrolment with the test of its row."""
        rows = np.arange(len(enroll.place)), np.arange(len(test.place))
        chosen = rows[0] if enroll_index is None else enroll_index
        left = checks.indices(chosen, "enroll_index", len(rows[0]))
        chosen = rows[1] if test_index is None else test_index
        right = checks.indices(chosen, "test_index", len(rows[1]))
        if len(left) != len(right):
            raise InputError(f"pairs: {len(left)} enrolment rows but {len(right)} test rows")
        llrs = np.empty(len(left), np.float32)
        kinds = enroll.place[left] * len(self.names) + test.place[right]
        for kind in np.unique(kinds):
            found = np.flatnonzero(kinds == kind)
            one, other = divmod(int(kind), len(self.names))
            elsewhere = None if one == other else self.models[other]
            for begin in range(0, len(found), PAIRS_AT_ONCE):
                part = found[begin : begin + PAIRS_AT_ONCE]
                llrs[part] = self.models[one].pair_llrs(
                    enroll.sides.take(left[part]), test.sides.take(right[part]), elsewhere
                )
        return llrs
