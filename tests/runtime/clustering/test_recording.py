"""Recordings: LLRs as the graphs give them, the own place as adapt-backend would know it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from joint_models import joint_bundle, joint_torch_model, place_pool, utterances
from random_models import random_model

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.clustering.archive import joined_labels, linked
from dcaplda.runtime.clustering.recording import recording
from dcaplda.runtime.errors import InputError

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def joint(tmp_path_factory):
    return Backend.load(joint_bundle(tmp_path_factory.mktemp("joint") / "bundle"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "bundle"
    export_model(random_model("d-plda-dsd"), folder)
    return Backend.load(folder)


def test_llrs_are_those_of_single_comparisons(joint, plain):
    embeddings, seconds = utterances(9, 3)
    for backend in (joint, plain):
        rows = backend.voiceprints(embeddings, seconds)
        found = recording(backend, embeddings, seconds).llrs()
        for i in range(9):
            for j in range(9):
                alone = backend.compare_pairs(rows[i : i + 1], rows[j : j + 1])[0]
                assert found[i, j] == pytest.approx(alone, abs=1e-4)


def test_the_own_place_is_what_adaptation_makes_of_it(joint):
    embeddings, seconds = place_pool(12), utterances(12, 50)[1]
    adapted = joint.adapted(embeddings)
    rows = adapted.voiceprints(embeddings, seconds)
    wanted = adapted.compare(rows, rows)
    found = recording(joint, embeddings, seconds, own_place=True)
    assert found.moved
    np.testing.assert_allclose(found.llrs(), wanted, atol=2e-3)
    without = recording(joint, embeddings, seconds).llrs()
    assert np.abs(found.llrs() - without).max() > 0.1


@pytest.mark.parametrize("own_place", [False, True])
def test_one_recording_has_a_calibration_of_its_own(tmp_path, own_place):
    """eq. 16 with scale and shift of recordings around the scores of the usual ones; 1e-4.

    Whoever compares them as two utterances of a place finds what a bundle without it finds.
    """
    usual = Backend.load(joint_bundle(tmp_path / "usual"))
    model = joint_torch_model(recordings=True)
    with torch.no_grad():  # all but what is new is that of the other
        model.load_state_dict(joint_torch_model().state_dict(), strict=False)
    export_model(model, tmp_path / "own")
    own = Backend.load(tmp_path / "own")
    embeddings, seconds = place_pool(12), utterances(12, 50)[1]
    rows = own.voiceprints(embeddings, seconds)
    assert np.array_equal(own.compare(rows, rows), usual.compare(rows, rows))
    one = recording(usual, embeddings, seconds, own_place)
    e = torch.from_numpy(one.sides.conditions)
    model = model.double()
    with torch.no_grad():
        forms = model.scale_dur, model.shift_dur, model.scale_within, model.shift_within
        scale, shift, own_scale, own_shift = (form(e, e).numpy() for form in forms)
    scores = (one.model.llrs(one.sides, one.sides) - shift) / scale
    found = recording(own, embeddings, seconds, own_place)
    assert found.moved == own_place
    np.testing.assert_allclose(found.llrs(), own_scale * scores + own_shift, rtol=1e-4, atol=1e-3)
    assert np.abs(found.llrs() - one.llrs()).max() > 0.1
    assert recording(own, embeddings, seconds).moved
    assert not recording(usual, embeddings, seconds).moved
    assert not recording(own.adapted(embeddings), embeddings, seconds).moved


def test_what_a_known_place_needs_between_sessions_says_nothing_within_one(tmp_path):
    embeddings, seconds = place_pool(12), utterances(12, 50)[1]
    export_model(joint_torch_model(recordings=True), tmp_path / "own")
    office = Backend.load(tmp_path / "own").adapted(embeddings)
    without = recording(office, embeddings, seconds).llrs()
    known = replace(office.joint, scorer=replace(office.joint.scorer, own=5.0))
    assert known.scorer.terms().constant - office.joint.scorer.terms().constant == 10.0
    sides = known.sides(office.voiceprints(embeddings, seconds))
    np.testing.assert_allclose(known.of_recording().llrs(sides, sides), without, atol=1e-9)


def test_one_voice_is_no_place(joint):
    embeddings, seconds = utterances(8, 4, people=1)
    assert not recording(joint, embeddings, seconds, own_place=True).moved


@pytest.mark.parametrize("seed", range(6))
def test_voices_far_apart_are_told_apart(joint, seed):
    """Of equal seconds: the calibration of these models is random."""
    embeddings, _ = utterances(12, seed, people=3)
    labels = recording(joint, embeddings, np.full(12, 10.0)).clusters(0.0, 3, "average")
    assert labels.tolist() == [0, 1, 2] * 4


def test_what_a_model_cannot_do_is_said(joint, plain):
    embeddings, seconds = utterances(4, 1)
    with pytest.raises(InputError, match="not trained for several utterances"):
        recording(plain, embeddings, seconds).clusters(0.0, link="joint")
    with pytest.raises(InputError, match="cannot be adapted to a recording"):
        recording(plain, embeddings, seconds, own_place=True)
    with pytest.raises(InputError, match="is adapted already"):
        recording(joint.adapted(place_pool(10)), embeddings, seconds, own_place=True)
    with pytest.raises(InputError, match="link 'ward'"):
        recording(joint, embeddings, seconds).clusters(0.0, link="ward")


def test_speakers_are_linked_by_all_of_their_utterances(joint, plain):
    """Two recordings of the same three voices; the mean LLR of a plain model written out."""
    embeddings, seconds = utterances(12, 8, people=3)
    labels = joined_labels([np.arange(6) % 3, np.arange(6) % 3])
    assert labels.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]
    rows = joint.voiceprints(embeddings, seconds)
    people = linked(joint, rows, labels, -1e3)
    assert len(people) == 6 and set(people) == {0}
    assert len(set(linked(joint, rows, labels, 1e3))) == 6
    rows = plain.voiceprints(embeddings, seconds)
    llrs = plain.compare(rows, rows)
    means = [[llrs[np.ix_(labels == a, labels == b)].mean() for b in range(6)] for a in range(6)]
    best = max(means[a][b] for a in range(6) for b in range(a))
    assert len(set(linked(plain, rows, labels, best + 1e-3))) == 6
    assert len(set(linked(plain, rows, labels, best - 1e-3))) == 5
