"""Curves against counting, pictures that draw, the duration stage as exported."""

import math

import numpy as np
import pytest

from dcaplda.bin.eval_scores import main
from dcaplda.eval.metrics.curves import PRIOR_LOG_ODDS, curves
from dcaplda.eval.metrics.measure import Settings
from dcaplda.eval.metrics.scalars import dcf, min_dcf
from dcaplda.eval.report import curve_pictures, set_pictures
from dcaplda.eval.report.duration_stage import DurationStage
from dcaplda.eval.report.palette import PAPER, VARIABLES, WEB, inline_svg, rc
from dcaplda.eval.results import Part, Result
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
        figures["stage"] = set_pictures.duration_stage(make_stage(), palette)
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


def test_a_bar_that_is_cut_has_a_mark_at_its_top():
    results = [make_result("a", f"s{i}", 0.2, 0.1) for i in range(3)]
    results += [make_result("a", "far", 9.0, 0.1), make_result("a", "lost", math.inf, 0.1)]
    (axes,) = set_pictures.bars(results, "cllr_0.5", "min_cllr_lin_0.5", "Cllr", PAPER).axes
    top = axes.get_ylim()[1]
    marks = [line for line in axes.lines if line.get_marker() == "^"]
    assert [line.get_ydata()[0] for line in marks] == [top, top] and top < 9.0
    assert [round(line.get_xdata()[0]) for line in marks] == [3, 4]


def make_stage():
    seconds = np.geomspace(1.0, 256.0, 30)
    pull = np.log(seconds)[:, None] + np.log(seconds)[None, :]
    return DurationStage(seconds, 0.5 + 0.1 * pull, 1.0 - 0.3 * pull)


def test_the_duration_stage_is_read_from_the_exported_grid():
    entry = {"seconds": [1.0, 2.0], "alpha": [[1, 2], [2, 3]], "beta": [[0, 0], [0, 1]]}
    stage = DurationStage.of({"calibration": {"duration": entry}}, "m")
    assert stage is not None and stage.alpha.tolist() == [[1, 2], [2, 3]]
    assert stage.beta.tolist() == [[0, 0], [0, 1]] and stage.seconds.tolist() == [1.0, 2.0]
    assert DurationStage.of({"calibration": {}}, "m") is None


@pytest.mark.parametrize(
    "damage", [{"alpha": None}, {"alpha": [[1, 2]]}, {"seconds": "x"}, {"beta": [1, 2]}]
)
def test_a_damaged_duration_stage_is_refused(damage):
    entry = {"seconds": [1.0, 2.0], "alpha": [[1, 2], [2, 3]], "beta": [[0, 0], [0, 1]], **damage}
    with pytest.raises(BundleError, match="export it again"):
        DurationStage.of({"calibration": {"duration": entry}}, "m")


@pytest.mark.parametrize(
    "ending,magic", [("pdf", b"%PDF-"), ("png", b"\x89PNG"), ("svg", b"<?xml")]
)
def test_plots_are_files_that_open(tmp_path, ending, magic):
    lines = tmp_path / "lines"
    lines.write_text("2 target\n-3 nontarget\n0.5 target\n-0.2 nontarget\n1 nontarget\n")
    options = [f"--plots={tmp_path / 'plots'}", f"--plot-format={ending}", "--prior=0.5"]
    assert main([*options, str(lines)]) == 0
    files = sorted((tmp_path / "plots").iterdir())
    assert len(files) == 7  # five curves, bars of Cllr and of DCF
    assert all(file.suffix == f".{ending}" for file in files)
    assert all(file.read_bytes().startswith(magic) for file in files)
