"""docs/decisions.md says what its script computes."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_tables_are_those_of_the_script(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    command = [sys.executable, str(ROOT / "docs/plots/decisions.py"), str(tmp_path / "f.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    text = (ROOT / "docs/decisions.md").read_text()
    lines = [line for line in done.stdout.splitlines() if line]
    assert len(lines) == 12
    for line in lines:
        assert line in text, line
    assert (tmp_path / "f.png").stat().st_size > 10_000
