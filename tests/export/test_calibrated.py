"""Bundles with a calibration inside: every way of scoring against the written-out map."""

import json
from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS
from joint_models import joint_bundle
from onnx.reference import ReferenceEvaluator
from random_models import DIM, random_model

from dcaplda.bin.calibrate_scores import main as calibrate
from dcaplda.export.bundle_writer import export_model
from dcaplda.export.calibrated import ScoreMap, write_calibrated
from dcaplda.export.importers.kaldi import read_backend
from dcaplda.export.importers.kaldi_bundle import export_backend
from dcaplda.runtime import Backend

pytestmark = pytest.mark.torch
AFFINE = ScoreMap((0.7,), (-1.5,))
TIMED = ScoreMap((0.9, 0.1, -0.02, 0.05), (-1.0, 0.3, 0.04, -0.1), 2.0, -1.2, 1.5)


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sources")
    export_model(random_model("d-plda-dsd"), folder / "full")
    export_model(random_model("plda"), folder / "plda")
    files = (f"{EXTRACTS}/kaldi/{name}" for name in ("plda", "transform.mat", "mean.vec"))
    export_backend(read_backend(*files), folder / "kaldi")
    return {name: folder / name for name in ("full", "plda", "kaldi")}


def every_way(directory: Path, x: np.ndarray, seconds: np.ndarray) -> dict[str, np.ndarray]:
    """LLRs of the first three utterances, and of a group of two, with the other three."""
    backend = Backend.load(directory)
    ones = {name: np.ones(len(x)) for name in backend.info.voiceprint_inputs}
    prints = backend.voiceprints(x, seconds, extra=ones)
    enroll, test = prints[:3], prints[3:]
    two = {name: np.ones(2) for name in ones}
    group = backend.voiceprints(x[:2], seconds[:2], groups=[0, 0], extra=two)
    found = {
        "compare": backend.compare(enroll, test),
        "pairs": backend.compare_pairs(enroll, test),
        "group": backend.compare(group, test),
    }
    if "verify" in backend.info.further_graphs:
        answers = [[backend.verify(e, x[3], seconds[3], prior=0.5).llr] for e in enroll[:, None]]
        found["verify"] = np.array(answers)
        found["search"] = backend.search_tile(test[:1], enroll)
    return found


def written_out(m: ScoreMap, s: np.ndarray, d1: np.ndarray, d2: np.ndarray) -> np.ndarray:
    """alpha(x, y) s + beta(x, y), term by term."""
    x, y = (np.clip(np.log(d) - m.centre, m.low, m.high) for d in (d1, d2))
    alpha, beta = (
        c[0] + c[1] * (x + y) + c[2] * (x**2 + y**2) + c[3] * x * y for c in (m.scale, m.shift)
    )
    return alpha * s + beta


@pytest.mark.parametrize("name", ["full", "plda", "kaldi"])
@pytest.mark.parametrize("score_map", [AFFINE, TIMED], ids=["affine", "durations"])
def test_every_way_gives_calibrated_llrs(tmp_path, rng, sources, name, score_map) -> None:
    """Within 1e-4 + 1e-5 |llr| of the map of the old bundle's scores."""
    source = sources[name]
    write_calibrated(source, tmp_path / "b", score_map, {"prior": 0.1})
    dim = Backend.load(source).info.embedding_dim
    x = rng.standard_normal((6, dim)).astype(np.float32)
    seconds = np.float32([2.0, 30.0, 7.0, 4.0, 100.0, 1.0])  # the last two beyond what is known
    raw, found = (every_way(path, x, seconds) for path in (source, tmp_path / "b"))
    e, t = seconds[:3].astype(np.float64), seconds[3:].astype(np.float64)
    # A group has the mean of its x, which is the geometric mean of seconds inside the range.
    clipped = np.clip(np.log(e[:2]) - score_map.centre, score_map.low, score_map.high).mean()
    sides = {
        "compare": (e[:, None], t[None]),
        "pairs": (e, t),
        "group": (np.exp(clipped + score_map.centre)[None, None], t[None]),
        "verify": (e[:, None], t[None, :1]),
        "search": (e[None], t[:1, None]),
    }
    for way, scores in raw.items():
        if score_map.timed:
            expected = written_out(score_map, scores.astype(np.float64), *sides[way])
        else:
            expected = 0.7 * scores.astype(np.float64) - 1.5
        np.testing.assert_allclose(found[way], expected, atol=1e-4, rtol=1e-5, err_msg=way)
    manifest = json.loads((tmp_path / "b/model.json").read_text())
    assert manifest["calibration"]["scored_by"] == {"prior": 0.1}
    one, other = (Backend.load(path).info.fingerprint for path in (source, tmp_path / "b"))
    assert one != other


