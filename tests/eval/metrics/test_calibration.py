"""Linear logistic regression against scipy, against its optimality conditions, at the edges."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dcaplda.eval.metrics import logistic
from dcaplda.eval.metrics.calibration import cross_entropy, entropy, fit_affine
from dcaplda.runtime.errors import InputError


def make_scores(seed=0, n_target=300, n_nontarget=3000):
    rng = np.random.default_rng(seed)
    return rng.normal(5, 3, n_target), rng.normal(-4, 6, n_nontarget)


def loss_of(target, nontarget, prior, alpha, beta, **weights):
    return cross_entropy(alpha * target + beta, alpha * nontarget + beta, prior, **weights)


@pytest.mark.parametrize("prior", [0.0001, 0.01, 0.5, 0.97])
def test_fit_equals_a_general_minimizer(prior):
    target, nontarget = make_scores()
    found = fit_affine(target, nontarget, prior)
    other = minimize(
        lambda v: loss_of(target, nontarget, prior, *v),
        [1.0, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 10_000},
    )
    assert found == pytest.approx(other.x, abs=1e-5)
    assert loss_of(target, nontarget, prior, *found) <= other.fun + 1e-14


def gradient(target, nontarget, prior, alpha, beta, target_weights, nontarget_weights):
    """Derivatives of eq. 14, written out."""
    gamma = math.log(prior / (1 - prior))
    q_target = 1 / (1 + np.exp(-(alpha * target + beta + gamma)))
    q_nontarget = 1 / (1 + np.exp(-(alpha * nontarget + beta + gamma)))
    up = prior * target_weights * (q_target - 1) / target_weights.sum()
    down = (1 - prior) * nontarget_weights * q_nontarget / nontarget_weights.sum()
    return np.array([up @ target + down @ nontarget, up.sum() + down.sum()])


@pytest.mark.parametrize("prior", [0.01, 0.5])
def test_gradient_vanishes_at_the_weighted_fit(prior):
    target, nontarget = make_scores(1)
    rng = np.random.default_rng(2)
    weights = rng.poisson(1.0, target.size).astype(float), rng.exponential(1.0, nontarget.size)
    found = fit_affine(
        target, nontarget, prior, target_weights=weights[0], nontarget_weights=weights[1]
    )
    assert np.abs(gradient(target, nontarget, prior, *found, *weights)).max() < 1e-7


def test_scores_that_are_llrs_are_left_alone():
    rng = np.random.default_rng(4)
    target, nontarget = rng.normal(4.5, 3, 300_000), rng.normal(-4.5, 3, 300_000)
    # More than 400,000 trials: this goes through the thinned start as well.
    assert fit_affine(target, nontarget, 0.5) == pytest.approx((1.0, 0.0), abs=0.02)


@given(st.floats(0.01, 100), st.floats(-50, 50))
def test_fit_undoes_any_affine_map_of_the_scores(scale, shift):
    target, nontarget = make_scores(5, 40, 200)
    alpha, beta = fit_affine(target, nontarget, 0.1)
    moved = fit_affine(scale * target + shift, scale * nontarget + shift, 0.1)
    assert moved == pytest.approx((alpha / scale, beta - alpha * shift / scale), rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("prior", [0.01, 0.5])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30, 1e300])
def test_separable_classes_give_finite_numbers_and_no_loss(prior, scale):
    target, nontarget = np.array([1.0, 2.0, 3.0]) * scale, np.array([-1.0, -2.0, 0.9]) * scale
    alpha, beta = fit_affine(target, nontarget, prior)
    assert math.isfinite(alpha) and math.isfinite(beta) and alpha > 0
    assert loss_of(target, nontarget, prior, alpha, beta) < 1e-9 * entropy(prior)


@pytest.mark.filterwarnings("error")
def test_an_outlier_of_any_size_neither_overflows_nor_spoils_the_fit():
    target, nontarget = make_scores(6)
    clean = fit_affine(target, nontarget, 0.1)
    for outlier in (1e3, 1e10, 1e100, 1e300):
        # On the right side, and far enough to cost nothing: only its share of the mass counts.
        found = fit_affine(np.append(target, outlier), nontarget, 0.1)
        infinite = fit_affine(np.append(target, np.inf), nontarget, 0.1)
        assert found == pytest.approx(infinite, rel=1e-5)
    assert found == pytest.approx(clean, rel=0.02)


def test_equal_scores_mean_nothing():
    assert fit_affine([2.0, 2.0], [2.0], 0.01) == (0.0, pytest.approx(0.0, abs=1e-12))


def test_reversed_scores_get_a_negative_scale():
    target, nontarget = make_scores(7)
    alpha, beta = fit_affine(-target, -nontarget, 0.3)
    expected = fit_affine(target, nontarget, 0.3)
    assert (alpha, beta) == pytest.approx((-expected[0], expected[1]), rel=1e-9)


def test_a_start_changes_the_way_but_not_the_answer():
    target, nontarget = make_scores(8)
    plain = fit_affine(target, nontarget, 0.01)
    for start in [(0.1, 0.0), (3.0, -5.0), plain]:
        assert fit_affine(target, nontarget, 0.01, start=start) == pytest.approx(plain, rel=1e-5)


def test_misplaced_infinity_is_refused():
    with pytest.raises(InputError, match="no affine calibration"):
        fit_affine([1.0, -math.inf], [0.0], 0.5)


def test_a_million_trials_are_passed_a_few_times(monkeypatch):
    """Most Newton steps are made on a sample: of all the trials only the last ones."""
    rng = np.random.default_rng(0)
    target, nontarget = rng.normal(3, 2, 20_000), rng.normal(-3, 2, 1_000_000)
    passed = []
    whole = logistic.moments

    def counted(classes, *others):
        passed.append(sum(cls.scores.size for cls in classes))
        return whole(classes, *others)

    monkeypatch.setattr(logistic, "moments", counted)
    fit_affine(target, nontarget, 0.01)
    assert 1 <= sum(passed) / 1_020_000 < 6
