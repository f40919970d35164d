"""Joint LLRs against the Gaussian densities themselves, written out utterance by utterance."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dcaplda.runtime.joint import place
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.joint.scorer import JointScorer, form_scores, quadratic_basis
from dcaplda.runtime.joint.terms import pair_terms

AXES = 4


@pytest.fixture
def variances(rng):
    return rng.uniform(0.2, 3.0, AXES), rng.uniform(0.05, 2.0, AXES), rng.uniform(0.05, 2.0, AXES)


def density(enroll, test, between, offsets, same_speaker, same_place):
    """log p of all utterances of both sides, one Gaussian of n + m values for each axis."""
    n, m = len(enroll), len(test)
    side = np.repeat([0, 1], [n, m])
    total = 0.0
    for axis in range(AXES):
        covariance = np.eye(n + m)
        for i in range(n + m):
            for j in range(n + m):
                if side[i] == side[j]:
                    covariance[i, j] += between[axis] + offsets[side[i]][axis]
                else:
                    covariance[i, j] += between[axis] * same_speaker
                    covariance[i, j] += offsets[0][axis] * same_place
        values = np.concatenate([enroll[:, axis], test[:, axis]])
        total += multivariate_normal(np.zeros(n + m), covariance).logpdf(values)
    return total


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("same_place", [True, False])
def test_the_llr_of_several_utterances_is_that_of_the_densities(
    rng, variances, n, m, same_place
) -> None:
    between, *offsets = variances
    if same_place:
        offsets = [offsets[0], offsets[0]]
    enroll, test = rng.standard_normal((n, AXES)), rng.standard_normal((m, AXES))
    expected = density(enroll, test, between, offsets, True, same_place)
    expected -= density(enroll, test, between, offsets, False, same_place)
    terms = pair_terms(between, tuple(offsets), (1.0 / n, 1.0 / m), same_place)
    found = form_scores(terms, enroll.mean(axis=0)[None], test.mean(axis=0)[None])
    assert found[0, 0] == pytest.approx(expected, abs=1e-8)


def place_scorer(axes: int = 40, between: float = 2.0) -> JointScorer:
    """Unit vectors of that many values become x of variance between + 1."""
    variances = np.full(axes, between)
    return JointScorer(
        weight=np.eye(axes),
        bias=np.zeros(axes),
        turn=np.sqrt(axes * (between + 1.0)) * np.eye(axes),
        centre=np.zeros(axes),
        between=variances,
        offset=np.ones(axes),
        correlation=0.0,
        embedding_mean=np.zeros(axes),
        quadratics=quadratic_basis(variances, np.ones(axes)),
        prior_offset=np.ones(axes),
        same_score=5.0,
        length=np.sqrt(axes * (between + 1.0)),
        usual=np.zeros(2),
        reach=np.ones(2),
    )


def utterances_of(rng, people: int, each: int, axes: int = 40) -> np.ndarray:
    """Two thirds of the variance are a person's, a third an utterance's."""
    voices = np.repeat(rng.standard_normal((people, axes)), each, axis=0)
    return np.sqrt(2.0) * voices + rng.standard_normal(voices.shape)


def test_adaptation_with_nothing_is_the_identity() -> None:
    scorer = place_scorer()
    assert adapted(scorer, np.empty((0, 40))) is scorer


def test_a_place_heard_very_often_is_known(rng) -> None:
    """Its offset becomes the mean of what was heard, and little variance is left."""
    scorer = place_scorer()
    pool = utterances_of(rng, 3000, 1) + rng.standard_normal(40)
    found = adapted(scorer, pool)
    assert found.inside(pool).mean() > 0.8
    np.testing.assert_allclose(replace(found, gate=None).centred(pool).mean(axis=0), 0.0, atol=0.1)
    assert (found.offset < 0.03).all() and found.known > 0.97


def test_the_posterior_is_that_of_bayes(rng) -> None:
    """With nobody returning: variance b / n + 1 / n around the offset, counted by TRUST."""
    scorer = place_scorer()
    pool = utterances_of(rng, 12, 1)
    found = adapted(scorer, pool)
    assert found.heard == pytest.approx(12.0)
    expected = 1.0 / (1.0 / scorer.offset + place.TRUST * 12.0 / (scorer.between + 1.0))
    np.testing.assert_allclose(found.offset, expected, rtol=1e-12)


def test_more_utterances_leave_less_unknown(rng) -> None:
    pool = utterances_of(rng, 300, 1)
    left = [adapted(place_scorer(), pool[:n]).offset for n in (5, 30, 300)]
    assert (left[1] < left[0]).all() and (left[2] < left[1]).all()


def test_many_utterances_of_one_person_count_as_one(rng) -> None:
    one = adapted(place_scorer(), utterances_of(rng, 1, 60))
    many = adapted(place_scorer(), utterances_of(rng, 60, 1))
    assert one.heard < 2.0 < 40.0 < many.heard
    assert one.known < many.known


def test_the_spread_of_correlated_utterances_does_not_vanish() -> None:
    scorer = replace(place_scorer(), correlation=0.2)
    assert scorer.spread(1) == 1.0
    assert scorer.spread(4) == pytest.approx(0.2 + 0.8 / 4)
    assert scorer.spread(1e9) == pytest.approx(0.2)
