"""Curves against counting, pictures that draw, the duration stage against its equations."""

import math

import numpy as np
import pytest

from dcaplda.eval import curve_pictures, set_pictures
from dcaplda.eval.curves import PRIOR_LOG_ODDS, curves
from dcaplda.eval.duration_stage import DurationStage, duration_features, second_order
from dcaplda.eval.measure import Settings
from dcaplda.eval.metrics import dcf, min_dcf
from dcaplda.eval.palette import PAPER, VARIABLES, WEB, inline_svg, rc
from dcaplda.eval.results import Part, Result
from dcaplda.eval.verdict import CARE, NO, YES, summary, verdict
from dcaplda.runtime.errors import BundleError


@pytest.fixture(scope="module")
def scores():
    rng = np.random.default_rng(0)
    return rng.normal(3, 2, 300), rng.normal(-3, 2, 2000)


@pytest.fixture(scope="module")
def drawn(scores):
    return curves(*scores, Settings())


def test_bayes_error_is_the_dcf_of_every_prior(scores, drawn):
    for place in (0, 40, 80, 100, 160):
        prior = 1 / (1 + math.exp(-PRIOR_LOG_ODDS[place]))
        assert drawn.actual_error[place] == pytest.approx(dcf(*scores, prior), rel=1e-9)
        assert drawn.minimum_error[place] == pytest.approx(min_dcf(*scores, prior), rel=1e-9)


def test_tippett_curves_count_what_lies_above(scores, drawn):
    for place in (0, 100, 200, 399):
        x = drawn.grid[place]
        assert drawn.target_above[place] == pytest.approx(np.mean(scores[0] >= x))
        assert drawn.nontarget_above[place] == pytest.approx(np.mean(scores[1] >= x))


def test_det_points_are_corners_of_the_roc(scores, drawn):
    for miss, false_alarm in zip(drawn.det_miss, drawn.det_false_alarm, strict=True):
        # Some threshold has exactly these rates.
        threshold = np.sort(scores[0])[min(round(miss * 300), 299)] if miss < 1 else np.inf
        assert np.mean(scores[0] < threshold) == pytest.approx(miss)
        highest = np.sum(scores[1] >= threshold) / 2000
        lowest = np.sum(scores[1] > (np.sort(scores[0])[round(miss * 300) - 1] if miss else -99))
        assert highest - 1e-12 <= false_alarm <= lowest / 2000 + 1e-12


def test_operating_points_hold_the_error_rates_at_both_thresholds(scores, drawn):
    for point in drawn.points:
        miss, false_alarm = point.actual
        assert miss == pytest.approx(np.mean(scores[0] < point.threshold))
        assert false_alarm == pytest.approx(np.mean(scores[1] >= point.threshold))
        cost = point.prior * point.best[0] + (1 - point.prior) * point.best[1]
        least = min(point.prior, 1 - point.prior)
        assert cost / least == pytest.approx(min_dcf(*scores, point.prior))


def test_pav_curve_rises_and_is_near_the_diagonal_for_llrs():
    rng = np.random.default_rng(1)
    d = 3.0
    found = curves(
        rng.normal(d * d / 2, d, 100_000), rng.normal(-d * d / 2, d, 100_000), Settings()
    )
    assert np.all(np.diff(found.pav_llrs) >= -1e-12)
    middle = np.abs(found.pav_scores) < 3
    assert np.abs(found.pav_llrs - found.pav_scores)[middle].max() < 0.35


def test_histograms_hold_nearly_all_trials(drawn):
    widths = np.diff(drawn.bin_edges)
    assert (drawn.target_density * widths).sum() == pytest.approx(1, abs=0.01)
    assert (drawn.nontarget_density * widths).sum() == pytest.approx(1, abs=0.01)


def test_curves_take_infinite_scores():
    found = curves(np.array([1.0, np.inf, 2.0]), np.array([-np.inf, 0.0, -1.0]), Settings())
    for name in ("grid", "target_above", "pav_scores", "pav_llrs", "bin_edges", "actual_error"):
        assert np.isfinite(getattr(found, name)).all(), name


