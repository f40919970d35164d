"""The examples in JavaScript give Python's LLRs, decisions and warnings."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import chromium
import numpy as np
import pytest
from kaldi_files import binary_vector
from random_models import DIM, random_model

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.runtime.verification import Verification

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[2]
TOLERANCE = 1e-4
STATISTICS = {
    "statistics": {
        "durations": {"min": 4.0, "max": 240.0},
        "embedding_norm": {"p0.05": 2.0, "p99.95": 8.0},
        "side_information": {
            "mean": [0.1, -0.2, 0.3],
            "covariance": [[0.5, 0.1, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 0.2]],
            "distance_percentiles": {"99.9": 4.0},
        },
    }
}


@pytest.fixture(scope="session")
def packages() -> Path:
    """node_modules with both onnxruntimes, installed once per checkout into build/."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node and npm are not on this machine")
    folder = ROOT / "build" / "npm"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the other test worker waits
        if not (folder / "complete").exists():
            for name in ("package.json", ".npmrc"):
                shutil.copy(ROOT / "examples" / "node" / name, folder)
            command = ["npm", "install", "--no-audit", "--no-fund"]
            settings = {**os.environ, "ONNXRUNTIME_NODE_INSTALL": "skip"}
            try:
                done = subprocess.run(
                    command, cwd=folder, env=settings, capture_output=True, timeout=300
                )
            except subprocess.TimeoutExpired:
                pytest.skip("npm install took more than five minutes")
            if done.returncode:
                pytest.skip(f"npm install failed: {done.stderr.decode()[-200:]}")
            (folder / "complete").touch()
    return folder / "node_modules"


