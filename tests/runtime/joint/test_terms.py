"""Joint LLRs against the Gaussian densities themselves, written out utterance by utterance."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

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


def scorer_of(rng, dim: int = 6, correlation: float = 0.0) -> JointScorer:
    between, offset = rng.uniform(0.2, 3.0, AXES), rng.uniform(0.05, 2.0, AXES)
    return JointScorer(
        weight=rng.standard_normal((AXES, dim)),
        bias=rng.standard_normal(AXES),
        turn=3.0 * rng.standard_normal((AXES, AXES)),
        centre=rng.standard_normal(AXES),
        between=between,
        offset=offset,
        correlation=correlation,
        embedding_mean=rng.standard_normal(dim),
        quadratics=quadratic_basis(between, offset),
        prior_offset=offset,
    )


def test_adaptation_with_nothing_is_the_identity(rng) -> None:
    scorer = scorer_of(rng)
    assert adapted(scorer, np.empty((0, 6))) is scorer


def test_a_place_heard_very_often_is_known(rng) -> None:
    """Its offset becomes the mean of what was heard, and no variance is left."""
    scorer = scorer_of(rng)
    pool = rng.standard_normal((20_000, 6))
    found = adapted(scorer, pool)
    np.testing.assert_allclose(found.projected(pool).mean(axis=0), 0.0, atol=0.02)
    assert (found.offset < 0.05).all() and found.known > 0.9


def test_more_utterances_leave_less_unknown(rng) -> None:
    scorer = scorer_of(rng)
    pool = rng.standard_normal((300, 6))
    left = [adapted(scorer, pool[:n]).offset for n in (5, 30, 300)]
    assert (left[0] < scorer.offset).all()
    assert (left[1] < left[0]).all() and (left[2] < left[1]).all()


def test_many_utterances_of_one_person_count_as_few(rng) -> None:
    """Tight around one point as one speaker's are, beside as many of different people."""
    scorer = scorer_of(rng)
    scorer = JointScorer(**{**vars(scorer), "between": np.full(AXES, 400.0)})
    people = rng.standard_normal((60, 6))
    one = people[:1] + 0.001 * rng.standard_normal((60, 6))
    assert adapted(scorer, one).heard < 2.0
    assert adapted(scorer, people).heard > 10.0
    assert adapted(scorer, one).known < adapted(scorer, people).known


def test_the_spread_of_correlated_utterances_does_not_vanish(rng) -> None:
    scorer = scorer_of(rng, correlation=0.2)
    assert scorer.spread(1) == 1.0
    assert scorer.spread(4) == pytest.approx(0.2 + 0.8 / 4)
    assert scorer.spread(1e9) == pytest.approx(0.2)
