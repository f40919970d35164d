"""A file of rows with its codes in memory: finds the rows that are worth an exact comparison."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.codes.faiss_lib import one_thread
from dcaplda.runtime.gallery.codes.forms import read_forms
from dcaplda.runtime.gallery.codes.making import Codes
from dcaplda.runtime.gallery.stored.rows_file import RowsFile
from dcaplda.runtime.trials.tiles import run_jobs

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

Float32 = NDArray[np.float32]
Index = NDArray[np.int64]

SHELF_ROWS = 1 << 19
"""Rows that one thread looks through at once."""
SAMPLE = 4096
"""Speakers that stand for all others when probabilities are asked for."""


class Candidates(NamedTuple):
    """Rows of each probe (n, k), the largest score of a code first, and the scores."""

    rows: Index
    scores: Float32


class Drawn(NamedTuple):
    """Rows of speakers, the offsets of each, and who of them is as it was written."""

    rows: Float32
    offsets: Index
    whole: NDArray[np.bool_]


class Coded:
    """Codes of all rows of a file; safe to use from many threads and around a fork."""

    def __init__(self, backend: "Backend", found: RowsFile, codes: Codes) -> None:
        self.rows_file = found
        self.forms = read_forms(backend)
        self.quantizer, self.bounds = codes.quantizer, codes.bounds
        self._threads = backend.threads
        self._shelves = [
            (begin, codes.quantizer.shelf(codes.codes[begin : begin + SHELF_ROWS]))
            for begin in range(0, len(codes.codes), SHELF_ROWS)
        ]
        rng = np.random.default_rng(int(found.header.token, 16))
        self.sample: Index = np.sort(rng.choice(len(found), min(SAMPLE, len(found)), replace=False))
        """Speakers drawn at random."""
        rows, offsets, whole = found.gathered(self.sample)
        self.sample_rows = Drawn(rows.astype(np.float32), offsets, whole)
        """Theirs, at hand."""

    def candidates(self, queries: Float32, count: int) -> Candidates:
        """The `count` rows with the largest scores, by their codes, of queries (n, d)."""

        def look(shelf: tuple[int, object]) -> tuple[Index, Float32]:
            begin, index = shelf
            with one_thread():
                scores, rows = index.search(queries, count)  # type: ignore[attr-defined]
            return np.where(rows < 0, -1, rows + begin), scores

        threads = min(self._threads, len(self._shelves))
        rows: Index = np.empty((len(queries), 0), np.int64)
        scores: Float32 = np.empty((len(queries), 0), np.float32)
        for found, told in run_jobs(look, self._shelves, threads):
            rows = np.concatenate([rows, found], axis=1)
            scores = np.concatenate([scores, np.where(found < 0, -np.inf, told)], axis=1)
            order = np.argsort(-scores, axis=1, kind="stable")[:, :count]
            rows = np.take_along_axis(rows, order, axis=1)
            scores = np.take_along_axis(scores, order, axis=1)
        return Candidates(rows, scores.astype(np.float32, copy=False))

    def speakers(self, rows: Index) -> Index:
        """Whose rows these are, in the same order."""
        if self.rows_file.single:
            return rows
        return np.searchsorted(self.rows_file.offsets, rows, side="right") - 1