@pytest.fixture(scope="module")
def examples(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples that sees the packages."""
    folder = tmp_path_factory.mktemp("examples") / "examples"
    ignore = shutil.ignore_patterns("node_modules")
    shutil.copytree(ROOT / "examples", folder, ignore=ignore)
    (folder / "node" / "node_modules").symlink_to(packages)
    return folder


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bundle") / "model"
    export_model(random_model("d-plda-dsd"), directory, STATISTICS)
    return directory


def utterances(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((count, DIM)).astype(np.float32)
    x[1::4] *= 4  # some are unlike training
    return x, np.array([1.5, 30.0, 300.0, 10.0] * count)[:count]


def write(folder: Path, kind: str, name: str, values: np.ndarray, seconds: float) -> Path:
    """An embedding in one of the forms that people have."""
    path = folder / f"{name}.{kind}"
    if kind == "npy":
        np.save(path, values)
    elif kind == "f64.npy":
        np.save(path, values.astype(np.float64))
    elif kind == "json":
        path.write_text(json.dumps({"embedding": values.tolist(), "seconds": seconds}))
    elif kind == "list.json":
        path.write_text(json.dumps(values.tolist()))
    elif kind == "txt":
        path.write_text(f"utt1  [ {' '.join(f'{x:.9g}' for x in values)} ]\n")
    elif kind == "ark":
        path.write_bytes(b"utt1 " + binary_vector(values))
    return path


def python_answer(bundle: Path, x: np.ndarray, d: np.ndarray, **costs: float) -> Verification:
    backend = Backend.load(bundle)
    return backend.verify(backend.enroll(x[0], d[0]), x[1], d[1], **costs)


def same(found: dict, truth: Verification) -> None:
    for name in ("llr", "posterior", "threshold"):
        assert found[name] == pytest.approx(getattr(truth, name), abs=TOLERANCE)
    assert found["accept"] == truth.accept
    assert found["warnings"] == list(truth.warnings)


def node(examples: Path, *arguments: object) -> subprocess.CompletedProcess:
    command = ["node", "verify.mjs", *map(str, arguments)]
    return subprocess.run(
        command, cwd=examples / "node", capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("runtime", ["node", "web"])
def test_node_gives_pythons_answer(examples, bundle, tmp_path, runtime: str) -> None:
    x, d = utterances(8)
    seen = set()
    for pair in range(0, 8, 2):
        rows = slice(pair, pair + 2)
        one, two = (write(tmp_path, "npy", f"u{i}", x[i], d[i]) for i in range(pair, pair + 2))
        done = node(
            examples, bundle, one, two, f"--enroll-seconds={d[pair]}",
            f"--test-seconds={d[pair + 1]}", "--prior=0.3", "--cost-miss=2", f"--runtime={runtime}",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        truth = python_answer(bundle, x[rows], d[rows], prior=0.3, cost_miss=2)
        same(json.loads(done.stdout), truth)
        seen |= {warning.split(" ")[1] for warning in truth.warnings}
    assert seen >= {"duration", "embedding"}  # the comparison was of something


@pytest.mark.parametrize("kind", ["f64.npy", "json", "list.json", "txt", "ark"])
def test_every_form_of_an_embedding_is_read(examples, bundle, tmp_path, kind: str) -> None:
    x, d = utterances(2)
    one, two = (write(tmp_path, kind, f"u{i}", x[i], d[i]) for i in range(2))
    seconds = [] if kind == "json" else [f"--enroll-seconds={d[0]}", f"--test-seconds={d[1]}"]
    done = node(examples, bundle, one, two, *seconds, "--prior=0.5")
    assert done.returncode == 0, done.stderr
    same(json.loads(done.stdout), python_answer(bundle, x, d, prior=0.5))


def test_bad_input_is_one_line(examples, bundle, tmp_path) -> None:
    x, d = utterances(2)
    good = write(tmp_path, "json", "good", x[0], d[0])
    short = write(tmp_path, "json", "short", x[0][:5], d[0])
    (tmp_path / "words.txt").write_text("hello")
    for bad, message in (
        ([bundle, good, short], "5 values, the model takes 24"),
        ([bundle, good, tmp_path / "words.txt"], "not an embedding"),
        ([bundle, good, good, "--test-seconds=0"], "expected a number above 0"),
        ([bundle, good, good, "--prior=1"], "between 0 and 1"),
        ([tmp_path, good, good], "model.json"),
    ):
        done = node(examples, *bad)
        assert done.returncode == 1
        assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_an_altered_graph_is_refused(examples, bundle, tmp_path) -> None:
    x, d = utterances(1)
    good = write(tmp_path, "json", "good", x[0], d[0])
    shutil.copytree(bundle, tmp_path / "altered")
    with open(tmp_path / "altered" / "pairs.onnx", "r+b") as stream:
        stream.seek(100)
        byte = stream.read(1)
        stream.seek(100)
        stream.write(bytes([byte[0] ^ 1]))
    done = node(examples, tmp_path / "altered", good, good)
    assert done.returncode == 1 and "pairs.onnx: altered" in done.stderr
    manifest = tmp_path / "altered" / "model.json"
    manifest.write_text(manifest.read_text() + " ")
    done = node(examples, tmp_path / "altered", good, good)
    assert done.returncode == 1 and "model.json: altered" in done.stderr


@contextlib.contextmanager
def served(examples: Path, packages: Path, bundle: Path) -> Iterator[str]:
    """The example's own server on a free port; its address."""
    runtime = packages / "onnxruntime-web" / "dist"
    command = ["node", "serve.mjs", str(bundle), "0", str(runtime)]
    process = subprocess.Popen(command, cwd=examples / "browser", stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


@pytest.mark.skipif(chromium.executable() is None, reason="no chromium on this machine")
def test_the_page_gives_pythons_answer(examples, packages, bundle, tmp_path) -> None:
    """Files are dropped by the mouse, seconds come from one file and by keyboard for the other."""
    x, d = utterances(2)
    one = write(tmp_path, "json", "enroll", x[0], d[0])
    two = write(tmp_path, "npy", "test", x[1], d[1])
    with served(examples, packages, bundle) as address:
        page = chromium.Page(address)
        try:
            page.wait_for("document.body && document.body.dataset.ready")
            page.drop("#enroll .drop", one)
            page.wait_for("document.querySelector('#enroll span').textContent.includes('24')")
            page.drop("#test .drop", two)
            page.wait_for("document.querySelector('#decision').textContent.includes('seconds')")
            page.value("document.querySelector('#test .seconds').focus()")
            page.send("Input.insertText", text=str(d[1]))
            page.wait_for("document.querySelector('#answer').dataset.accept")
            for prior, miss in ((0.01, 1.0), (0.9, 50.0)):
                check_page(
                    page, prior, miss, python_answer(bundle, x, d, prior=prior, cost_miss=miss)
                )
        finally:
            page.close()


def check_page(page: "chromium.Page", prior: float, cost_miss: float, truth: Verification) -> None:
    """Type prior and cost; what the page then shows is Python's answer."""
    for name, value in (("prior", prior), ("cost-miss", cost_miss)):
        page.value(f"document.querySelector('#{name}').select()")
        page.send("Input.insertText", text=str(value))
    shown = f"document.querySelector('#threshold').textContent === '{truth.threshold:.5f}'"
    page.wait_for(shown)
    found = page.value(
        "({llr: +document.querySelector('#llr').textContent,"
        " posterior: +document.querySelector('#posterior').textContent,"
        " threshold: +document.querySelector('#threshold').textContent,"
        " accept: document.querySelector('#answer').dataset.accept === 'true',"
        " decision: document.querySelector('#decision').textContent,"
        " warnings: [...document.querySelectorAll('#warnings li')].map((li) => li.textContent)})"
    )
    assert found.pop("decision").startswith("Accept" if truth.accept else "Reject")
    same(found, truth)


@pytest.mark.skipif(chromium.executable() is None, reason="no chromium on this machine")
def test_the_page_says_what_is_wrong(examples, packages, bundle, tmp_path) -> None:
    x, d = utterances(1)
    short = write(tmp_path, "json", "short", x[0][:5], d[0])
    (tmp_path / "words.txt").write_text("hello")
    with served(examples, packages, bundle) as address:
        page = chromium.Page(address)
        try:
            page.wait_for("document.body && document.body.dataset.ready")
            page.drop("#enroll .drop", tmp_path / "words.txt")
            page.wait_for(
                "document.querySelector('#decision').textContent.includes('words.txt: not')"
            )
            page.drop("#enroll .drop", short)
            page.drop("#test .drop", short)
            page.wait_for(
                "document.querySelector('#decision').textContent.includes('the model takes')"
            )
            assert page.value("document.querySelector('#llr').textContent") == "–"
        finally:
            page.close()


def test_the_server_gives_nothing_else(examples, packages, bundle) -> None:
    import urllib.error
    import urllib.request

    with served(examples, packages, bundle) as address:
        assert "127.0.0.1" in address
        with urllib.request.urlopen(f"{address}model/model.json") as answer:
            assert json.load(answer)["format"] == "dcaplda-bundle"
        for path in ("model/../../secret.json", "model/%2e%2e/x.json", "ort/a/b.mjs", "x.txt"):
            with pytest.raises(urllib.error.HTTPError):
                urllib.request.urlopen(f"{address}{path}")
