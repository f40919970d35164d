"""Places that training knew: recognized by a pool's mean, then known as training knew them."""

from dataclasses import replace

import numpy as np
import pytest
from joint_models import joint_model, place_pool, utterances
from scipy.stats import multivariate_normal, norm

from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.joint.place import (
    SHIFT,
    TRUST,
    effective_people,
    posterior,
    shared_pairs,
    trained_place,
)
from dcaplda.runtime.joint.scorer import JointScorer, read_scorer
from dcaplda.runtime.joint.trained import (
    DOUBT,
    FEWEST_HEARD,
    FEWEST_PLACES,
    FEWEST_VOICES,
    SCATTER,
    TrainedPlaces,
    recognized,
)

RANK = 6


def places(rng: np.random.Generator, count: int = 5, apart: float = 3.0) -> TrainedPlaces:
    return TrainedPlaces(
        rng.standard_normal((count, 8)),
        apart * rng.standard_normal((count, RANK)),
        apart * rng.standard_normal((count, RANK)),
        rng.uniform(0.01, 0.1, (count, RANK)),
        rng.standard_normal(count),
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_likelier_of_two_normal_densities_is_taken(seed: int) -> None:
    """Against scipy's densities, written out for every place."""
    rng = np.random.default_rng(seed)
    known = places(rng, apart=0.5)
    between, count, people = rng.uniform(0.1, 2.0, RANK), 20, 5.0
    mean = known.mean[2] + 0.5 * rng.standard_normal(RANK)
    between_places = 2.0 * np.var(known.mean, axis=0, ddof=1)
    odds = []
    for centre, left in zip(known.mean, known.left, strict=True):
        near = SCATTER * (left + between / people + 1.0 / count)
        here = norm.logpdf(mean, centre, np.sqrt(near)).sum()
        odds.append(here - norm.logpdf(mean, centre, np.sqrt(near + between_places)).sum())
    best = int(np.argmax(odds))
    expected = best if odds[best] > DOUBT / count else None
    assert recognized(known, mean, between, count, people) == expected


def test_a_pool_around_a_place_is_of_it_and_one_far_off_of_none(rng) -> None:
    known = places(rng)
    between = np.full(RANK, 0.5)
    for number, centre in enumerate(known.mean):
        assert recognized(known, centre, between, 50, 10.0) == number
        assert recognized(known, centre + 4.0, between, 50, 10.0) is None


def test_too_few_utterances_or_places_tell_nothing(rng) -> None:
    known, between = places(rng), np.full(RANK, 0.5)
    centre = known.mean[0]
    assert recognized(known, centre, between, FEWEST_HEARD - 1, 8.0) is None
    assert recognized(known, centre, between, 1000, FEWEST_VOICES - 0.1) is None
    few = TrainedPlaces(*(values[: FEWEST_PLACES - 1] for values in known))
    assert recognized(few, centre, between, 1000, 100.0) is None
    assert recognized(None, centre, between, 1000, 100.0) is None


def with_places(number: int, pool: np.ndarray, left: float = 0.01) -> JointScorer:
    """A scorer that knows the place of the pool, by that number, among others far off."""
    scorer = replace(joint_model().scorer, usual_ease=0.0, reach_ease=1e6)
    rng = np.random.default_rng(0)
    rank, dim = scorer.weight.shape
    mean = scorer.centred(pool).mean(axis=0)
    centres = mean + 5.0 * rng.standard_normal((5, rank))
    centres[number] = mean
    shifts = 0.05 * rng.standard_normal((5, dim))
    lefts = np.tile(left * scorer.offset, (5, 1))
    own = 0.1 * rng.standard_normal(5)
    return replace(scorer, trained=TrainedPlaces(shifts, centres.copy(), centres, lefts, own))


def test_a_place_that_is_recognized_is_where_training_left_it(rng) -> None:
    """The posterior of a prior N(centre, left) and the pool's mean, written out; 1e-10."""
    pool = place_pool(40)
    scorer = with_places(3, pool)
    assert trained_place(scorer, pool) == 3
    placed = posterior(scorer, pool)
    there = scorer.trained.place(3)
    moved = replace(scorer, bias=scorer.bias - scorer.weight @ there.shift)
    people = effective_people(len(pool), shared_pairs(scorer, scorer.centred(pool)))
    noise = (scorer.between / people + 1.0 / len(pool)) / TRUST
    found = moved.centred(pool).mean(axis=0)
    for axis in range(len(noise)):
        # Of a pair (o, mean) that is normal: the mean and variance of o, given the mean.
        prior, spread = there.left[axis], noise[axis]
        gain = prior / (prior + spread)
        expected = there.centre[axis] + gain * (found[axis] - there.centre[axis])
        assert placed.centre[axis] - scorer.centre[axis] == pytest.approx(expected, abs=1e-10)
        assert placed.offset[axis] == pytest.approx(prior * spread / (prior + spread), rel=1e-10)
        pair = multivariate_normal([0, 0], [[prior, prior], [prior, prior + spread]])
        at = found[axis] - there.centre[axis]
        offsets = np.array([gain * at - 1e-4, gain * at, gain * at + 1e-4])
        densities = pair.logpdf(np.stack([offsets, np.full(3, at)], axis=1))
        assert densities[1] >= densities[[0, 2]].max(), "the posterior's mode is its mean"
    np.testing.assert_allclose(placed.bias, moved.bias, rtol=1e-12)


def test_training_knows_more_than_the_pool_and_not_how_hard_it_is(rng) -> None:
    pool = place_pool(40)
    scorer = with_places(0, pool)
    alone = posterior(replace(scorer, trained=None), pool)
    placed = posterior(scorer, pool)
    assert placed.known > alone.known and (placed.offset < alone.offset).all()
    assert placed.ease == alone.ease and placed.heard == alone.heard


def test_each_side_of_a_known_place_brings_its_own_score(rng) -> None:
    """Twice within the place, once against another one, never where it does not sound of there."""
    pool = place_pool(40)
    scorer = with_places(2, pool)
    own = float(scorer.trained.own[2])
    placed, without = posterior(scorer, pool), replace(posterior(scorer, pool), own=0.0)
    assert placed.own == own != 0
    spreads = (0.5, 1.0)
    assert placed.terms(*spreads).constant - without.terms(*spreads).constant == pytest.approx(
        2 * own, abs=1e-12
    )
    for one, other, expected in (
        (placed, scorer, own),
        (scorer, placed, own),
        (placed, placed, 2 * own),
        (placed.elsewhere, scorer, 0.0),
    ):
        free = replace(one, own=0.0).across(replace(other, own=0.0), *spreads).constant
        assert one.across(other, *spreads).constant - free == pytest.approx(expected, abs=1e-12)


def test_another_place_is_learnt_as_if_training_had_kept_none(rng) -> None:
    pool = place_pool(40)
    scorer = with_places(0, pool)
    assert scorer.trained is not None
    elsewhere = scorer.trained._replace(mean=scorer.trained.mean + 9.0)
    far = replace(scorer, trained=elsewhere)
    assert trained_place(far, pool) is None
    expected = posterior(replace(scorer, trained=None), pool).arrays()
    found = posterior(far, pool).arrays()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def test_shift_of_a_new_place_is_the_known_share_of_the_way(rng) -> None:
    pool = utterances(30, 3, people=15)[0]
    scorer = replace(joint_model().scorer, trained=None)
    placed = posterior(scorer, pool)
    way = pool.astype(np.float64).mean(axis=0) - scorer.embedding_mean
    expected = scorer.bias - scorer.weight @ (SHIFT * placed.known * way)
    np.testing.assert_allclose(placed.bias, expected, rtol=1e-9)


def test_places_are_stored_and_read_again(rng) -> None:
    scorer = with_places(1, place_pool(20))
    again = read_scorer(scorer.arrays(), "model")
    for one, other in zip(scorer.trained, again.trained, strict=True):
        np.testing.assert_array_equal(one, other)
    without = {k: v for k, v in scorer.arrays().items() if not k.startswith("trained")}
    assert read_scorer(without, "model").trained is None


@pytest.mark.parametrize(
    ("name", "change", "word"),
    [
        ("trained.left", lambda v: -v, "variance of -0.01 to -0.01 of that of any place"),
        ("trained.left", lambda v: v * 1e-300, "expected 1e-09 to 1"),
        ("trained.left", lambda v: v * 200.0, "variance of 2 to 2"),
        ("trained.left", lambda v: v[:-1], "wrong size"),
        ("trained.mean", lambda v: v * np.nan, "wrong size or value"),
        ("trained.shift", lambda v: v[0], "wrong size"),
        ("trained.own", lambda v: v[1:], "wrong size"),
        ("trained.centre", None, "'trained.centre' is missing"),
        ("trained.own", lambda v: v + 1000.0, "'trained.own' holds 1e.03; expected at most 100"),
        ("own", lambda v: v - 1000.0, "'own' is beyond 100"),
    ],
)
def test_damaged_places_are_refused(name: str, change, word: str, rng) -> None:
    arrays = with_places(1, place_pool(20)).arrays()
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays[name])
    with pytest.raises(BundleError, match=word):
        read_scorer(arrays, "model")


def test_names_that_are_stored_in_another_form_are_not_taken_for_fields(rng) -> None:
    arrays = with_places(1, place_pool(20)).arrays()
    strange = {**arrays, "trained": np.ones(3), "place_number": np.array(2.0)}
    again = read_scorer(strange, "model")
    assert again.place_number is None and len(again.trained.own) == 5


def test_a_place_in_the_very_middle_of_training_sets_nothing_apart(rng) -> None:
    pool = place_pool(40)
    scorer = with_places(1, pool)
    scorer = replace(scorer, centre=scorer.centre + scorer.trained.mean[1])
    middle = scorer.trained._replace(mean=scorer.trained.mean - scorer.trained.mean[1])
    scorer = replace(scorer, trained=middle)
    assert recognized(middle, scorer.centred(pool).mean(axis=0), scorer.between, 40, 9.0) == 1
    assert trained_place(scorer, pool) is None
    assert np.isfinite(posterior(scorer, pool).centre).all()
