"""Imports go one way between rooms, and runtime/ and eval/ work without torch and onnx."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from rooms import (
    HALLS,
    MAY_IMPORT,
    ROOT,
    defined_names,
    imported_rooms,
    modules,
    picture,
    private_names,
)

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


@pytest.mark.parametrize("folder", ["runtime", "audio", "eval", "simulate"])
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


def test_imports_follow_the_table_of_rooms_and_use_all_of_it() -> None:
    seen: dict[str, set[str]] = {room: set() for room in MAY_IMPORT}
    wrong = []
    for module in modules():
        for room, name in imported_rooms(module):
            if room != module.room:
                seen[module.room].add(room)
                if room not in MAY_IMPORT[module.room].split():
                    wrong.append(f"{module.name} imports {name}: {module.room} -> {room}")
    assert not wrong, "\n".join(wrong)
    allowed = {room: set(others.split()) for room, others in MAY_IMPORT.items()}
    assert allowed == seen, "the table allows an arrow that nobody uses"


def test_the_table_has_no_way_round() -> None:
    above: list[str] = []
    for room, others in MAY_IMPORT.items():
        assert set(others.split()) <= set(above), room
        above.append(room)


def test_no_private_name_is_used_across_rooms() -> None:
    found = list(modules())
    own = {room: defined_names([m.tree for m in found if m.room == room]) for room in MAY_IMPORT}
    everybodys = set().union(*own.values())
    wrong = [
        f"{module.path.relative_to(ROOT)}:{line}: {name}"
        for module in found
        for line, name in private_names(module)
        # Names that no room defines belong to other people's packages.
        if name in everybodys - own[module.room]
    ]
    assert not wrong, "\n".join(wrong)


def test_every_room_says_what_lives_there_and_stays_a_room() -> None:
    for folder in sorted({module.path.parent for module in modules()}):
        name = str(folder.relative_to(ROOT))
        door = (folder / "__init__.py").read_text(encoding="utf-8")
        assert door.startswith('"""'), name
        if "/" in name:
            assert "In:" in door and "Out:" in door, name
        files = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        # bin/ holds one module per tool, which is what somebody looks for there.
        assert len(files) <= 14 or name == "bin", f"{name}: {len(files)} modules"


def test_the_wheel_holds_every_room() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT) for h in HALLS for path in (ROOT / h).rglob("*.py")}
    assert sorted(listed) == sorted(".".join(("dcaplda", *folder.parts)) for folder in folders)


def test_the_picture_of_the_architecture_is_the_table() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert picture() in page, "print it anew: python tests/rooms.py"
