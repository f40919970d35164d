"""Sides of several utterances on both: each person's sessions are shared out among the two.

Sides that are drawn by themselves hardly ever meet where both are of several: who enrols with three
of five sessions has two left, and a test of two utterances is nearly always of one of those three.
"""

import numpy as np
from numpy.typing import NDArray

from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.start.drawn_sides import first_of_each

Rows = NDArray[np.int64]

TRIES = 6
"""Ways of sharing out that are tried for each one that is wanted: some leave too few utterances."""
ONE_SESSION = 0.5
"""Share of draws whose tests are all of one session, as segments of a call are."""


def shared_out(
    data: TrainingData,
    rows: tuple[Rows, Rows],
    counts: tuple[int, int],
    draws: int,
    rng: np.random.Generator,
    apart: bool = False,
) -> tuple[Rows, Rows]:
    """Enrolments (n, counts[0]) and tests (n, counts[1]) of as many sessions as there are.

    Drawn of the rows of either side; row k of both is of one person, who has up to `draws` of them,
    and never of one session. `apart`: nor are two utterances of a side.
    """
    utterances = np.concatenate(rows)
    of_test = np.arange(len(utterances)) >= len(rows[0])
    people, owner = np.unique(data.identity[utterances], return_inverse=True)
    pairs, session = np.unique(
        np.stack([owner, data.session[utterances]]), axis=1, return_inverse=True
    )
    session, owners = session.reshape(-1), pairs[0]
    sessions = np.bincount(owners, minlength=len(people))
    # Tests of one session leave the others to the enrolment; of one a side has no two apart.
    one_session = rng.random() < ONE_SESSION and not (apart and counts[1] > 1)
    wanted = np.where(sessions > 1, draws, 0)
    found: list[tuple[Rows, Rows]] = []
    for _ in range(TRIES * draws):
        if not wanted.any():
            break
        share = sessions - 1 if one_session else rng.integers(1, np.maximum(sessions, 2))
        enrolled = (_turns(owners, rng) < share[owners])[session]
        turn = _turns(2 * session + of_test, rng)
        sides = []
        for chosen, count in zip((enrolled & ~of_test, ~enrolled & of_test), counts, strict=True):
            kept = np.flatnonzero(chosen & (turn == 0) if apart else chosen)
            kept = kept[np.lexsort((rng.random(len(kept)), turn[kept]))]
            sides.append(first_of_each(utterances[kept], owner[kept], count, len(people)))
        whole = (sides[0][:, -1] >= 0) & (sides[1][:, -1] >= 0) & (wanted > 0)
        wanted = wanted - whole
        found.append((sides[0][whole], sides[1][whole]))
    empty = tuple(np.empty((0, count), np.int64) for count in counts)
    enroll, test = (np.concatenate(side) for side in zip(empty, *found, strict=True))
    return enroll, test


def _turns(groups: NDArray[np.integer], rng: np.random.Generator) -> NDArray[np.int64]:
    """The turn of each one within its group, from 0, by chance."""
    order = np.lexsort((rng.random(len(groups)), groups))
    first = np.searchsorted(groups[order], groups[order])
    turns = np.empty(len(groups), np.int64)
    turns[order] = np.arange(len(order)) - first
    return turns
