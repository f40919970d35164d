"""examples/cpp, compiled: its LLRs, decisions and warnings are Python's."""

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS
from joint_models import joint_bundle
from random_models import DIM, random_model

from dcaplda.export.bundle_writer import export_model
from dcaplda.export.importers.kaldi import read_backend
from dcaplda.export.importers.kaldi_bundle import export_backend
from dcaplda.runtime import Backend

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
STATISTICS = {
    "statistics": {
        "durations": {"min": 4.0, "max": 240.0},
        "embedding_norm": {"p0.05": 2.0, "p99.95": 8.0},
        "side_information": {
            "mean": [0.1, -0.2, 0.3],
            "covariance": [[0.5, 0.1, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 0.2]],
            "distance_percentiles": {"99.9": 4.0},
        },
    },
    "domains": ['with "quotes" \\ and so on', "ü"],
}


def engine_options(engine: str) -> list[str]:
    """What CMake is told of a runtime; skips where it is not on this machine."""
    if engine == "onnxruntime":
        root = os.environ.get("ONNXRUNTIME_ROOT", "")
        places = [Path(root) / "include"] if root else [Path("/usr/include/onnxruntime")]
        if not any((place / "onnxruntime_cxx_api.h").is_file() for place in places):
            pytest.skip(
                "no onnxruntime_cxx_api.h: Debian 13 has it (libonnxruntime-dev), or set "
                "ONNXRUNTIME_ROOT to a folder with include and lib"
            )
        return [f"-DONNXRUNTIME_ROOT={root}"]
    found = importlib.util.find_spec("openvino")
    if found is None or found.origin is None:
        pytest.skip("OpenVINO is not installed")
    return ["-DOPENVINO=ON", f"-DOpenVINO_DIR={Path(found.origin).parent / 'cmake'}"]


@pytest.fixture(scope="module", params=["openvino", "onnxruntime"])
def verify(request, tmp_path_factory) -> Path:
    """The program, compiled with either runtime."""
    for tool in ("cmake", "g++"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on this machine")
    options = engine_options(request.param)
    build = tmp_path_factory.mktemp("cpp")
    for command in (
        ["cmake", "-S", str(ROOT / "examples/cpp"), "-B", str(build), *options],
        ["cmake", "--build", str(build)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        assert "warning:" not in done.stdout + done.stderr
        if "-S" in command:
            named = {"openvino": "OpenVINO", "onnxruntime": "onnxruntime"}[request.param]
            assert f"runtime: {named}" in done.stdout
    return build / "verify"


def write(path: Path, x: np.ndarray, seconds: np.ndarray) -> Path:
    rows = np.column_stack([seconds, x])
    path.write_text("".join(" ".join(f"{v:.9g}" for v in row) + "\n" for row in rows))
    return path


def run(program: Path, *words: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(program), *map(str, words)], capture_output=True, text=True, timeout=60
    )


def bundle_of(kind: str, folder: Path) -> Path:
    if kind == "joint":
        return joint_bundle(folder / kind)
    if kind == "kaldi":
        files = (f"{EXTRACTS}/kaldi/{name}" for name in ("plda", "transform.mat", "mean.vec"))
        export_backend(read_backend(*files), folder / kind)
    else:
        export_model(random_model(kind), folder / kind, STATISTICS if kind != "plda" else None)
    return folder / kind


def truth(answer) -> dict:
    return {name: getattr(answer, name) for name in ("llr", "posterior", "threshold")}


@pytest.mark.parametrize("kind", ["d-plda-dsd", "plda", "joint", "kaldi"])
def test_answers_are_pythons(verify, tmp_path, rng, kind: str) -> None:
    """LLRs within 1e-4; some utterances are unlike training, and told so in the same words."""
    bundle = bundle_of(kind, tmp_path)
    backend = Backend.load(bundle)
    x = rng.standard_normal((9, backend.info.embedding_dim)).astype(np.float32)
    x[1::4] *= 4
    seconds = np.array([1.5, 30.0, 300.0, 10.0, 5.0, 6.0, 2.0, 9.0, 8.0])
    one, tests = (
        write(tmp_path / f"{i}.txt", x[s], seconds[s])
        for i, s in enumerate((slice(1), slice(1, 9)))
    )
    done = run(verify, bundle, one, tests, 0.3, 2, 1)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    told = None if kind in ("plda", "kaldi") else seconds
    ann = backend.enroll(x[0], None if told is None else told[0])
    assert len(found) == 8
    for row, it in enumerate(found, 1):
        time = None if told is None else float(told[row])
        expected = backend.verify(ann, x[row], time, prior=0.3, cost_miss=2)
        assert {k: it[k] for k in truth(expected)} == pytest.approx(truth(expected), abs=1e-4)
        assert it["accept"] == expected.accept and it["warnings"] == list(expected.warnings)
    if kind == "d-plda-dsd":
        assert any("duration" in w for it in found for w in it["warnings"])


def test_several_enrolled_utterances_are_averaged(verify, tmp_path, rng) -> None:
    bundle = bundle_of("d-plda-dsd", tmp_path)
    backend = Backend.load(bundle)
    x, seconds = rng.standard_normal((4, DIM)).astype(np.float32), np.array([5.0, 9.0, 20.0, 7.0])
    words = [
        write(tmp_path / "e.txt", x[:3], seconds[:3]),
        write(tmp_path / "t.txt", x[3:], seconds[3:]),
    ]
    found = json.loads(run(verify, bundle, *words).stdout)
    expected = backend.verify(backend.enroll(x[:3], seconds[:3]), x[3], 7.0, prior=0.01)
    assert found["llr"] == pytest.approx(expected.llr, abs=1e-4)
    joint = run(verify, bundle_of("joint", tmp_path), *words)
    assert (
        joint.returncode == 1 and "a joint model takes several utterances together" in joint.stderr
    )


def test_bad_input_is_one_line(verify, tmp_path, rng) -> None:
    bundle = bundle_of("d-plda-dsd", tmp_path)
    good = write(tmp_path / "good.txt", rng.standard_normal((1, DIM)), np.array([5.0]))
    bad = {
        "nan": (np.full((1, DIM), np.nan), [5.0], "a value is not finite"),
        "zero": (np.zeros((1, DIM)), [5.0], "all values are zero"),
        "short": (np.ones((1, DIM - 1)), [5.0], f"{DIM - 1} values, the model takes {DIM}"),
        "time": (np.ones((1, DIM)), [-1.0], "expected a number above 0"),
    }
    for name, (x, seconds, words) in bad.items():
        done = run(verify, bundle, good, write(tmp_path / f"{name}.txt", x, np.array(seconds)))
        assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1
    (tmp_path / "word.txt").write_text("5 1 2x\n")
    for words, told in (
        ([bundle, good, tmp_path / "word.txt"], "'2x' is no number"),
        ([bundle, good, tmp_path / "none.txt"], "cannot be read"),
        ([tmp_path, good, good], "has no model.json"),
        ([bundle, good, good, 1.5], "prior: expected 0 to 1"),
        ([bundle, good], "usage: verify"),
    ):
        done = run(verify, *words)
        assert done.returncode == 1 and told in done.stderr
    manifest = json.loads((bundle / "model.json").read_text())
    (bundle / "model.json").write_text(json.dumps({**manifest, "format_version": 4}))
    assert "newer version" in run(verify, bundle, good, good).stderr
    (bundle / "model.json").write_text("{")
    assert "not valid JSON" in run(verify, bundle, good, good).stderr