@pytest.mark.parametrize("score_map", [AFFINE, TIMED], ids=["affine", "durations"])
def test_calibrated_graphs_run_elsewhere(tmp_path, rng, sources, score_map) -> None:
    """voiceprint, average and compare in the reference evaluator, within 1e-4 of onnxruntime."""
    write_calibrated(sources["full"], tmp_path / "b", score_map, {})
    backend = Backend.load(tmp_path / "b")
    graphs = {
        name: ReferenceEvaluator(str(tmp_path / "b" / f"{name}.onnx"))
        for name in ("voiceprint", "average", "compare")
    }
    x, seconds = rng.standard_normal((5, DIM)).astype(np.float32), np.float32([3, 9, 40, 2, 7])
    inputs = {"embeddings": x, "durations": seconds}
    (prints,) = graphs["voiceprint"].run(None, inputs)
    (means,) = graphs["average"].run(None, {**inputs, "groups": np.array([0, 0, 1, 2, 2])})
    (llrs,) = graphs["compare"].run(None, {"enroll": means, "test": prints})
    expected = backend.compare(
        backend.voiceprints(x, seconds, groups=[0, 0, 1, 2, 2]), backend.voiceprints(x, seconds)
    )
    np.testing.assert_allclose(llrs, expected, atol=1e-4, rtol=1e-5)


def test_joint_models_and_second_durations_are_refused(tmp_path, sources) -> None:
    with pytest.raises(Exception, match="a joint model is calibrated by its training"):
        write_calibrated(joint_bundle(tmp_path / "joint"), tmp_path / "b", AFFINE, {})
    write_calibrated(sources["plda"], tmp_path / "one", TIMED, {})
    with pytest.raises(Exception, match="is calibrated already"):
        write_calibrated(tmp_path / "one", tmp_path / "two", TIMED, {})
    with pytest.raises(Exception, match="a bundle of version 2; export or import it again"):
        write_calibrated(EXTRACTS / "bundles/version-2", tmp_path / "b", AFFINE, {})


@pytest.fixture
def timed_trials(tmp_path, rng, sources) -> tuple:
    """Scores of a bundle, and labels drawn so that short utterances tell half as much."""
    backend = Backend.load(sources["plda"])
    x = rng.standard_normal((160, DIM)).astype(np.float32)
    raw = backend.compare(backend.voiceprints(x[:80]), backend.voiceprints(x[80:]))
    seconds = np.where(np.arange(160) % 2, 3.0, 60.0)
    log = np.log(seconds)
    scale = 0.05 * (log[:80, None] + log[None, 80:])
    llrs = scale * (raw - np.median(raw))
    labels = (rng.random(raw.shape) < 1.0 / (1.0 + np.exp(-llrs))).astype(int)
    trials, scores, durations = (tmp_path / name for name in ("trials", "scores", "utt2dur"))
    pairs = [(i, j) for i in range(80) for j in range(80)]
    words = ("nontarget", "target")
    trials.write_text("".join(f"u{i} u{80 + j} {words[labels[i, j]]}\n" for i, j in pairs))
    scores.write_text("".join(f"u{i} u{80 + j} {raw[i, j]:.7g}\n" for i, j in pairs))
    durations.write_text("".join(f"u{i} {d}\n" for i, d in enumerate(seconds)))
    return trials, scores, durations, raw, llrs, x, seconds


