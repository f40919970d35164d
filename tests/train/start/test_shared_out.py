"""Sides of several utterances on both: whose, of which sessions, and how many."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from training_world import copies, draw

from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.start.shared_out import shared_out

DRAWS = 5


def rows_of(data: TrainingData, domain: int) -> np.ndarray:
    return np.flatnonzero(data.domain == domain)


@given(n=st.integers(1, 6), m=st.integers(1, 6), seed=st.integers(0, 50))
def test_sides_are_of_one_person_and_share_no_session(n: int, m: int, seed: int) -> None:
    """Speakers have four sessions of two utterances: six and two at most, or four and four."""
    data = draw(1, speakers=6, sessions=4).data()
    rows = rows_of(data, 0)
    enroll, test = shared_out(data, (rows, rows), (n, m), DRAWS, np.random.default_rng(seed))
    assert enroll.shape[1:] == (n,) and test.shape[1:] == (m,) and len(enroll) == len(test)
    possible = -(-n // 2) + -(-m // 2) <= 4
    assert possible or not len(enroll)
    for one, other in zip(enroll, test, strict=True):
        assert len(set(data.identity[one]) | set(data.identity[other])) == 1
        assert not set(data.session[one]) & set(data.session[other])
        assert len(set(one)) == n and len(set(other)) == m
        assert np.isin(np.concatenate([one, other]), rows).all()
    people, counts = np.unique(data.identity[enroll[:, 0]], return_counts=True)
    assert (counts <= DRAWS).all()
    if n == m == 1:
        assert len(people) == 6 and (counts == DRAWS).all(), "one each can always be drawn"


def test_utterances_are_of_as_many_sessions_as_there_are() -> None:
    """Two of three enrolled sessions' utterances are never of one while another has none."""
    data = draw(1, speakers=4, sessions=4).data()
    rows = rows_of(data, 0)
    found = set()
    for seed in range(20):
        enroll, test = shared_out(data, (rows, rows), (3, 2), 4, np.random.default_rng(seed))
        of_tests = {len(set(data.session[side])) for side in test}
        found |= {(len(set(data.session[side])), max(of_tests)) for side in enroll}
        assert all(len(set(data.session[side])) >= 2 for side in enroll), "two in one session"
    assert {count for count, _ in found} == {2, 3}


def test_sides_of_two_places_are_of_their_rows() -> None:
    data = copies(draw(1, domains=1, speakers=5, sessions=3), np.ones(24)).data()
    assert len(data.domain_names) == 2 and data.domain_group[0] == data.domain_group[1]
    rows = rows_of(data, 0), rows_of(data, 1)
    enroll, test = shared_out(data, rows, (2, 2), 3, np.random.default_rng(0))
    assert len(enroll)
    assert np.isin(enroll, rows[0]).all() and np.isin(test, rows[1]).all()
    assert (data.identity[enroll[:, 0]] == data.identity[test[:, 0]]).all()


def test_who_has_one_session_is_left_out() -> None:
    data = draw(1, speakers=3, sessions=2).data()
    rows = rows_of(data, 0)
    first = rows[data.session[rows] == data.session[rows[0]]]
    others = rows[data.speaker[rows] != data.speaker[rows[0]]]
    rows = np.union1d(first, others)
    enroll, test = shared_out(data, (rows, rows), (1, 1), 2, np.random.default_rng(0))
    assert len(enroll) == len(test) == 4
    assert data.speaker[rows[0]] not in data.speaker[enroll]