def make_result(system, name, cllr, minimum, dcf_value=0.5, min_dcf_value=0.4, affine=(1.0, 0.0)):
    values = {"eer": 5.0, "auc": 0.9}
    for p in ("0.5", "0.01"):
        loss = 0.0 if math.isinf(cllr) else (cllr - minimum) / cllr
        values |= {f"cllr_{p}": cllr, f"min_cllr_lin_{p}": minimum, f"min_cllr_pav_{p}": minimum}
        values |= {f"calibration_loss_{p}": loss, f"dcf_{p}": dcf_value}
        values |= {f"min_dcf_{p}": min_dcf_value}
    return Result(system, name, "", 10, 90, values, {0.5: affine, 0.01: affine})


@pytest.mark.parametrize("palette", [PAPER, WEB], ids=["paper", "web"])
def test_every_picture_draws_in_both_palettes(drawn, palette):
    import matplotlib

    systems = {"one": drawn, "two": drawn}
    results = [make_result(s, f"set-{i}", 0.2 * i + 0.1, 0.1) for s in "ab" for i in range(12)]
    results.append(make_result("a", "bad", math.inf, 0.9))
    bins = ["<4 s", "4-8 s", "8+ s"]
    parts = [
        Part("duration", e, t, 5, 9, None if e == t == "8+ s" else {"cllr_0.5": 0.3})
        for e in bins
        for t in bins
    ]
    with matplotlib.rc_context(rc(palette)):
        figures = {
            name: getattr(curve_pictures, name)(systems, palette)
            for name in ("det", "tippett", "pav", "bayes_error", "histograms")
        }
        figures["bars"] = set_pictures.bars(results, "cllr_0.5", "min_cllr_lin_0.5", "C", palette)
        figures["heat"] = set_pictures.heat_map(parts, "cllr_0.5", "Cllr", "cllr_0.5", palette)
        figures["stage"] = set_pictures.duration_stage(make_stage("wlog"), palette)
        for name, figure in figures.items():
            svg = inline_svg(figure, name, "<label>")
            assert svg.startswith("<svg viewBox=") and svg.endswith("</svg>")
            assert 'aria-label="&lt;label&gt;"' in svg
            for axes in figure.axes:
                if axes.get_label() != "<colorbar>":
                    assert axes.get_xlabel() or axes.get_ylabel() or axes.get_title(loc="left")
            if palette is WEB:
                assert "var(--ink)" in svg
                assert not [colour for colour in VARIABLES if colour in svg]


def test_bars_show_the_actual_value_and_the_minimum_as_a_black_line():
    results = [make_result("a", "s", 0.5, 0.3), make_result("b", "s", 0.8, 0.4)]
    figure = set_pictures.bars(results, "cllr_0.5", "min_cllr_lin_0.5", "Cllr", PAPER)
    (axes,) = figure.axes
    assert [round(patch.get_height(), 6) for patch in axes.patches] == [0.5, 0.8]
    lines = [line for line in axes.lines if line.get_color() == "#000000"]
    assert [line.get_ydata()[0] for line in lines] == [0.3, 0.4]


def make_stage(feature, **parameters):
    defaults = {"log": {}, "bin": {"thresholds": [8.0, 16.0]}, "wlog": {"center": 30.0, "slope": 2}}
    size = {"log": 1, "bin": 3, "wlog": 2}[feature]
    rng = np.random.default_rng(3)

    def form():
        square = rng.normal(size=(2, size, size))
        square = square + square.transpose(0, 2, 1)
        cross, auto = square.tolist()
        linear = rng.normal(size=size).tolist()
        return {"cross": cross, "auto": auto, "linear": linear, "offset": float(rng.normal())}

    settings = parameters or defaults[feature]
    return DurationStage(feature, settings, form(), form(), None)


