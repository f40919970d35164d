"""Measures of forensic validation against `lir` of the Netherlands Forensic Institute, and by hand.

lir counts LLRs in powers of ten. It changes the arrays it is given, so it gets copies.
"""

import math

import numpy as np
import pytest
from eval_data import SHARED, files_of, result_files, split_scores
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.forensic import (
    LOG10,
    SupportedRange,
    calibration_distance,
    devpav,
    ece,
    ece_after_pav,
    ece_of_nothing,
    elub,
)
from dcaplda.runtime.tables.vectors import read_vectors


def with_labels(target, nontarget):
    """LLRs in powers of ten and labels, as lir takes them."""
    labels = np.concatenate([np.ones(target.size), np.zeros(nontarget.size)])
    return np.concatenate([target, nontarget]) / LOG10, labels


def compare_with_lir(target, nontarget):
    """Every measure that lir has too, within 1e-6."""
    pytest.importorskip("lir", reason="lir is not installed (pip install lir)")
    from lir.algorithms.bayeserror import elub as lir_elub
    from lir.algorithms.isotonic_regression import IsotonicCalibrator
    from lir.data.models import LLRData
    from lir.metrics import cllr as lir_cllr
    from lir.metrics import cllr_min as lir_cllr_min
    from lir.metrics.devpav import devpav as lir_devpav
    from lir.plotting.expected_calibration_error import calculate_ece

    llrs, labels = with_labels(target, nontarget)
    data = LLRData(features=llrs.copy(), labels=labels)
    with np.errstate(divide="ignore", over="ignore"):
        expected = lir_elub(llrs.copy(), labels)
        assert np.array(elub(target, nontarget)) / LOG10 == pytest.approx(expected, abs=1e-6)
        expected = lir_devpav(llrs.copy(), labels)
        found = devpav(target, nontarget) / LOG10
        assert found == pytest.approx(expected, abs=1e-6, nan_ok=True)
        assert metrics.cllr(target, nontarget) == pytest.approx(lir_cllr(data), abs=1e-6)
        assert metrics.min_cllr_pav(target, nontarget) == pytest.approx(
            lir_cllr_min(data), abs=1e-6
        )
        priors = np.array([0.001, 0.1, 0.5, 0.9])
        # lir goes by LR / (1 + LR), which has few digits left where that is next to 1.
        expected = calculate_ece(10.0**llrs, labels, priors)
        np.testing.assert_allclose(ece(target, nontarget, priors), expected, atol=1e-6)
        after = 10.0 ** IsotonicCalibrator().fit_transform(llrs.copy(), labels)
        expected = calculate_ece(after, labels, priors)
        np.testing.assert_allclose(ece_after_pav(target, nontarget, priors), expected, atol=1e-6)


@pytest.mark.parametrize("seed", range(24))
def test_random_scores_give_what_lir_gives(seed):
    """From useless to separable, too timid to too bold, rounded ones and reversed ones."""
    rng = np.random.default_rng(seed)
    distance, spread = rng.choice([0.0, 0.5, 2.0, 4.0, 10.0]), rng.choice([0.5, 1.0, 3.0, 6.0])
    target = distance + rng.normal(0, spread, rng.integers(5, 400))
    nontarget = -distance + rng.normal(0, spread, rng.integers(5, 2000))
    if seed % 5 == 0:
        target, nontarget = np.round(target, 1), np.round(nontarget, 1)
    if seed % 7 == 6:
        target, nontarget = -target, -nontarget
    compare_with_lir(target, nontarget)


