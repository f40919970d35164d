"""The k best partners of each row, exactly, from tiles that come in order.

Workers drop at once what is below the k-th best LLR that a row has so far; what is left waits until
there is enough to be worth sorting. Equal LLRs are ranked by the partner's number, which needs no
key: tiles come in the order of the grid, so every row meets its partners in rising order.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.pairs.grid import Tile

Float32 = NDArray[np.float32]
Numbers = NDArray[np.uint32]
Index = NDArray[np.int64]

NOBODY = np.uint32(0xFFFFFFFF)
"""Partner of a place that is still empty."""
LOWEST = float(np.finfo(np.float32).min)
"""No LLR is lower; what is no pair has -inf."""
LEAST_WAITING, MOST_WAITING = 1 << 16, 1 << 20
"""Candidates that are not worth sorting yet, and those that take memory for nothing."""
FEW = 8
"""Columns are cut out of a tile if at most one in so many has something new."""


class Pairs(NamedTuple):
    """Pairs in columns: numbers of rows and of columns, and LLRs."""

    rows: Numbers
    columns: Numbers
    llrs: Float32

    def take(self, which: slice | Index) -> "Pairs":
        """Some of the pairs."""
        return Pairs(self.rows[which], self.columns[which], self.llrs[which])


def joined(parts: list[Pairs]) -> Pairs:
    """Pairs one after the other."""
    if len(parts) == 1:
        return parts[0]
    empty = np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty(0, np.float32)
    return Pairs(*(np.concatenate(column) for column in zip(empty, *parts, strict=True)))


class Best:
    """The best of each of `count` rows; in a triangle a column is a row too."""

    def __init__(self, count: int, top_k: int, least: float = -np.inf) -> None:
        self.top_k = top_k
        self.least = np.full(count, np.clip(least, LOWEST, -LOWEST), np.float32)
        """From which LLR on a pair may still be among the best. It only rises, so that a worker
        that reads an old value keeps too much and never too little."""
        self._llrs = np.full((count, top_k), -np.inf, np.float32)
        self._partners = np.full((count, top_k), NOBODY, np.uint32)
        self._waiting: list[Pairs] = []
        self._n_waiting = 0
        # At so many a row has about k new ones: it is sorted whenever its partners have doubled.
        self._enough = max(LEAST_WAITING, min(count * top_k // 2, MOST_WAITING))

    def candidates(self, tile: Tile, llrs: Float32, triangle: bool) -> Pairs:
        """What of a tile may be among the best of its rows and, in a triangle, of its columns.

        What is no pair has the LLR -inf.
        """
        found = [self._of_rows(tile, llrs)]
        if triangle:
            # First as columns: the partners of these have the lower numbers.
            found.insert(0, self._of_columns(tile, llrs))
        return joined(found)

    def _of_rows(self, tile: Tile, llrs: Float32) -> Pairs:
        least = self.least[tile.row : tile.row_end]
        # Most rows have nothing new in a tile, which its maxima tell sooner than all its LLRs.
        above = np.flatnonzero(llrs.max(axis=1) >= least)
        chosen = llrs[above]
        least = _raised(least[above], chosen, self.top_k)
        flat = np.flatnonzero(chosen >= least[:, None])
        row, column = np.divmod(flat, llrs.shape[1])
        return _numbered(above[row] + tile.row, column + tile.column, chosen.reshape(-1)[flat])

    def _of_columns(self, tile: Tile, llrs: Float32) -> Pairs:
        least = self.least[tile.column : tile.column_end]
        above = np.flatnonzero(llrs.max(axis=0) >= least)
        if len(above) * FEW > len(least):
            above, chosen = np.arange(len(least)), llrs
        else:
            chosen = np.take(llrs, above, axis=1)
        least = least[above]
        if (least <= LOWEST).any():
            least = _raised(least, np.ascontiguousarray(chosen.T), self.top_k)
        flat = np.flatnonzero(chosen >= least)
        row, column = np.divmod(flat, max(len(above), 1))
        return _numbered(above[column] + tile.column, row + tile.row, chosen.reshape(-1)[flat])

    def add(self, found: Pairs) -> None:
        """Take in the candidates of a tile; tiles come in the order of the grid."""
        if len(found.rows):
            self._waiting.append(found)
            self._n_waiting += len(found.rows)
        if self._n_waiting >= self._enough:
            self._settle()

    def _settle(self) -> None:
        """Rank what waits together with what was kept, row by row."""
        if not self._n_waiting:
            return
        new = joined(self._waiting)
        self._waiting, self._n_waiting = [], 0
        still = np.flatnonzero(new.llrs >= self.least[new.rows])
        order = still[np.argsort(new.rows[still], kind="stable")]
        new = new.take(order)
        touched, starts, counts = np.unique(new.rows, return_index=True, return_counts=True)
        # Rows of few new pairs together, then those of more: a matrix is as wide as its widest.
        edges = [0, *(self.top_k * 4**step for step in range(17))]
        for fewest, most in zip(edges[:-1], edges[1:], strict=True):
            some = np.flatnonzero((counts > fewest) & (counts <= most))
            if len(some):
                self._rank(touched[some], new, starts[some], counts[some])

    def _rank(self, rows: Numbers, new: Pairs, starts: Index, counts: Index) -> None:
        """Rank these rows: row i has the new pairs from starts[i] on, counts[i] of them."""
        width = int(counts.max())
        places = np.minimum(starts[:, None] + np.arange(width), len(new.rows) - 1)
        missing = np.arange(width) >= counts[:, None]
        llrs = np.concatenate(
            [self._llrs[rows], np.where(missing, np.float32(-np.inf), new.llrs[places])], axis=1
        )
        partners = np.concatenate(
            [self._partners[rows], np.where(missing, NOBODY, new.columns[places])], axis=1
        )
        # Stable: of equal LLRs those that came first, which have the lower numbers, stay first.
        order = np.argsort(-llrs, axis=1, kind="stable")[:, : self.top_k]
        self._llrs[rows] = np.take_along_axis(llrs, order, axis=1)
        self._partners[rows] = np.take_along_axis(partners, order, axis=1)
        self.least[rows] = np.maximum(self.least[rows], self._llrs[rows, -1])

    def finished(self) -> Pairs:
        """The best of each row, rows in order, the best first."""
        self._settle()
        there = self._partners != NOBODY
        rows = np.repeat(np.arange(len(there), dtype=np.uint32), there.sum(axis=1))
        return Pairs(rows, self._partners[there], self._llrs[there])


def _raised(least: Float32, llrs: Float32, top_k: int) -> Float32:
    """The limits of rows, and no lower than the k-th best of these LLRs of theirs.

    Only where there is no limit yet: later ones are seldom raised by it.
    """
    if llrs.shape[1] <= top_k or not (least <= LOWEST).any():
        return least
    place = llrs.shape[1] - top_k
    return np.maximum(least, np.partition(llrs, place, axis=1)[:, place])


def _numbered(rows: Index, columns: Index, llrs: Float32) -> Pairs:
    return Pairs(rows.astype(np.uint32), columns.astype(np.uint32), llrs)


def merged_best(parts: Iterable[Pairs], count: int, top_k: int) -> Pairs:
    """The best of each row from the lists of parts, in the order of the parts."""
    best = Best(count, top_k)
    for pairs in parts:
        best.add(pairs)
    return best.finished()
