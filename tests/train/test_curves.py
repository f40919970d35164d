import json

import pytest

from dcaplda.train.curves import group_curves, plot_curves

pytest.importorskip("matplotlib")
ROWS = [
    {
        "stage": 1,
        "total": 0,
        "actual": {"a": 1.0, "b": 3.0, "c": 5.0},
        "minimum": {"a": 0.5, "b": 0.7, "c": 1.0},
    },  # noqa: E501
    {"stage": 1, "total": 1, "loss": 2.0},
    {"stage": 2, "total": 2, "actual": {"a": 2.0, "b": 4.0, "c": 6.0}},
]
GROUPS = {"a": "seen", "b": "seen", "c": "unseen"}


def test_a_curve_is_the_mean_over_the_group():
    curves = group_curves(ROWS, GROUPS)
    assert curves["seen"]["actual"] == ([0, 2], [2.0, 3.0])
    assert curves["seen"]["minimum"] == ([0], [pytest.approx(0.6)])
    assert curves["unseen"]["actual"] == ([0, 2], [5.0, 6.0])


def test_the_picture_is_drawn(tmp_path):
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    plot_curves(tmp_path, GROUPS, 0.01, best=2)
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


def test_a_run_without_evaluations_is_drawn_too(tmp_path):
    (tmp_path / "log.jsonl").write_text(json.dumps(ROWS[1]) + "\n")
    plot_curves(tmp_path, {}, 0.01)
    assert (tmp_path / "curves.png").exists()
