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
"""Share of episodes whose tests are all of one session, as segments of a call are."""


def shared_out(
    data: TrainingData,
    rows: tuple[Rows, Rows],
    counts: tuple[int, int],
    draws: int,
    rng: np.random.Generator,
) -> tuple[Rows, Rows]:
    """Enrolments (n, counts[0]) and tests (n, counts[1]) of as many sessions as there are.

    Drawn of the rows of either side; row k of both is of one person, who has up to `draws` of them,
    and never of one session.
    """
    both = np.concatenate(rows)
    people, owner = np.unique(data.identity[both], return_inverse=True)
    pairs, session = np.unique(np.stack([owner, data.session[both]]), axis=1, return_inverse=True)
    session = session.reshape(-1)
    n_sessions = np.bincount(pairs[0], minlength=len(people))
    begins = np.cumsum(n_sessions) - n_sessions
    one_session = rng.random() < ONE_SESSION
    wanted = np.where(n_sessions > 1, draws, 0)
    found: tuple[list[Rows], list[Rows]] = ([], [])
    for _ in range(TRIES * draws):
        if not wanted.any():
            break
        order = np.lexsort((rng.random(len(session)), session))
        turn = np.empty(len(session), np.int64)  # of a row within its session, by chance
        first = np.searchsorted(session[order], session[order])
        turn[order] = np.arange(len(order)) - first
        by_chance = np.lexsort((rng.random(pairs.shape[1]), pairs[0]))
        rank = np.empty(pairs.shape[1], np.int64)
        rank[by_chance] = np.arange(pairs.shape[1]) - begins[pairs[0][by_chance]]
        share = n_sessions - 1 if one_session else rng.integers(1, np.maximum(n_sessions, 2))
        enrolled = rank[session] < share[owner]
        of_enroll = np.arange(len(both)) < len(rows[0])
        sides = []
        for chosen, count in zip(
            (enrolled & of_enroll, ~enrolled & ~of_enroll), counts, strict=True
        ):
            kept = np.flatnonzero(chosen)
            kept = kept[np.lexsort((rng.random(len(kept)), turn[kept]))]
            sides.append(first_of_each(both[kept], owner[kept], count, len(people)))
        whole = (sides[0][:, -1] >= 0) & (sides[1][:, -1] >= 0) & (wanted > 0)
        wanted = wanted - whole
        for into, side in zip(found, sides, strict=True):
            into.append(side[whole])
    enroll, test = (
        np.concatenate(side) if side else np.empty((0, count), np.int64)
        for side, count in zip(found, counts, strict=True)
    )
    return enroll, test
