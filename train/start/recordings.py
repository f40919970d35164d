"""Trials within one recording: utterances of one session, as a diarizer compares them.

The other episodes never let a session meet itself, since a product compares calls of two days.
Utterances of one recording agree more than that, and its clusters are of any size. Half of these
episodes are whole recordings of a few people, heard as their own place before they are compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dcaplda.runtime.joint.place import posterior
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.train.data.folds import Part
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.start.conditions import fit_conditions
from dcaplda.train.start.episodes import (
    MOST_PEOPLE,
    Episode,
    Plan,
    Rows,
    Source,
    scored,
)

CLUSTER = (1, 1, 1, 2, 2, 3, 4)
"""Utterances of a side; one is drawn."""
SPEAKERS = 2, 6
"""People of a recording that is heard as its own place."""
MOST_EACH = 8
"""Utterances of a person in it."""
MOST_TRIALS = 200
"""Of either kind in an episode."""
DRAWS = 4
"""Sides of each person."""


def fit_recordings(
    episodes: list[Episode], prior: float, notes: list[str]
) -> tuple[PldaForm, PldaForm] | None:
    """Scale and shift within one recording; None if no session has what it takes."""
    if not episodes:
        notes.append(
            "no two people of a place have two utterances of one session (utt2sess): utterances "
            "of one recording are calibrated as any of one place"
        )
        return None
    return fit_conditions(episodes, prior, notes)


def recordings_of_part(
    source: Source,
    part: Part,
    held_out: JointScorer,
    weight: float,
    rounds: int,
    rng: np.random.Generator,
) -> Iterator[Episode]:
    """Episodes of a part's people, one of each domain a round; `weight` is that of a domain."""
    domains = source.data.domain[part.rows]
    places = [sessions_of(source.data, part.rows[domains == d]) for d in np.unique(domains)]
    for number in range(rounds):
        for sessions in places:
            found = _episode(source, sessions, held_out, number, rng, weight / rounds)
            if found is not None:
                yield found


@dataclass(frozen=True)
class Sessions:
    """Utterances of a domain by person and session, so that a few are drawn without a search."""

    rows: Rows
    starts: Rows
    """Where in `rows` each session begins, and where the last one ends."""
    people: Rows
    """Where in `starts` each person begins, and where the last one ends."""


def sessions_of(data: TrainingData, rows: Rows) -> Sessions:
    """The sessions of utterances."""
    rows = rows[np.lexsort((data.session[rows], data.identity[rows]))]
    person, session = data.identity[rows], data.session[rows]
    new_person = np.append(True, person[1:] != person[:-1])
    new_session = new_person | np.append(True, session[1:] != session[:-1])
    starts = np.flatnonzero(new_session)
    people = np.flatnonzero(new_person[starts])
    return Sessions(rows, np.append(starts, len(rows)), np.append(people, len(starts)))


def _episode(
    source: Source,
    of_place: Sessions,
    held_out: JointScorer,
    number: int,
    rng: np.random.Generator,
    weight: float,
) -> Episode | None:
    data, own_place = source.data, number % 2 == 1
    n_enroll, n_test = (int(rng.choice(CLUSTER)) if number % 4 > 1 else 1 for _ in range(2))
    sessions = one_session_each(of_place, n_enroll + n_test, rng)
    if own_place:
        sessions = sessions[: int(rng.integers(*SPEAKERS, endpoint=True))]
    if len(sessions) < 2:
        return None
    scorer, heard = held_out, 0
    if own_place:
        sessions = [own[: max(MOST_EACH, n_enroll + n_test)] for own in sessions]
        pool = np.concatenate(sessions)
        scorer, heard = posterior(held_out, data.embeddings[pool]), len(pool)
    drawn = np.array([rng.permutation(own)[: n_enroll + n_test] for own in sessions * DRAWS])
    enroll, test = drawn[:, :n_enroll], drawn[:, n_enroll:]
    same = data.identity[enroll[:, 0]][:, None] == data.identity[test[:, 0]][None, :]
    # Two draws of a session may have an utterance in common, which is no trial.
    shared = (enroll[:, None, :, None] == test[None, :, None, :]).any(axis=(2, 3))
    targets, nontargets = (
        pairs[rng.permutation(len(pairs))[:MOST_TRIALS]]
        for pairs in (np.argwhere(same & ~shared), np.argwhere(~same))
    )
    if not len(nontargets):
        return None
    plan = Plan(n_enroll, n_test, (heard, heard))
    sides, trials = (enroll, test), (targets, nontargets)
    found = scored(source, plan, [scorer, scorer], sides, trials, True, weight)
    return replace(found, recording=True)


def one_session_each(of_place: Sessions, least: int, rng: np.random.Generator) -> list[Rows]:
    """Utterances of one session of each person that has one with so many; people in any order.

    Of MOST_PEOPLE at most.
    """
    found: list[Rows] = []
    starts, counts = of_place.starts, np.diff(of_place.starts)
    for person in rng.permutation(len(of_place.people) - 1):
        own = np.arange(*of_place.people[person : person + 2])
        own = own[counts[own] >= least]
        if len(own):
            session = rng.choice(own)
            found.append(rng.permutation(of_place.rows[starts[session] : starts[session + 1]]))
            if len(found) == MOST_PEOPLE:
                break
    return found
