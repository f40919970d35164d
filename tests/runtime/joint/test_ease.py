"""Ease of a place: how well people who return are recognized in what was heard of it."""

from dataclasses import replace

import numpy as np
import pytest
from joint_models import joint_model, place_pool, utterances
from scipy.stats import multivariate_normal

from dcaplda.runtime.joint.place import FEWEST_PAIRED, posterior
from dcaplda.runtime.joint.scorer import JointScorer


@pytest.fixture
def scorer() -> JointScorer:
    return replace(joint_model().scorer, usual_ease=0.0, reach_ease=1e6)


def density_score(placed: JointScorer, one: np.ndarray, other: np.ndarray) -> float:
    """Raw LLR of two utterances of the place, from densities."""
    found = 0.0
    for axis, pair in enumerate(np.stack([one, other], axis=1)):
        between, offset = placed.between[axis], placed.offset[axis]
        own = np.full((2, 2), offset) + (between + 1.0) * np.eye(2)
        same = np.full((2, 2), offset + between) + np.eye(2)
        found += multivariate_normal(np.zeros(2), same).logpdf(pair)
        found -= multivariate_normal(np.zeros(2), own).logpdf(pair)
    return found


def test_ease_is_the_upper_quartile_of_the_best_partners(scorer: JointScorer) -> None:
    """Against densities written out, 1e-6."""
    pool = utterances(9, 4, people=4)[0]
    placed = posterior(scorer, pool)
    x = replace(placed, gate=None).projected(pool)
    best = [
        max(density_score(placed, x[i], x[j]) for j in range(len(x)) if j != i)
        for i in range(len(x))
    ]
    assert placed.ease == pytest.approx(np.quantile(best, 0.75), abs=1e-6)


def test_ease_is_over_the_usual_and_within_reach(scorer: JointScorer) -> None:
    pool = utterances(9, 4, people=4)[0]
    raw = posterior(scorer, pool).ease
    for usual, reach, expected in ((raw - 1.0, 3.0, 1.0), (raw + 5.0, 3.0, -3.0)):
        told = replace(scorer, usual_ease=usual, reach_ease=reach)
        assert posterior(told, pool).ease == pytest.approx(expected, abs=1e-9)


def test_people_who_return_and_sound_alike_make_a_place_easy(scorer: JointScorer, rng) -> None:
    pool = utterances(20, 5, people=5)[0]
    noisy = pool + 0.5 * rng.standard_normal(pool.shape)
    assert posterior(scorer, pool).ease > posterior(scorer, noisy).ease


def test_too_few_utterances_tell_nothing(scorer: JointScorer) -> None:
    pool = utterances(FEWEST_PAIRED, 4, people=2)[0]
    assert posterior(scorer, pool[:-1]).ease == 0.0 != posterior(scorer, pool).ease
    assert posterior(scorer, pool[:0]).ease == 0.0


def test_what_does_not_sound_of_the_place_is_told_nothing_of_it(scorer: JointScorer) -> None:
    placed = posterior(scorer, place_pool(12))
    both = np.concatenate([place_pool(6, 50), -4.0 * place_pool(6, 50)])
    inside = placed.inside(both)
    assert inside.any() and not inside.all()
    told = placed.place_conditions(both)
    np.testing.assert_array_equal(told[inside], [[placed.ease, placed.known]] * inside.sum())
    assert not told[~inside].any() and placed.elsewhere.ease == 0.0