@pytest.mark.parametrize("results", result_files(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_scores_of_another_program_give_what_lir_gives(results):
    compare_with_lir(*split_scores(*files_of(results)))


def test_scores_of_real_recordings_give_what_lir_gives():
    """Cosines of embeddings of real people, made LLRs by an affine map that need not be good."""
    folder = SHARED / "real" / "dev_unseen"
    if not folder.is_dir():
        pytest.skip("the embeddings of real recordings are not beside the checkout")
    table = read_vectors(f"scp:{folder}/xvector.scp", scp_root=str(folder))
    pairs = zip(table.ids, table.matrix, strict=True)
    rows = {name: row / np.linalg.norm(row) for name, row in pairs}
    models = dict(line.split() for line in (folder / "enroll_single").read_text().splitlines())
    scores = {"target": [], "nontarget": []}
    for line in (folder / "trials_single").read_text().splitlines():
        model, test, label = line.split()
        scores[label].append(float(rows[models[model]] @ rows[test]))
    target, nontarget = (np.array(scores[label]) for label in scores)
    for slope in (8.0, 25.0):
        compare_with_lir(slope * (target - 0.35), slope * (nontarget - 0.35))


def brute_force_bounds(target, nontarget):
    """The definition, threshold by threshold in steps of 0.01 powers of ten, one LR at a time."""
    found = []
    for sign in (-1, 1):
        step = 0
        while True:
            threshold = 10.0 ** ((step + sign) * 0.01)
            missed = sum(math.exp(x) <= threshold for x in target) + 1
            accepted = sum(math.exp(x) > threshold for x in nontarget) + 1
            cost = missed / (len(target) + 1) + threshold * accepted / (len(nontarget) + 1)
            if cost > min(1.0, threshold):
                break
            step += sign
        found.append(step * 0.01 * LOG10)
    return tuple(found)


def test_bounds_are_where_the_definition_puts_them():
    rng = np.random.default_rng(3)
    target, nontarget = rng.normal(3, 2, 60), rng.normal(-3, 2, 200)
    assert elub(target, nontarget) == pytest.approx(brute_force_bounds(target, nontarget))


def test_useless_scores_support_nothing_and_more_trials_support_more():
    rng = np.random.default_rng(4)
    assert elub(rng.normal(0, 3, 500), rng.normal(0, 3, 500)) == (0.0, 0.0)
    few, many = (elub(rng.normal(8, 4, n), rng.normal(-8, 4, n)) for n in (30, 3000))
    assert many[0] < few[0] < 0.0 < few[1] < many[1]
    # N nontargets cannot support more than N + 1 to one, and T targets no less than 1 to T + 1.
    assert few[1] <= math.log(31) + 0.01 * LOG10 and few[0] >= -math.log(31) - 0.01 * LOG10


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_whole_weights_are_repeated_trials(seed):
    rng = np.random.default_rng(seed)
    target, nontarget = rng.normal(2, 2, 20), rng.normal(-2, 2, 50)
    weights = [rng.integers(0, 4, scores.size) for scores in (target, nontarget)]
    for weight in weights:
        weight[0] += 1
    repeated = [np.repeat(s, w) for s, w in zip((target, nontarget), weights, strict=True)]
    support = SupportedRange(target, nontarget)
    # Thresholds reach to the scores' ends, which a draw may leave out; there they cost the same.
    low, high = support.bounds(*weights)
    expected = elub(*repeated)
    assert low <= expected[0] + 1e-9 and high >= expected[1] - 1e-9
    if expected[0] > repeated[1].min() and expected[1] < repeated[0].max():
        assert (low, high) == pytest.approx(expected)
    assert calibration_distance(target, nontarget, *weights) == pytest.approx(
        calibration_distance(*repeated), nan_ok=True
    )


def test_distance_from_calibration_by_hand():
    """Scores 0 to 3 with classes n t n t: PAV pools 1 and 2 (one each, LLR 0); its ends are
    infinite. The curve is at 0 from x = 1 to x = 2: distances 1 and 2, mean 1.5, too high."""
    distance = calibration_distance([1.0, 3.0], [0.0, 2.0])
    assert distance == pytest.approx((1.5, 1.5))
    # Moved down by 1.5 the curve crosses the diagonal in the middle: two triangles of 0.5.
    distance = calibration_distance([-0.5, 1.5], [-1.5, 0.5])
    assert distance == pytest.approx((0.25, 0.0))
    assert calibration_distance([-3.0, -1.0], [-4.0, -2.0])[1] == pytest.approx(-2.5)


def test_distance_where_there_is_no_curve():
    assert math.isnan(devpav([1.0, 2.0], [-1.0, 0.0]))
    assert devpav([1.0], [1.0]) == pytest.approx(1.0)  # one pool of one score, LLR 0
    assert devpav([np.inf, 1.0], [np.inf, 0.0]) == math.inf


def test_calibrated_scores_are_near_calibration():
    rng = np.random.default_rng(6)
    target, nontarget = rng.normal(2, 2, 20_000), rng.normal(-2, 2, 20_000)
    distance, excess = calibration_distance(target, nontarget)
    assert distance < 0.35
    bolder = calibration_distance(target + 2.0, nontarget + 2.0)
    assert bolder == pytest.approx((2.0, 2.0), abs=0.35)


def test_uncertainty_is_the_entropy_of_the_posterior():
    """Written out at a prior of 0.2: bits lost by each class, weighted by the prior."""
    target, nontarget = np.array([1.0, -0.5]), np.array([-2.0, 0.3, 0.0])
    odds = 0.25
    lost = 0.2 * np.mean(np.log2(1 + 1 / (odds * np.exp(target))))
    lost += 0.8 * np.mean(np.log2(1 + odds * np.exp(nontarget)))
    assert ece(target, nontarget, 0.2) == pytest.approx([lost])
    assert ece_of_nothing([0.5, 0.2]) == pytest.approx(
        [1.0, -0.2 * math.log2(0.2) - 0.8 * math.log2(0.8)]
    )
