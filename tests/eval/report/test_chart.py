"""Curves for the page: within half a pixel, few points, paths that say what the points say."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.eval.report.chart import Axis, Chart, Line, Mark, Rule, even_ticks
from dcaplda.eval.report.thinning import HALF_PIXEL, MOST_POINTS, UNITS, path, thinned


def distance(points: np.ndarray, polyline: np.ndarray) -> float:
    """Of the point that is farthest from a polyline, by plain geometry."""
    best = np.full(len(points), np.inf)
    for start, end in zip(polyline[:-1], polyline[1:], strict=True):
        way = end - start
        length = max(float(way @ way), 1e-12)
        along = np.clip(((points - start) @ way) / length, 0, 1)
        best = np.minimum(best, np.linalg.norm(points - start - along[:, None] * way, axis=1))
    return float(best.max())


def read_path(d: str) -> np.ndarray:
    """Absolute points of a path, as SVG defines M and l."""
    start, _, rest = d.partition("l")
    steps = [int(word) for word in re.findall(r"-?\d+", rest)]
    first = [int(word) for word in re.findall(r"-?\d+", start)][:2]
    return np.cumsum(np.array([first, *zip(steps[::2], steps[1::2], strict=True)]), axis=0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, UNITS), min_size=2, max_size=400), st.integers(0, 2**32 - 1))
def test_thinned_curves_stay_within_half_a_pixel_or_have_the_most_points(heights, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(0, UNITS, len(heights)))
    points = np.column_stack([x, np.array(heights, dtype=float)])
    kept = thinned(points)
    assert len(kept) <= MOST_POINTS
    assert np.array_equal(kept[[0, -1]], points[[0, -1]])
    if len(points) <= MOST_POINTS:
        assert distance(points, kept) <= HALF_PIXEL + 1e-9


def test_a_straight_line_needs_two_points_and_a_smooth_one_few():
    x = np.linspace(0, UNITS, 400)
    assert len(thinned(np.column_stack([x, 0.3 * x + 7]))) == 2
    smooth = np.column_stack([x, UNITS / (1 + np.exp(-(x - 1000) / 150))])
    assert len(thinned(smooth)) < 40 and distance(smooth, thinned(smooth)) <= HALF_PIXEL


def test_a_curve_that_comes_back_to_its_start_is_kept():
    turn = np.linspace(0, 2 * np.pi, 100)
    circle = 1000 + 500 * np.column_stack([np.cos(turn), np.sin(turn)])
    assert distance(circle, thinned(circle)) <= HALF_PIXEL


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-999, 2999), st.integers(-999, 2999)), min_size=1))
def test_paths_say_what_the_points_say(points):
    whole = np.array(points, dtype=float)
    found = read_path(path(whole))
    # Points that repeat the one before are left out.
    moved = [True, *np.any(np.diff(whole, axis=0) != 0, axis=1).tolist()]
    assert np.array_equal(found, whole[moved])


def test_paths_are_short():
    assert path(np.array([[0.0, 10.2], [12.0, 3.0], [12.4, 3.3]])) == "M0 10l12-7"
    assert path(np.array([[5.0, 5.0]])) == "M5 5h0"


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (-8.0, 8.0, ["−5", "0", "5"]),
        (-12.0, 12.0, ["−10", "−5", "0", "5", "10"]),
        (0.6, 1.8, ["0.6", "0.8", "1", "1.2", "1.4", "1.6", "1.8"]),
        (0.0, 100.0, ["0", "20", "40", "60", "80", "100"]),
    ],
)
def test_ticks_are_round(low, high, expected):
    ticks = even_ticks(low, high)
    assert [text for _, text in ticks] == expected
    assert all(low - 1e-9 <= value <= high + 1e-9 for value, _ in ticks)


@settings(max_examples=80, deadline=None)
@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_every_axis_has_a_few_ticks(low, width):
    if low + width == low:
        return
    assert 1 <= len(even_ticks(low, low + width)) <= 9


def chart() -> Chart:
    return Chart(
        title="T",
        caption="C",
        x=Axis(label="x", low=-2.0, high=2.0, ticks=[(-1.0, "−1"), (1.0, "1")]),
        y=Axis(label="y", low=0.0, high=10.0, ticks=[(5.0, "5")]),
        lines=[Line(x=[-2, 2], y=[0, 10], series=3), Line(x=[-2, 2], y=[-99, 99], style="dash")],
        marks=[
            Mark(x=0.0, y=2.5, series=1, filled=True),
            Mark(x=9.0, y=99.0, series=1, filled=False),
        ],
        rules=[Rule(axis="y", at=5.0), Rule(axis="x", at=1.0, text="one")],
    )


def test_a_chart_counts_in_units_from_the_upper_left():
    record = chart().record()
    assert record["x"] == {"label": "x", "ticks": [[500, "−1"], [1500, "1"]]}
    assert record["y"] == {"label": "y", "ticks": [[1000, "5"]]}  # ticks and rules count upwards
    assert record["rules"] == [["y", 1000, ""], ["x", 1500, "one"]]
    assert record["lines"][0] == [3, "", 0, "M0 2000l2000-2000"]
    assert record["marks"] == [[1, 1, 1000, 1500], [1, 0, 2000, 0]]  # a mark outside is at the edge


def test_what_is_far_outside_comes_no_nearer_than_half_a_chart():
    line = read_path(chart().record()["lines"][1][3])
    assert line[:, 1].tolist() == [2 * UNITS - 1000, -1000]
