"""Sides of several utterances on both: whose, of which sessions, and how many."""

import numpy as np
import pytest
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


@pytest.mark.parametrize("apart", [False, True])
def test_utterances_are_of_as_many_sessions_as_there_are(apart: bool) -> None:
    """Three are of three of four sessions, beside a test of one, or of two beside two."""
    data = draw(1, speakers=4, sessions=4).data()
    rows = rows_of(data, 0)
    found = set()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        enroll, test = shared_out(data, (rows, rows), (3, 2), 4, rng, apart)
        numbers = [[len(set(data.session[side])) for side in sides] for sides in (enroll, test)]
        found |= set(zip(*numbers, strict=True))
    assert found == (set() if apart else {(3, 1), (2, 2)})


def test_apart_each_utterance_is_of_another_session() -> None:
    data = draw(1, speakers=4, sessions=5, chunks=3).data()
    rows = rows_of(data, 0)
    enroll, test = shared_out(data, (rows, rows), (3, 2), 4, np.random.default_rng(0), True)
    assert 4 < len(enroll) <= 16, "three and two of five sessions, for each of four people"
    for one, other in zip(enroll, test, strict=True):
        assert len(set(data.session[one])) == 3 and len(set(data.session[other])) == 2


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
