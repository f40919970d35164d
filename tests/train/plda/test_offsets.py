"""PLDA with an offset that both sides share: densities, limits, statistics."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from training_world import copies, draw

from dcaplda.train.plda.form import plda_form
from dcaplda.train.plda.generative import fit_generative, form_scores
from dcaplda.train.plda.offsets import class_weights, offset_form, offset_statistics
from dcaplda.train.recipe.sections import InitSection

pytestmark = pytest.mark.torch
DIM = 4


def covariance(rng, scale: float = 1.0) -> np.ndarray:
    root = rng.standard_normal((DIM, 2 * DIM))
    return scale * root @ root.T / (2 * DIM)


@pytest.fixture
def world(rng_seed=3):
    rng = np.random.default_rng(rng_seed)
    return (
        covariance(rng),
        covariance(rng, 0.5),
        covariance(rng, 2.0),
        rng.standard_normal(DIM),
        rng,
    )


def test_form_is_the_ratio_of_the_two_densities(world):
    between, within, shared, mean, rng = world
    total = between + within + shared
    pairs = rng.standard_normal((20, 2, DIM)) * 2.0
    centre = np.concatenate([mean, mean])
    same = np.block([[total, shared + between], [shared + between, total]])
    other = np.block([[total, shared], [shared, total]])
    stacked = pairs.reshape(20, -1)
    expected = multivariate_normal(centre, same).logpdf(stacked)
    expected -= multivariate_normal(centre, other).logpdf(stacked)
    form = offset_form(between, within, shared, mean)
    found = [form_scores(form, pair)[0, 1] for pair in pairs]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_without_a_shared_offset_it_is_plain_plda(world):
    between, within, shared, mean, _ = world
    found = offset_form(between, within, 0.0 * shared, mean)
    expected = plda_form(np.linalg.inv(between), np.linalg.inv(within), mean)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_large_shared_offset_leaves_only_the_difference(world):
    between, within, _, mean, rng = world
    form = offset_form(between, within, 1e9 * np.eye(DIM), mean)
    one, other, moved = rng.standard_normal((3, DIM))
    before = form_scores(form, np.stack([one, other]))[0, 1]
    after = form_scores(form, np.stack([one + moved, other + moved]))[0, 1]
    assert after == pytest.approx(before, abs=1e-6)


def test_domains_that_share_people_are_a_group():
    data = copies(draw(1), np.ones(24)).data()
    assert data.domain_names == ["dom0", "dom0_tel", "dom1", "dom2"]
    assert data.domain_group.tolist() == [0, 0, 1, 2]


def test_statistics_do_not_see_where_a_domain_lies():
    sample = draw(1)
    data = sample.data()
    moved = data.embeddings + 7.0 * np.eye(3, 24, dtype=np.float32)[data.domain]
    one, other = (
        offset_statistics(vectors, data, data.speaker, "domain")
        for vectors in (data.embeddings, moved)
    )
    np.testing.assert_allclose(one.around.between, other.around.between, atol=1e-4)
    np.testing.assert_allclose(one.around.within, other.around.within, atol=1e-4)
    assert not np.allclose(one.around.mean, other.around.mean, atol=0.1)


def test_the_shift_of_a_copy_is_its_own_covariance():
    shift = np.arange(24.0)
    data = copies(draw(1), shift).data()
    found = offset_statistics(data.embeddings, data, data.identity, "even")
    # The two means lie at -shift/2 and +shift/2 around their group's mean.
    np.testing.assert_allclose(found.copies, 0.5 * np.outer(shift, shift), rtol=1e-3, atol=1e-3)


def test_even_weights_give_every_speaker_of_a_domain_the_same_mass():
    data = draw(1).data()
    data = data.subset(np.sort(np.random.default_rng(0).permutation(len(data.ids))[:150]))
    mass = np.bincount(data.speaker) * data.speaker_weights("even")
    for domain in range(3):
        own = mass[data.speaker_domain == domain]
        np.testing.assert_allclose(own, 1.0 / len(own))


def test_weight_of_a_person_is_the_mean_of_its_copies():
    data = copies(draw(1), np.zeros(24)).data()
    classes = np.unique(data.identity, return_inverse=True)[1]
    found = class_weights(data, classes, "domain")
    sample = data.speaker_weights("domain")[data.speaker]
    for person in range(len(found)):
        assert found[person] == pytest.approx(sample[classes == person].mean())


def test_lda_keeps_off_directions_in_which_domains_lie_far_apart():
    """In this world the best directions for speakers are those where domains differ most."""
    data, unseen = draw(1).data(), draw(5, prefix="new").data()
    rows = np.flatnonzero(unseen.domain == 0)
    speaker = unseen.speaker[rows]
    target = speaker[:, None] == speaker[None, :]
    gaps = []
    for amount in (0.0, 1.0):
        section = InitSection(em_iterations=5, domain_offsets=True, lda_group_offset=amount)
        scores = fit_generative(data, section, 10, []).scores(unseen.embeddings[rows])
        gaps.append(scores[target].mean() - scores[~target].mean())
    assert gaps[0] < 1
    assert gaps[1] > 8
