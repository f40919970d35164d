"""Sides of trials for a step: of some people, n utterances against m of their other sessions."""

import numpy as np
from numpy.typing import NDArray

from dcaplda.train.data.labelled import TrainingData

Rows = NDArray[np.int64]


class SideDrawer:
    """Draws from people with at least two sessions; a session is never on both sides."""

    def __init__(self, data: TrainingData) -> None:
        # Rows are sorted by domain, speaker and session, so each of these is a run of them.
        new_speaker = np.diff(data.speaker, prepend=-1) != 0
        new_session = new_speaker | (np.diff(data.session, prepend=-1) != 0)
        session = np.cumsum(new_session) - 1
        self._session = session
        self._first = np.flatnonzero(new_speaker)
        self._ends = np.append(self._first[1:], len(data.speaker))
        sessions = session[self._ends - 1] - session[self._first] + 1
        domain = data.domain[self._first]
        enough = np.flatnonzero(sessions > 1)
        self.people: list[Rows] = [
            enough[domain[enough] == number] for number in range(len(data.domain_names))
        ]
        """Numbers of the people of each domain that can be drawn."""

    def draw(
        self, domain: int, most_people: int, n_enroll: int, n_test: int, rng: np.random.Generator
    ) -> tuple[Rows, Rows]:
        """Enrolments (P, n_enroll) and tests (P, n_test); row k of both is of the same person.

        People who have too few utterances for this way of sharing out their sessions are left out.
        """
        everybody = self.people[domain]
        chosen = rng.permutation(everybody)[:most_people]
        sizes = self._ends[chosen] - self._first[chosen]
        owner = np.repeat(np.arange(len(chosen)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = self._first[chosen][owner] + within
        enrolled = self._enrolled_sessions(rows, owner, rng)
        shuffled = rng.permutation(len(rows))
        rows, owner, enrolled = rows[shuffled], owner[shuffled], enrolled[shuffled]
        enroll = first_of_each(rows[enrolled], owner[enrolled], n_enroll, len(chosen))
        test = first_of_each(rows[~enrolled], owner[~enrolled], n_test, len(chosen))
        both = (enroll[:, -1] >= 0) & (test[:, -1] >= 0)
        return enroll[both], test[both]

    def _enrolled_sessions(
        self, rows: Rows, owner: Rows, rng: np.random.Generator
    ) -> NDArray[np.bool_]:
        """Which rows are of sessions to enrol from: of each owner at least one, never all."""
        sessions, place = np.unique(self._session[rows], return_inverse=True)
        of_session = np.empty(len(sessions), np.int64)
        of_session[place] = owner
        order = np.lexsort((rng.random(len(sessions)), of_session))
        counts = np.bincount(of_session)
        rank = np.empty(len(sessions), np.int64)
        begins = np.cumsum(counts) - counts
        rank[order] = np.arange(len(sessions)) - begins[of_session[order]]
        share = rng.integers(1, counts)
        found: NDArray[np.bool_] = (rank < share[of_session])[place]
        return found


def first_of_each(rows: Rows, owner: Rows, count: int, n_owners: int) -> Rows:
    """The first `count` rows of each owner, (n_owners, count); -1 behind them if they are fewer."""
    order = np.argsort(owner, kind="stable")
    rows, owner = rows[order], owner[order]
    counts = np.bincount(owner, minlength=n_owners)
    rank = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
    found = np.full((n_owners, count), -1, np.int64)
    few = rank < count
    found[owner[few], rank[few]] = rows[few]
    return found
