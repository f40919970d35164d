"""LLRs of several utterances against densities of all of their values, and rows that keep them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from joint_models import (
    density_llr,
    joint_model,
    joint_torch_model,
    one_side,
    open_to_all,
    place_pool,
    single_sides,
    utterances,
)

from dcaplda.export.graphs.algebra import compile_backend, joint_model_of
from dcaplda.runtime.errors import BundleError, InputError
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.joint.rows import read_joint

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("heard", [0, 12])
@pytest.mark.parametrize("correlation", [0.0, 0.25])
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_llr_is_that_of_the_densities_times_the_calibration(n, m, correlation, heard) -> None:
    """Within 1e-8: float64 on both sides."""
    joint = joint_model(1, correlation)
    joint = joint.adapted(open_to_all(adapted(joint.scorer, place_pool(heard))))
    enroll, test = utterances(n, 10 + n), utterances(m, 20 + m)
    found = joint.llrs(one_side(joint, *enroll), one_side(joint, *test))
    expected = density_llr(joint_torch_model(1, correlation), joint.scorer, enroll, test)
    assert found.shape == (1, 1)
    assert found[0, 0] == pytest.approx(expected, rel=1e-8, abs=1e-8)


def test_every_pair_of_mixed_numbers_has_its_own_form() -> None:
    """A matrix of sides of 1, 2, 3 utterances against 1, 2: each entry as if alone, 1e-10."""
    joint = joint_model()
    enroll = [utterances(n, 30 + n) for n in (1, 2, 3, 2)]
    test = [utterances(m, 40 + m) for m in (2, 1, 2)]
    sides = []
    for several in (enroll, test):
        parts = zip(*several, strict=True)
        singles = single_sides(joint.scorer, *(np.concatenate(part) for part in parts))
        groups = np.repeat(np.arange(len(several)), [len(s) for _, s in several])
        sides.append(joint.merged(singles, groups, len(several)))
    found = joint.llrs(*sides)
    model = joint_torch_model()
    expected = [[density_llr(model, joint.scorer, a, b) for b in test] for a in enroll]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    i, j = np.divmod(np.arange(found.size), found.shape[1])
    pairs = joint.pair_llrs(sides[0].take(i), sides[1].take(j))
    np.testing.assert_allclose(pairs, np.ravel(expected), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 5, 10])
def test_a_row_says_what_went_into_it(n: int) -> None:
    """x and conditions come back within 1e-5, the number exactly."""
    joint = joint_model()
    side = one_side(joint, *utterances(n, 3))
    back = joint.sides(joint.rows(side))
    assert back.count[0] == n
    assert back.spread[0] == pytest.approx(0.1 + 0.9 / n, rel=1e-6)
    np.testing.assert_allclose(back.x, side.x, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(back.conditions, side.conditions, rtol=1e-6, atol=1e-6)
    most = joint.scorer.told_count
    assert most == 6
    assert back.conditions[0, -2] == pytest.approx(np.log(min(n, most)), abs=1e-6)


def test_more_utterances_than_calibration_was_taught_count_in_the_score_alone() -> None:
    """Ten are told as six; the closed form knows that they are ten."""
    joint = joint_model()
    free = replace(joint, scorer=replace(joint.scorer, told_count=1e9))
    one, other = utterances(10, 11), utterances(1, 12)
    sides = [one_side(joint, *of) for of in (one, other)]
    told = [one_side(free, *of) for of in (one, other)]
    assert sides[0].count[0] == told[0].count[0] == 10
    assert sides[0].spread[0] == told[0].spread[0]
    six = told[0].conditions.copy()
    six[0, -2] = np.log(6)
    np.testing.assert_allclose(sides[0].conditions, six, atol=1e-12)
    expected = free.llrs(replace(told[0], conditions=six), told[1])
    np.testing.assert_allclose(joint.llrs(*sides), expected, atol=1e-10)
    assert abs(joint.llrs(*sides) - free.llrs(*told)) > 1e-3


def test_merging_in_any_order_and_in_steps_is_the_same() -> None:
    """((a b) (c d e)) and (e d c b a): within 1e-12."""
    joint = joint_model()
    singles = single_sides(joint.scorer, *utterances(5, 4))
    whole = joint.merged(singles.take(slice(None, None, -1)), np.zeros(5, np.int64), 1)
    halves = joint.merged(singles, np.array([0, 0, 1, 1, 1]), 2)
    steps = joint.merged(halves, np.zeros(2, np.int64), 1)
    for name in ("x", "count", "spread", "conditions"):
        np.testing.assert_allclose(getattr(steps, name), getattr(whole, name), atol=1e-12)


def test_taking_away_is_the_inverse_of_merging() -> None:
    """Within 1e-12 in float64."""
    joint = joint_model()
    embeddings, seconds = utterances(5, 6)
    whole = one_side(joint, embeddings, seconds)
    left = joint.without(whole, one_side(joint, embeddings[3:], seconds[3:]))
    expected = one_side(joint, embeddings[:3], seconds[:3])
    for name in ("x", "count", "spread", "conditions"):
        np.testing.assert_allclose(getattr(left, name), getattr(expected, name), atol=1e-12)


@pytest.mark.parametrize("taken", [3, 4])
def test_somebody_must_stay(taken: int) -> None:
    joint = joint_model()
    whole = one_side(joint, *utterances(3, 6))
    with pytest.raises(InputError, match=f"has 3 utterances, {taken} cannot be taken"):
        joint.without(whole, one_side(joint, *utterances(taken, 6)))


@pytest.mark.parametrize(
    ("column", "value"), [(0, 0.0), (0, np.nan), (0, np.inf), (1, 0.0), (1, 1.5), (1, np.nan)]
)
def test_rows_without_a_number_of_utterances_are_refused(column: int, value: float) -> None:
    joint = joint_model()
    rows = joint.rows(one_side(joint, *utterances(2, 7)))
    rows[0, joint.layout.tail + column] = value
    with pytest.raises(InputError, match="number of utterances is not kept"):
        joint.sides(rows)


def test_across_places_shares_the_speaker_alone() -> None:
    """Offsets of their own on either side: cov(x_e, x_t) is b against 0; written out, 1e-8."""
    joint = joint_model()
    other = joint.adapted(open_to_all(adapted(joint.scorer, place_pool(8))))
    enroll, test = one_side(joint, *utterances(2, 1)), one_side(other, *utterances(1, 2))
    terms = joint.scorer.across(other.scorer, float(enroll.spread[0]), float(test.spread[0]))
    expected = 0.0
    for axis, between in enumerate(joint.scorer.between):
        variances = np.array(
            [
                joint.scorer.offset[axis] + between + enroll.spread[0],
                other.scorer.offset[axis] + between + test.spread[0],
            ]
        )
        values = np.array([enroll.x[0, axis], test.x[0, axis]])
        for shared, sign in ((between, 1.0), (0.0, -1.0)):
            covariance = np.diag(variances) + shared * (1.0 - np.eye(2))
            quadratic = values @ np.linalg.solve(covariance, values)
            expected -= sign * 0.5 * (quadratic + np.linalg.slogdet(covariance)[1])
    found = np.sum(terms.cross * enroll.x[0] * test.x[0] + terms.enroll * enroll.x[0] ** 2)
    found += np.sum(terms.test * test.x[0] ** 2) + terms.constant
    assert found == pytest.approx(expected, abs=1e-8)
    model = joint_torch_model().double()
    conditions = [torch.from_numpy(side.conditions) for side in (enroll, test)]
    with torch.no_grad():
        forms = model.scale_across, model.shift_across
        scale, shift = (float(form(*conditions)) for form in forms)
    for llrs in (joint.llrs(enroll, test, other)[0], joint.pair_llrs(enroll, test, other)):
        assert llrs[0] == pytest.approx(scale * expected + shift, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(
    "name", ["scale.auto", "shift.half", "scale.linear", "shift_within.linear", "turn", "between"]
)
def test_stored_arrays_come_back_and_wrong_ones_do_not(name: str) -> None:
    model = joint_torch_model(recordings=True)
    arrays = joint_model_of(model, compile_backend(model)).arrays()
    again = read_joint(arrays, "here").arrays()
    assert again.keys() == arrays.keys()
    assert all(np.array_equal(again[key], value) for key, value in arrays.items())
    for wrong in (np.full_like(arrays[name], np.nan), np.zeros((2, 7, 1)), "text"):
        with pytest.raises(BundleError, match="^here: "):
            read_joint({**arrays, name: wrong}, "here")
    del arrays[name]
    with pytest.raises(BundleError, match="is missing"):
        read_joint(arrays, "here")
