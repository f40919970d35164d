"""A shortened run of gallery_torture.py; its full ten minutes are `--seconds=600`."""

import subprocess
import sys
from pathlib import Path

import pytest
from postgres_server import why_not

pytestmark = pytest.mark.torch


def run(
    small_bundle: Path, gallery: Path, seconds: int, kind: str = "sqlite", *settings: str
) -> subprocess.CompletedProcess:
    if kind == "postgres" and why_not():
        pytest.skip(why_not())
    program = Path(__file__).parents[2] / "gallery_torture.py"
    command = [sys.executable, str(program), str(small_bundle), str(gallery)]
    command += [f"--seconds={seconds}", *(["--postgres"] if kind == "postgres" else []), *settings]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)


def test_no_acknowledged_change_is_lost_by_kills(small_bundle: Path, tmp_path: Path) -> None:
    done = run(small_bundle, tmp_path / "g.db", 8)
    assert done.returncode == 0, done.stderr
    kills = int(done.stdout.split(" kills")[0].split()[-1])
    changes = int(done.stdout.split(" acknowledged")[0].split()[-1])
    assert kills >= 5 and changes >= 50, done.stdout


def test_nor_by_falls_of_the_server(small_bundle: Path, tmp_path: Path) -> None:
    """PostgreSQL is stopped and started, and killed; no worker needs a restart for it."""
    done = run(small_bundle, tmp_path / "g.db", 20, "postgres")
    assert done.returncode == 0, done.stderr
    falls = int(done.stdout.split(" falls")[0].split()[-1])
    changes = int(done.stdout.split(" acknowledged")[0].split()[-1])
    assert falls >= 1 and changes >= 20, done.stdout


@pytest.mark.parametrize("index", [[], ["--index=codes"]])
def test_files_of_rows_and_codes_never_mislead(
    small_bundle: Path, tmp_path: Path, index: list[str]
) -> None:
    if index:
        pytest.importorskip("faiss")
    done = run(small_bundle, tmp_path / "g.db", 6, "sqlite", "--side-files", *index)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "g.db-rows").exists()
    assert not index or (tmp_path / "g.db-codes").exists()


def test_codes_never_mislead_when_the_server_falls(small_bundle: Path, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    done = run(small_bundle, tmp_path / "g.db", 15, "postgres", "--side-files", "--index=codes")
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.glob("g.db-files/*-codes"))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_ten_minutes_of_it(small_bundle: Path, tmp_path: Path, kind: str) -> None:
    done = run(small_bundle, tmp_path / "g.db", 600, kind)
    assert done.returncode == 0, done.stderr
