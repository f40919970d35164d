"""Some rows of a matrix, without a copy of them: training data may be most of the memory there is.

People held out in turn leave four fifths of the data, once for every turn. What goes through those
takes them a chunk at a time, and a chunk is all that is copied.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Places = slice | NDArray[np.integer]

CHUNK = 1 << 13
"""Rows that are worked on together, where a copy of all would take as much memory as there is."""


def row_chunks(count: int) -> list[slice]:
    """All rows, a chunk at a time."""
    return [slice(first, first + CHUNK) for first in range(0, count, CHUNK)]


@dataclass(frozen=True)
class Picked:
    """Rows of `matrix` in the order of `rows`; only those that are asked for are copied."""

    matrix: Float32
    rows: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, as if it were a matrix."""
        return len(self.rows), self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, places: Places) -> Float32:
        """The vectors at these places."""
        return self.matrix[self.rows[places]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All of them as a matrix: a copy, for those who know that it is small."""
        return self.matrix[self.rows].astype(dtype or self.matrix.dtype, copy=False)


Vectors = Float32 | Picked
"""One row for each utterance."""


def pick(vectors: Vectors, rows: NDArray[np.integer]) -> Picked:
    """Some rows of a matrix, or of what was picked of one."""
    if isinstance(vectors, Picked):
        return Picked(vectors.matrix, vectors.rows[rows])
    return Picked(vectors, rows.astype(np.int64, copy=False))


def home(vectors: Vectors) -> tuple[Float32, NDArray[np.int64] | None]:
    """The matrix that the vectors lie in, and where; None: in their own order, all of it."""
    if isinstance(vectors, Picked):
        return vectors.matrix, vectors.rows
    return vectors, None


def mean_vector(vectors: Vectors) -> NDArray[np.float64]:
    """Mean of all rows."""
    total = np.zeros(vectors.shape[1])
    for rows in row_chunks(len(vectors)):
        total += vectors[rows].sum(axis=0, dtype=np.float64)
    return total / len(vectors)


def extremes(vectors: Vectors) -> tuple[Float32, Float32]:
    """Least and greatest value of each column."""
    chunks = row_chunks(len(vectors))
    least = [vectors[rows].min(axis=0) for rows in chunks]
    greatest = [vectors[rows].max(axis=0) for rows in chunks]
    return np.min(least, axis=0), np.max(greatest, axis=0)
