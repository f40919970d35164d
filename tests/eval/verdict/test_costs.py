"""What is lost, counted trial by trial, and the grade at either side of every limit."""

import numpy as np
import pytest

from dcaplda.eval.metrics.measure import Settings, measure
from dcaplda.eval.verdict.costs import (
    CARE,
    NO,
    YES,
    Limits,
    Lost,
    grade_of,
    lost_at,
    one_trial,
    worse,
)
from dcaplda.runtime.errors import UsageError

LATE = {0.5: -1.0, 0.01: 4.0, 0.99: -5.0}
"""A target's score just below the Bayes threshold of each prior, above all nontargets."""


def shifted(missed: int, prior: float, n_trials: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Scores that a lower threshold would part without error, `missed` targets short of Bayes'."""
    target = np.full(n_trials, 10.0)
    target[:missed] = LATE[prior]
    return target, np.full(n_trials, -20.0)


@pytest.mark.parametrize("prior", [0.5, 0.01])
@pytest.mark.parametrize(
    ("missed", "grade"), [(0, YES), (5, YES), (6, CARE), (15, CARE), (16, NO), (100, NO)]
)
def test_one_trial_more_than_a_limit_is_the_next_grade(prior, missed, grade):
    settings = Settings(priors=(prior,))
    lost = lost_at(measure(*shifted(missed, prior), settings).values, prior, settings)
    assert lost.value == pytest.approx(missed / 100)  # blind decisions miss all targets: 1
    assert lost.actual == pytest.approx(missed / 100) and lost.least == 0.0
    assert grade_of(lost.value) == grade


def test_a_false_alarm_costs_what_its_prior_says():
    settings = Settings(priors=(0.5, 0.01))
    target, nontarget = np.full(50, 10.0), np.full(1000, -9.0)
    nontarget[:3] = 5.0  # above both thresholds, below all targets
    values = measure(target, nontarget, settings).values
    assert lost_at(values, 0.5, settings).value == pytest.approx(0.003)
    assert lost_at(values, 0.01, settings).value == pytest.approx(99 * 0.003)


def test_the_unit_is_the_cost_without_scores_however_dcf_is_printed():
    target, nontarget = shifted(7, 0.5)  # the threshold of these costs is 1.6
    found = []
    for normalize in (True, False):
        settings = Settings((0.01,), cost_miss=2.0, cost_fa=0.1, normalize_dcf=normalize)
        values = measure(target, nontarget, settings).values
        drawn = np.array([list(values.values())] * 3)
        found.append(lost_at(values, 0.01, settings, drawn))
    for lost in found:
        assert lost.value == pytest.approx(0.07) and lost.interval == pytest.approx((0.07, 0.07))


def test_the_interval_is_of_the_difference_replicate_by_replicate():
    names = Settings(priors=(0.5,)).names
    rows = np.zeros((200, len(names)))
    rows[:, names.index("min_dcf_0.5")] = np.linspace(0.1, 0.9, 200)  # varies, and with it
    rows[:, names.index("dcf_0.5")] = rows[:, names.index("min_dcf_0.5")] + 0.02  # the cost
    values = dict(zip(names, rows[0], strict=True))
    lost = lost_at(values, 0.5, Settings(priors=(0.5,)), rows, 0.9)
    assert lost.interval == pytest.approx((0.02, 0.02))
    rows[:, names.index("dcf_0.5")] += np.linspace(0.0, 0.1, 200)
    values["dcf_0.5"] = values["min_dcf_0.5"] + 0.07  # the mean of the draws
    low, high = lost_at(values, 0.5, Settings(priors=(0.5,)), rows, 0.9).interval
    assert low == pytest.approx(0.025, abs=0.001) and high == pytest.approx(0.115, abs=0.001)


def test_draws_that_lose_more_than_the_trials_do_not_move_the_interval_away():
    """Few people give a better best threshold: the bias of the draws is taken off, not below 0."""
    names = Settings(priors=(0.5,)).names
    rows = np.zeros((200, len(names)))
    rows[:, names.index("dcf_0.5")] = np.linspace(0.10, 0.20, 200)
    values = {**dict.fromkeys(names, 0.0), "dcf_0.5": 0.06}
    low, high = lost_at(values, 0.5, Settings(priors=(0.5,)), rows, 0.9).interval
    assert low == pytest.approx(0.015, abs=0.001) and high == pytest.approx(0.105, abs=0.001)
    values["dcf_0.5"] = 0.03
    low, high = lost_at(values, 0.5, Settings(priors=(0.5,)), rows, 0.9).interval
    assert low == 0.0 and high == pytest.approx(0.075, abs=0.001)


def test_rounding_never_makes_a_loss_negative():
    values = {"dcf_0.5": 0.3, "min_dcf_0.5": 0.30000000000000004}
    assert lost_at(values, 0.5, Settings(priors=(0.5,))).value == 0.0


@pytest.mark.parametrize(
    ("lost", "interval", "grade"),
    [
        (0.05, (0.0, 0.15), YES),
        (0.05, (0.0, 0.1501), CARE),  # may be more than the second limit
        (0.0501, (0.0, 0.06), CARE),
        (0.15, (0.14, 0.16), CARE),
        (0.1501, (0.0501, 0.9), NO),
        (0.1501, (0.05, 0.9), CARE),  # may be little
        (8.0, (0.04, 20.0), CARE),
        (0.0, (0.0, 0.0), YES),
    ],
)
def test_the_interval_weighs_on_both_sides(lost, interval, grade):
    assert grade_of(lost, Limits(), interval) == grade


@pytest.mark.parametrize(
    ("prior", "costs", "counts", "step"),
    [
        (0.5, (1, 1), (100, 1000), 1 / 100),
        (0.5, (1, 1), (1000, 100), 1 / 100),
        (0.01, (1, 1), (100, 1000), 99 / 1000),  # a false alarm is dearer than a miss
        (0.01, (1, 1), (10, 10_000), 1 / 10),
        (0.01, (10, 1), (100, 500), 0.99 / 0.1 / 500),
        (0.99, (1, 1), (50, 500), 99 / 50),
    ],
)
def test_one_trial_has_its_price(prior, costs, counts, step):
    settings = Settings((prior,), *costs)
    assert one_trial(prior, settings, *counts) == pytest.approx(step)


def test_without_a_bootstrap_a_loss_is_known_to_one_trial():
    assert Lost(0.5, 0.3, 0.1, step=0.05).span == pytest.approx((0.15, 0.25))
    assert Lost(0.5, 0.3, 0.1, interval=(0.1, 0.4), step=0.05).span == (0.1, 0.4)


def test_both_limits_can_be_moved():
    limits = Limits(usable=0.2, care=0.4)
    losses = (0.2, 0.21, 0.4, 0.41)
    assert [grade_of(lost, limits) for lost in losses] == [YES, CARE, CARE, NO]
    assert grade_of(0.0, Limits(0.0, 0.0)) == YES and grade_of(0.001, Limits(0.0, 0.0)) == NO


def test_the_limits_are_those_that_the_pages_name():
    assert (Limits().usable, Limits().care) == (0.05, 0.15)


@pytest.mark.parametrize("pair", [(-0.1, 0.2), (0.3, 0.2), (0.1, float("inf")), (float("nan"), 1)])
def test_limits_out_of_order_are_refused(pair):
    with pytest.raises(UsageError, match="limits of lost cost"):
        Limits(*pair)


def test_grades_have_an_order():
    assert worse(YES, CARE) == worse(CARE, YES) == CARE
    assert worse(NO, CARE, YES) == worse(YES, NO) == NO and worse(YES) == YES
