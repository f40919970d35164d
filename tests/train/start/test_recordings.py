"""Episodes of one recording: one session on both sides, and the calibration that comes of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training_world import copies, draw

from dcaplda.eval.metrics.scalars import cllr
from dcaplda.runtime.errors import ModelError
from dcaplda.train.data.folds import Part, speaker_parts
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.plda.generative import fit_generative
from dcaplda.train.recipe.sections import InitSection, ModelSection, TrainingConfig
from dcaplda.train.start import joint, recordings
from dcaplda.train.start.conditions import calibrated
from dcaplda.train.start.episodes import Source

pytestmark = pytest.mark.torch
ROUNDS = 24


@pytest.fixture(scope="module")
def data():
    """Sessions of six utterances in three domains, and a degraded copy of one of them."""
    return copies(draw(4, speakers=10, sessions=2, chunks=6), np.ones(24)).data()


@pytest.fixture(scope="module")
def config():
    model = ModelSection(
        variant="plda-dd", lda_dim=10, joint=True, duration_feature="log", recordings=True
    )
    init = InitSection(domain_offsets=True, shared_offset=1.0, em_iterations=0, calibration_folds=2)
    return TrainingConfig(model=model, init=init)


@pytest.fixture(scope="module")
def drawn(data):
    """What is compared: pool, sides and trials of each episode."""
    log: list[Any] = []

    def scored(source, plan, scorers, sides, trials, one_place, weight):
        assert one_place and scorers[0] is scorers[1]
        log.append((scorers[0], plan, sides, trials))
        return recordings.Episode(np.zeros(1), np.ones(1, bool), *np.zeros((2, 1, 1)), weight)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recordings, "scored", scored)
        patch.setattr(recordings, "posterior", lambda scorer, pool: pool)
        data.embeddings[:, 0] = np.arange(len(data.ids))
        source = Source(data, np.zeros((len(data.ids), 1)))
        for part in speaker_parts(data, 2):
            found = recordings.recordings_of_part(
                source, part, None, 1.0, ROUNDS, np.random.default_rng(0)
            )
            made = list(found)
            assert all(e.recording for e in made)
            # A domain has one a round, unless nobody has a session for both sides.
            assert len(made) > 0.9 * ROUNDS * len(np.unique(data.domain))
            assert {e.weight for e in made} == {1.0 / ROUNDS}
    return log


def test_both_sides_are_of_one_session_and_never_the_same_utterance(data, drawn):
    sizes = set()
    for _, plan, (enroll, test), (targets, nontargets) in drawn:
        assert enroll.shape[1] == plan.n_enroll and test.shape[1] == plan.n_test
        sizes.add((plan.n_enroll, plan.n_test))
        assert len(np.unique(data.domain[np.concatenate([enroll.ravel(), test.ravel()])])) == 1
        for i, j in targets:
            both = np.concatenate([enroll[i], test[j]])
            assert len(np.unique(both)) == len(both)
            assert len(np.unique(data.session[both])) == 1
        assert len(targets) and len(nontargets)
        for i, j in nontargets:
            people = data.identity[enroll[i]], data.identity[test[j]]
            assert len(np.unique(people[0])) == len(np.unique(people[1])) == 1
            assert people[0][0] != people[1][0]
    assert (1, 1) in sizes and len(sizes) > 5


def test_of_many_people_a_few_are_looked_at(data, monkeypatch):
    monkeypatch.setattr(recordings, "MOST_PEOPLE", 3)
    place = recordings.sessions_of(data, np.flatnonzero(data.domain == 0))
    assert len(place.people) - 1 == len(np.unique(data.identity[data.domain == 0]))
    rng = np.random.default_rng(0)
    drawn = [recordings.one_session_each(place, 6, rng) for _ in range(40)]
    assert {len(own) for own in drawn} == {3}
    for own in (rows for each in drawn for rows in each):
        assert len(np.unique(data.session[own])) == len(np.unique(data.identity[own])) == 1
        assert len(own) == (data.session[data.domain == 0] == data.session[own[0]]).sum()
    assert len({data.identity[rows[0]] for each in drawn for rows in each}) == 10  # anybody
    assert recordings.one_session_each(place, 7, rng) == []


def test_half_of_them_hear_the_recording_itself(data, drawn):
    with_pool = [(pool, plan, sides) for pool, plan, sides, _ in drawn if pool is not None]
    assert 0.45 < len(with_pool) / len(drawn) < 0.55
    for pool, plan, sides in with_pool:
        heard = pool[:, 0].astype(np.int64)
        assert plan.heard == (len(heard),) * 2
        assert all(np.isin(side, heard).all() for side in sides)
        people, counts = np.unique(data.identity[heard], return_counts=True)
        assert 2 <= len(people) <= 6 and counts.max() <= 8
        assert len(np.unique(data.session[heard])) == len(people)
    assert all(plan.heard == (0, 0) for pool, plan, *_ in drawn if pool is None)


def test_without_sessions_the_usual_calibration_serves(config):
    alone = draw(4, speakers=10, sessions=6, chunks=1).data()
    found, notes = start(alone, config)
    assert found.within == found.same
    assert any("two utterances of one session" in note for note in notes)


def start(data, config):
    notes: list[str] = []
    generative = fit_generative(data, config.init, config.model.lda_dim, notes)
    return joint.find_joint_start(generative, data, config, notes), notes


def test_other_trials_stay_as_they_are(data, config):
    """Not by one bit."""
    with_them, notes = start(data, config)
    without, _ = start(data, replace(config, model=replace(config.model, recordings=False)))
    for name in ("same", "across"):
        pairs = zip(getattr(with_them, name), getattr(without, name), strict=True)
        for one, other in pairs:
            assert np.array_equal(one.cross, other.cross) and one.offset == other.offset
    assert without.within is None and with_them.within is not None
    assert any("(one recording)" in note for note in notes)


def test_people_of_one_session_are_calibrated_for_it(data, config):
    """On people that no part of the start has seen, by Cllr."""
    people = np.unique(data.identity)
    away = np.isin(data.identity, people[::3])
    rows, others = np.flatnonzero(away), np.flatnonzero(~away)
    found, _ = start(data.subset(others), config)
    source = Source(data, joint.duration_features(data, config.model))
    part = Part("a third", rows, others)
    drawn = recordings.recordings_of_part(
        source, part, found.scorer, 1.0, 12, np.random.default_rng(5)
    )
    costs = []
    for episode in drawn:
        for forms in (found.within, found.same):
            llrs = calibrated(episode, forms)
            costs.append(cllr(llrs[episode.targets], llrs[~episode.targets], 0.5))
    own, usual = np.array(costs).reshape(-1, 2).mean(axis=0)
    assert own < 0.95 * usual


def test_only_joint_models_have_it():
    with pytest.raises(ModelError, match="takes a joint model"):
        ModelConfig(embedding_dim=8, recordings=True)
