"""Sides of a step: whose they are, and that no session meets itself."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_world import draw

from dcaplda.train.data.labelled import TrainingData, assemble
from dcaplda.train.start.drawn_sides import SideDrawer

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def data() -> TrainingData:
    """People of 1 to 4 sessions of 1 to 3 utterances."""
    sample = draw(1, speakers=8, sessions=4, chunks=3)
    labels = sample.labels()
    rng = np.random.default_rng(0)
    sessions = {s: int(rng.integers(1, 5)) for s in sorted(set(sample.speaker.values()))}
    keep = [
        k
        for k, name in enumerate(sample.ids)
        if int(name.split("-r")[1][0]) < sessions[sample.speaker[name]] and rng.random() < 0.8
    ]
    ids = [sample.ids[k] for k in keep]
    return assemble(ids, sample.vectors[keep], labels)


@settings(max_examples=60, deadline=None)
@given(
    domain=st.integers(0, 2),
    people=st.integers(1, 9),
    numbers=st.tuples(st.integers(1, 5), st.integers(1, 4)),
    seed=st.integers(0, 2**32),
)
def test_a_row_is_one_person_with_other_sessions_on_the_other_side(
    data, domain: int, people: int, numbers: tuple[int, int], seed: int
) -> None:
    drawer = SideDrawer(data)
    enroll, test = drawer.draw(domain, people, *numbers, np.random.default_rng(seed))
    assert enroll.shape == (len(test), numbers[0]) and test.shape[1] == numbers[1]
    assert len(enroll) <= min(people, len(drawer.people[domain]))
    both = np.concatenate([enroll, test], axis=1)
    assert (data.domain[both] == domain).all()
    speakers = data.speaker[both]
    assert (speakers == speakers[:, :1]).all()
    assert len(np.unique(speakers[:, 0])) == len(both)
    for own, other, row in zip(enroll, test, both, strict=True):
        assert len(set(row)) == len(row)
        assert not set(data.session[own]) & set(data.session[other])


def test_everybody_with_two_sessions_is_drawn_with_every_utterance(data) -> None:
    drawer = SideDrawer(data)
    sessions = {s: set(data.session[data.speaker == s]) for s in range(data.n_speakers)}
    expected = {s for s, own in sessions.items() if len(own) > 1}
    assert {int(data.speaker[drawer._first[p]]) for own in drawer.people for p in own} == expected
    rng = np.random.default_rng(0)
    seen = [
        rows
        for domain in range(3)
        for _ in range(200)
        for rows in drawer.draw(domain, 100, 1, 1, rng)
    ]
    rows = np.flatnonzero(np.isin(data.speaker, list(expected)))
    for side in (seen[0::2], seen[1::2]):
        np.testing.assert_array_equal(np.unique(np.concatenate(side)), rows)
