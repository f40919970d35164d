"""Where golden files are: the small extracts in tests/data, and the full sets where present."""

from pathlib import Path

import numpy as np
import pytest

EXTRACTS = Path(__file__).parent / "data"
FULL = Path(__file__).parents[2] / "shared" / "data"

needs_full_golden = pytest.mark.skipif(
    not FULL.is_dir(), reason="the full golden sets are not beside this checkout"
)


def reference_roots() -> list:
    """The extract always, the full reference set where it is."""
    return [
        pytest.param(EXTRACTS / "reference", id="extract"),
        pytest.param(FULL / "reference-golden", id="full", marks=needs_full_golden),
    ]


def read_ark(path: Path) -> tuple[list[str], np.ndarray]:
    """Vectors of a binary ark, read by an independent package."""
    kaldiio = pytest.importorskip("kaldiio")
    items = list(kaldiio.load_ark(str(path)))
    return [key for key, _ in items], np.stack([value for _, value in items])


def read_columns(path: Path) -> list[list[str]]:
    """Lines of a text file, split at blanks."""
    return [line.split() for line in path.read_text().splitlines()]
