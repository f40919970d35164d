"""Bayes threshold and posterior against the expected costs they come from."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcaplda.runtime.decision import bayes_threshold, posterior
from dcaplda.runtime.errors import InputError

PRIORS = st.floats(1e-6, 1 - 1e-6)
COSTS = st.floats(1e-3, 1e3)


@given(PRIORS, COSTS, COSTS, st.floats(-20, 20))
def test_threshold_is_where_both_answers_cost_the_same(prior, cost_miss, cost_fa, offset):
    llr = bayes_threshold(prior, cost_miss, cost_fa) + offset
    q = float(posterior(llr, prior))
    reject, accept = q * cost_miss, (1 - q) * cost_fa
    if abs(offset) > 1e-6:
        assert (accept < reject) == (offset > 0)
    else:
        assert accept == pytest.approx(reject, rel=1e-4)


@given(st.floats(-700, 700), PRIORS)
def test_posterior_follows_bayes_rule(llr, prior):
    if llr <= 0:
        expected = prior * math.exp(llr) / (prior * math.exp(llr) + 1 - prior)
    else:
        expected = prior / (prior + (1 - prior) * math.exp(-llr))
    assert float(posterior(llr, prior)) == pytest.approx(expected, rel=1e-9)


def test_paper_operating_point():
    assert bayes_threshold(0.01) == pytest.approx(math.log(99))
    assert bayes_threshold(0.5) == 0.0


@pytest.mark.filterwarnings("error")
def test_infinite_llrs_are_certain():
    assert posterior([-np.inf, 0.0, np.inf], 0.25).tolist() == [0.0, 0.25, 1.0]


@pytest.mark.parametrize("arguments", [(0.0,), (1.0,), (-0.1,), (math.nan,), (0.5, -1.0, 1.0)])
def test_impossible_settings_are_refused(arguments):
    with pytest.raises(InputError):
        bayes_threshold(*arguments)