def test_the_tool_finds_how_durations_act(tmp_path, sources, timed_trials) -> None:
    """6400 trials: LLRs within a mean of 0.15 of those that labels were drawn by."""
    trials, scores, durations, _, llrs, x, seconds = timed_trials
    out, bundle = tmp_path / "out", f"--bundle={sources['plda']}"
    common = ["--prior=0.5", bundle, str(trials), str(scores)]
    assert calibrate([f"--durations={durations}", *common, str(out)]) == 0
    found = Backend.load(out).score(x[:80], seconds[:80], x[80:], seconds[80:])
    assert np.abs(found - llrs).mean() < 0.15
    assert calibrate([*common, str(tmp_path / "plain")]) == 0
    plain = Backend.load(tmp_path / "plain").score(x[:80], None, x[80:], None)
    assert np.abs(plain - llrs).mean() > 2 * np.abs(found - llrs).mean()
    told = [
        json.loads((tmp_path / name / "model.json").read_text())["calibration"]["scored_by"]
        for name in ("out", "plain")
    ]
    assert told[0]["cllr"] < told[1]["cllr"]


def test_models_have_the_geometric_mean_of_their_seconds(tmp_path, sources, timed_trials) -> None:
    """Enrolment names that no table of durations knows, but --spk2utt does."""
    trials, scores, durations, *_ = timed_trials
    common = ["--prior=0.5", f"--bundle={sources['plda']}"]
    files = [str(trials), str(scores)]
    (tmp_path / "spk2utt").write_text("".join(f"m{i} u{i} a{i} b{i}\n" for i in range(80)))
    told = dict(line.split() for line in durations.read_text().splitlines())
    more = "".join(
        f"a{i} {2 * float(told[f'u{i}'])}\nb{i} {0.5 * float(told[f'u{i}'])}\n" for i in range(80)
    )
    durations.write_text(durations.read_text() + more)
    assert calibrate([f"--durations={durations}", *common, *files, str(tmp_path / "one")]) == 0
    for path in (trials, scores):
        lines = path.read_text().splitlines()
        path.write_text("".join(f"m{line[1:]}\n" for line in lines))
    options = [f"--durations={durations}", f"--spk2utt={tmp_path}/spk2utt"]
    assert calibrate([*options, *common, *files, str(tmp_path / "two")]) == 0
    one, two = (
        json.loads((tmp_path / name / "model.json").read_text())["calibration"]["scored_by"]
        for name in ("one", "two")
    )
    assert one["scale"] == pytest.approx(two["scale"]) and one["cllr"] == pytest.approx(two["cllr"])


def test_bad_requests_are_one_line(tmp_path, sources, timed_trials, capsys) -> None:
    trials, scores, durations, *_ = timed_trials
    files = [str(trials), str(scores), str(tmp_path / "b")]
    bundle = f"--bundle={sources['plda']}"
    lines = durations.read_text().splitlines(keepends=True)
    durations.write_text("".join(lines[:-2]))
    (tmp_path / "equal").write_text("".join(f"u{i} 3\n" for i in range(160)))
    for words, told in (
        ([f"--durations={durations}", *files], "--durations needs --bundle"),
        ([bundle, f"--enroll-durations={durations}", *files], "durations are needed of both"),
        ([bundle, f"--durations={durations}", *files], "no duration of 'u158' and 1 more"),
        ([bundle, f"--durations={tmp_path}/equal", *files], "all durations are equal"),
        (["--bundle=nowhere", *files], "nowhere: has no model.json"),
        ([bundle, *files[:2], f"{tmp_path}/equal"], "is a file; give a directory"),
        ([bundle, *files[:2], str(trials)], "is an input too"),
    ):
        assert calibrate(words) == 1
        assert told in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
