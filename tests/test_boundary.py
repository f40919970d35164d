"""runtime/ and eval/ work where torch and onnx do not exist."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KALDI_FILES = {"plda": "plda", "transform": "transform.mat", "mean": "mean.vec"}
BLOCK = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named '{{name}}'", name=name)
sys.meta_path.insert(0, Blocker())
"""


def run(program: str, blocked: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess:
    code = BLOCK.format(blocked=blocked) + program
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.torch
def test_runtime_scores_with_numpy_and_onnxruntime_alone(small_bundle: Path) -> None:
    program = """
import numpy as np
from dcaplda.runtime import Backend
b = Backend.load(sys.argv[1])
print(b.score(np.eye(2, 24), [3.0, 4.0], np.eye(3, 24), [5.0, 6.0, 7.0]).shape)
"""
    blocked = ("torch", "onnx", "polars", "scipy", "safetensors", "matplotlib", "jinja2", "tqdm")
    result = run(program, blocked, str(small_bundle))
    assert result.stdout.strip() == "(2, 3)", result.stderr


@pytest.mark.parametrize("folder", ["runtime", "eval", "simulate"])
def test_every_module_imports_without_torch_and_onnx(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    modules = [".".join(("dcaplda", *p.relative_to(ROOT).with_suffix("").parts)) for p in paths]
    program = f"import importlib\nfor m in {modules}: importlib.import_module(m)\nprint('ok')"
    result = run(program, ("torch", "onnx"))
    assert result.stdout.strip() == "ok", result.stderr


@pytest.mark.torch
def test_a_tool_whose_extra_is_missing_says_which_to_install(tmp_path: Path) -> None:
    program = """
from dcaplda.bin.export_onnx import main
sys.exit(main(sys.argv[1:]))
"""
    result = run(program, ("torch",), str(tmp_path), str(tmp_path / "b"))
    assert result.returncode == 1
    assert "pip install 'dcaplda[train]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_help_does_not_wait_for_onnxruntime() -> None:
    program = """
from dcaplda.bin.score_trials import main
main(["--help"])
assert "onnxruntime" not in sys.modules and "numpy" not in sys.modules, "heavy imports"
"""
    result = run(program, ())
    assert result.returncode == 0, result.stderr


def test_a_kaldi_backend_is_imported_without_torch(tmp_path: Path) -> None:
    program = """
from dcaplda.bin.import_model import main
sys.exit(main(sys.argv[1:]))
"""
    source = ROOT / "tests" / "data" / "kaldi"
    options = [f"--{name}={source / file}" for name, file in KALDI_FILES.items()]
    result = run(program, ("torch",), "--from=kaldi", *options, str(tmp_path / "bundle"))
    assert result.returncode == 0, result.stderr
