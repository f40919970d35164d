"""A shortened run of gallery_torture.py; its full ten minutes are `--seconds=600`."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch


def run(
    small_bundle: Path, gallery: Path, seconds: int, *settings: str
) -> subprocess.CompletedProcess:
    program = Path(__file__).parents[2] / "gallery_torture.py"
    command = [sys.executable, str(program), str(small_bundle), str(gallery)]
    command += [f"--seconds={seconds}", *settings]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)


def test_no_acknowledged_change_is_lost_by_kills(small_bundle: Path, tmp_path: Path) -> None:
    done = run(small_bundle, tmp_path / "g.db", 8)
    assert done.returncode == 0, done.stderr
    kills = int(done.stdout.split(" kills")[0].split()[-1])
    changes = int(done.stdout.split(" acknowledged")[0].split()[-1])
    assert kills >= 5 and changes >= 50, done.stdout


@pytest.mark.parametrize("index", [[], ["--index=codes"]])
def test_files_of_rows_and_codes_never_mislead(
    small_bundle: Path, tmp_path: Path, index: list[str]
) -> None:
    if index:
        pytest.importorskip("faiss")
    done = run(small_bundle, tmp_path / "g.db", 6, "--side-files", *index)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "g.db-rows").exists()
    assert not index or (tmp_path / "g.db-codes").exists()


@pytest.mark.slow
def test_ten_minutes_of_it(small_bundle: Path, tmp_path: Path) -> None:
    done = run(small_bundle, tmp_path / "g.db", 600)
    assert done.returncode == 0, done.stderr
