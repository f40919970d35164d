"""Charts say what their captions say: which line is which, and where circles lie."""

import re

import numpy as np
import pytest
from many_sets import drawn
from scipy.stats import norm

from dcaplda.eval.metrics.curves import PRIOR_LOG_ODDS
from dcaplda.eval.page.curve_charts import (
    WORDS,
    bayes_error,
    curve_charts,
    det,
    histogram,
    pav,
    tippett,
)
from dcaplda.eval.page.models import stage_charts
from dcaplda.eval.report.duration_stage import DurationStage


@pytest.fixture(scope="module")
def systems():
    return {"a": drawn(0).curves, "b": drawn(1).curves}


def test_solid_is_the_bayes_threshold_and_dashed_the_best(systems):
    chart = bayes_error(systems)
    assert "Solid: at the Bayes threshold; dashed: at the best one." in chart.caption
    for number, curves in enumerate(systems.values()):
        mine = [line for line in chart.lines if line.series == number]
        assert [line.style for line in mine] == ["", "dash"]
        np.testing.assert_array_equal(mine[0].y, curves.actual_error)
        np.testing.assert_array_equal(mine[1].y, curves.minimum_error)
        assert np.all(mine[0].y >= np.asarray(mine[1].y) - 1e-12)
        np.testing.assert_array_equal(mine[0].x, PRIOR_LOG_ODDS)
    upright = {rule.text: rule.at for rule in chart.rules if rule.axis == "x"}
    assert upright == pytest.approx({"prior 0.5": 0.0, "prior 0.01": -np.log(99)})
    assert [rule.at for rule in chart.rules if rule.axis == "y"] == [1.0]


def test_solid_is_targets_and_dashed_nontargets(systems):
    chart = tippett(systems)
    assert "Solid: targets; dashed: nontargets." in chart.caption.replace("\n", " ")
    for number, curves in enumerate(systems.values()):
        target, nontarget = (line for line in chart.lines if line.series == number)
        assert (target.style, nontarget.style) == ("", "dash")
        np.testing.assert_allclose(target.y, 100 * curves.target_above)
        np.testing.assert_allclose(nontarget.y, 100 * curves.nontarget_above)
        assert np.mean(target.y) > np.mean(nontarget.y)


def test_a_filled_circle_is_the_bayes_threshold_and_an_open_one_the_best(systems):
    chart = det(systems)
    assert re.search("Filled circle: the Bayes threshold of a prior; open circle", chart.caption)
    for number, curves in enumerate(systems.values()):
        mine = [mark for mark in chart.marks if mark.series == number]
        places = [(norm.cdf(mark.x), norm.cdf(mark.y), mark.filled) for mark in mine]
        expected = [
            (np.clip(pair[1], 9e-5, 0.6), np.clip(pair[0], 9e-5, 0.6), filled)
            for point in curves.points
            for pair, filled in ((point.actual, True), (point.best, False))
        ]
        np.testing.assert_allclose(places, expected, atol=1e-3)
        (line,) = (line for line in chart.lines if line.series == number)
        inside = (curves.det_miss > 1e-3) & (curves.det_miss < 0.5)
        np.testing.assert_allclose(norm.cdf(line.y)[inside], curves.det_miss[inside])
        inside = (curves.det_false_alarm > 1e-3) & (curves.det_false_alarm < 0.5)
        np.testing.assert_allclose(norm.cdf(line.x)[inside], curves.det_false_alarm[inside])


def test_below_the_grey_line_the_llr_is_too_large(systems):
    chart = pav(systems)
    assert "below it the LLR is too large, above it too small" in chart.caption
    grey, *lines = chart.lines
    assert grey.series is None and list(grey.x) == list(grey.y)
    for line, curves in zip(lines, systems.values(), strict=True):
        np.testing.assert_array_equal(line.x, curves.pav_scores)
        np.testing.assert_array_equal(line.y, curves.pav_llrs)


def test_histograms_hold_the_densities_of_both_classes(systems):
    curves = systems["a"]
    chart = histogram("a", curves, (-30.0, 30.0))
    assert "Blue: targets; orange: nontargets." in WORDS["histograms"][1]
    found = {line.series: line for line in chart.lines}
    assert set(found) == {"target", "nontarget"}
    for name, density in (
        ("target", curves.target_density),
        ("nontarget", curves.nontarget_density),
    ):
        area = np.trapezoid(found[name].y, found[name].x)
        assert area == pytest.approx((density * np.diff(curves.bin_edges)).sum())
    assert [rule.text for rule in chart.rules] == ["prior 0.5", "prior 0.01"]
    assert [rule.at for rule in chart.rules] == pytest.approx([0.0, np.log(99)])


def test_thresholds_outside_of_a_histogram_are_not_drawn(systems):
    assert [r.text for r in histogram("a", systems["a"], (-9.0, 2.0)).rules] == ["prior 0.5"]


def test_charts_stand_in_the_order_of_their_words(systems):
    charts = curve_charts(systems)
    assert [*charts, "histograms"] == list(WORDS)
    for kind, chart in charts.items():
        assert (chart.title, chart.caption) == WORDS[kind]


def test_the_duration_stage_has_a_line_for_each_enrolment():
    seconds = np.geomspace(1.0, 256.0, 33)
    alpha = np.add.outer(np.log(seconds), 10 * np.log(seconds))
    names, (scale, shift) = stage_charts(DurationStage(seconds, alpha, -alpha))
    assert names == [f"enrolment of {s} s" for s in (2, 8, 32, 128)]
    assert scale.title.endswith("scale alpha_d") and shift.title.endswith("shift beta_d")
    place = int(np.argmin(np.abs(seconds - 8.0)))
    np.testing.assert_allclose(scale.lines[1].y, alpha[place])  # rows are enrolments
    np.testing.assert_allclose(shift.lines[1].y, -alpha[place])


def test_a_flat_stage_is_drawn():
    _, charts = stage_charts(DurationStage(np.array([1.0, 9.0]), np.ones((2, 2)), np.zeros((2, 2))))
    assert all(chart.y.low < chart.y.high for chart in charts)