def test_duration_features_follow_the_equations():
    seconds = np.array([2.0, 8.0, 30.0, 100.0])
    assert duration_features("log", {}, seconds)[:, 0] == pytest.approx(np.log(seconds))
    one_hot = duration_features("bin", {"thresholds": [8.0, 16.0]}, seconds)
    assert one_hot.tolist() == [[1, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0, 1]]  # d > t
    long_short = duration_features("wlog", {"center": 30.0, "slope": 2.0}, seconds)
    for (long, short), d in zip(long_short, seconds, strict=True):
        sigma = 1 / (1 + math.exp(-2.0 * (math.log(d) - math.log(30.0))))
        assert long == pytest.approx(math.log(d) * sigma)
        assert short == pytest.approx(math.log(d) * (1 - sigma))


@pytest.mark.parametrize("feature", ["log", "bin", "wlog"])
def test_surfaces_equal_the_written_out_form(feature):
    stage = make_stage(feature)
    seconds, alpha, _ = stage.surfaces()
    features = duration_features(feature, stage.parameters, seconds)
    cross, auto, c = (np.array(stage.alpha[key]) for key in ("cross", "auto", "linear"))
    for i, j in ((0, 0), (3, 70), (95, 20)):
        e1, e2 = features[i], features[j]
        expected = 2 * e1 @ cross @ e2 + e1 @ auto @ e1 + e2 @ auto @ e2 + (e1 + e2) @ c
        assert alpha[i, j] == pytest.approx(expected + stage.alpha["offset"])
    assert np.allclose(alpha, alpha.T)


def test_a_feature_of_the_future_uses_the_exported_grid():
    grid = {"seconds": [1.0, 2.0], "alpha": [[1, 2], [2, 3]], "beta": [[0, 0], [0, 1]]}
    form = {"cross": [[0.0]], "auto": [[0.0]], "linear": [0.0], "offset": 1.0}
    entry = {"feature": "new", "feature_parameters": {}, "alpha": form, "beta": form, "grid": grid}
    stage = DurationStage.of({"calibration": {"duration": entry}}, "m")
    assert stage is not None and stage.surfaces()[1].tolist() == [[1, 2], [2, 3]]
    assert second_order(form, np.ones((2, 1))).tolist() == [[1, 1], [1, 1]]
    assert DurationStage.of({"calibration": {}}, "m") is None
    del entry["grid"]
    with pytest.raises(BundleError, match="duration calibration is damaged"):
        DurationStage.of({"calibration": {"duration": entry}}, "m")


@pytest.mark.parametrize(
    "result,grade,words",
    [
        (make_result("s", "x", 0.40, 0.39), YES, "3 % of the Cllr of 0.400"),
        (make_result("s", "x", 0.006, 0.0), YES, "100 % of the Cllr of 0.006"),
        (make_result("s", "x", 0.50, 0.40, affine=(0.6, 0.0)), CARE, "too confident"),
        (make_result("s", "x", 0.50, 0.30, affine=(1.0, 2.0)), NO, "too low (the best shift is"),
        (make_result("s", "x", 1.10, 1.00), NO, "worse than no scores"),
        (make_result("s", "x", 0.40, 0.39, 1.2, 0.5), NO, "does harm"),
        (make_result("s", "x", 0.95, 0.94, 1.0, 1.0), CARE, "too hard at this prior"),
        (make_result("s", "x", math.inf, 0.5), NO, "infinite"),
        (make_result("s", "x", 0.9, 0.5, affine=(-1.0, 0.0)), NO, "reversed"),
    ],
)
def test_verdicts_say_what_the_numbers_say(result, grade, words):
    found = verdict(result, Settings())
    assert found.grade == grade
    assert words in " ".join(found.sentences)


def test_the_summary_tells_sets_apart():
    good, bad = make_result("s", "home", 0.4, 0.39), make_result("s", "away", 0.8, 0.4)
    text = " ".join(summary("s", [good, bad], Settings()).sentences)
    assert "with the Bayes threshold on home" in text
    assert "calibrated before use on away" in text and "50 %, on away" in text
    assert summary("s", [good, make_result("s", "b", 0.4, 0.4)], Settings()).grade == YES
    assert summary("s", [bad, make_result("s", "b", 0.9, 0.4)], Settings()).grade == NO
