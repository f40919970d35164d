"""calibrate-scores and cosine bundles: fitted, saved, applied, refused."""

import json

import numpy as np
import pytest

from dcaplda.bin import calibrate_scores, import_model, score_trials
from dcaplda.runtime.tables.vector_writer import write_vectors


def run(*words) -> int:
    return calibrate_scores.main([str(word) for word in words])


@pytest.fixture
def scored(tmp_path, rng):
    """Scores whose true LLR is 2 s - 1: s ~ N(1, 1/2) and N(0, 1/2)."""
    target = rng.normal(1, np.sqrt(0.5), 4000)
    nontarget = rng.normal(0, np.sqrt(0.5), 4000)
    trials, scores = tmp_path / "trials", tmp_path / "scores"
    rows = [("target", value) for value in target] + [("nontarget", value) for value in nontarget]
    trials.write_text("".join(f"e{i} t {label}\n" for i, (label, _) in enumerate(rows)))
    scores.write_text("".join(f"e{i} t {value}\n" for i, (_, value) in enumerate(rows)))
    return trials, scores, np.concatenate([target, nontarget])


def test_the_fit_finds_the_llr_of_two_gaussians_and_apply_writes_it(tmp_path, scored):
    trials, scores, values = scored
    saved, out = tmp_path / "c.json", tmp_path / "out"
    assert run("--prior=0.5", trials, scores, saved) == 0
    found = json.loads(saved.read_text())
    assert found["alpha"] == pytest.approx(2, rel=0.06)
    assert found["beta"] == pytest.approx(-1, rel=0.08)
    assert (found["n_target"], found["n_nontarget"]) == (4000, 4000)
    assert run(f"--apply={saved}", scores, out) == 0
    lines = [line.split() for line in out.read_text().splitlines()]
    assert [line[:2] for line in lines] == [[f"e{i}", "t"] for i in range(8000)]
    expected = found["alpha"] * values + found["beta"]
    np.testing.assert_allclose([float(line[2]) for line in lines], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "cannot be read"),
        ("{", "not JSON"),
        ("{}", "not a calibration"),
        ('{"format": "dcaplda-calibration", "alpha": 1}', "fit the calibration again"),
    ],
)
def test_a_damaged_calibration_is_one_clear_line(tmp_path, scored, capsys, content, words):
    saved = tmp_path / "c.json"
    if content:
        saved.write_text(content)
    assert run(f"--apply={saved}", scored[1], tmp_path / "out") == 1
    assert words in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_reversed_labels_are_refused(tmp_path, scored, capsys):
    trials, scores, _ = scored
    turned = trials.read_text().replace("nontarget", "x").replace("target", "nontarget")
    trials.write_text(turned.replace("x", "target"))
    assert run(trials, scores, tmp_path / "c.json") == 1
    assert "turned round" in capsys.readouterr().err
    assert not (tmp_path / "c.json").exists()


@pytest.mark.torch
def test_a_cosine_bundle_gives_the_cosine_of_centred_embeddings(tmp_path, rng):
    vectors = rng.normal(1, 1, (12, 9)).astype(np.float32)
    ids = [f"u{i}" for i in range(12)]
    table = f"ark:{tmp_path}/x.ark"
    write_vectors(table, ids, vectors)
    (tmp_path / "trials").write_text("".join(f"u{i} u{11 - i}\n" for i in range(6)))
    calibration = {"alpha": 3.0, "beta": -1.0, "prior": 0.5, "n_target": 1, "n_nontarget": 1}
    saved = tmp_path / "c.json"
    saved.write_text(json.dumps({"format": "dcaplda-calibration", "cllr": 0.5, **calibration}))
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    unit = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = np.array([unit[i] @ unit[11 - i] for i in range(6)])
    for options, expected in (([], cosines), ([f"--calibration={saved}"], 3 * cosines - 1)):
        bundle = str(tmp_path / f"bundle{len(options)}")
        assert import_model.main(["--from=cosine", *options, table, bundle]) == 0
        out = str(tmp_path / "out")
        assert score_trials.main([bundle, table, table, str(tmp_path / "trials"), out]) == 0
        found = np.loadtxt(out, usecols=2)
        np.testing.assert_allclose(found, expected, atol=2e-6)
