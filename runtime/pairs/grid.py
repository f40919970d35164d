"""The matrix of all pairs as tiles in one fixed order, cut into parts of consecutive tiles.

Large blocks come first, small tiles within each: a part of consecutive tiles meets few blocks, so
that it holds few voiceprints. Its tiles are those of one run, so its LLRs are too, bit for bit
(matrix products of other sizes round differently).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.trials.tiles import COLUMNS, ROWS

BLOCK = 32 * 1024
"""Rows and columns of a block: a multiple of a tile's size, and of VOICEPRINTS_AT_ONCE, so that
voiceprints are made in the same calls whichever blocks a part has."""


class Tile(NamedTuple):
    """Rows and columns from `row` to `row_end` and `column` to `column_end`."""

    row: int
    row_end: int
    column: int
    column_end: int

    @property
    def on_diagonal(self) -> bool:
        """Whether a row meets its own column, or one before it."""
        return self.column < self.row_end


@dataclass(frozen=True)
class Grid:
    """All pairs of `rows` and `columns`; with `triangle` both are one table, and row < column."""

    rows: int
    columns: int
    triangle: bool = False

    def __post_init__(self) -> None:
        assert not self.triangle or self.rows == self.columns

    @property
    def n_pairs(self) -> int:
        """How many pairs there are."""
        return self.rows * (self.rows - 1) // 2 if self.triangle else self.rows * self.columns

    @property
    def partners(self) -> int:
        """How many each row has; in a triangle everybody but itself."""
        return self.columns - int(self.triangle)

    @property
    def n_tiles(self) -> int:
        """How many tiles there are."""
        return sum(self._count(block) for block in self._blocks())

    def tiles(self, first: int, last: int) -> Iterator[Tile]:
        """The tiles with these numbers, in order."""
        number = 0
        for block in self._blocks():
            count = self._count(block)
            if number + count > first:
                for place, tile in enumerate(self._tiles(block), number):
                    if place >= last:
                        return
                    if place >= first:
                        yield tile
            number += count

    def needed(self, first: int, last: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which blocks of rows and of columns these tiles meet."""
        rows = np.zeros(-(-self.rows // BLOCK), np.bool_)
        columns = np.zeros(-(-self.columns // BLOCK), np.bool_)
        number = 0
        for block in self._blocks():
            count = self._count(block)
            if first < last and number < last and number + count > first:
                rows[block.row // BLOCK] = columns[block.column // BLOCK] = True
            number += count
        return rows, columns

    def _blocks(self) -> Iterator[Tile]:
        for row in range(0, self.rows, BLOCK):
            for column in range(row if self.triangle else 0, self.columns, BLOCK):
                yield Tile(
                    row,
                    min(row + BLOCK, self.rows),
                    column,
                    min(column + BLOCK, self.columns),
                )

    def _count(self, block: Tile) -> int:
        rows = -(-(block.row_end - block.row) // ROWS)
        columns = -(-(block.column_end - block.column) // COLUMNS)
        if self.triangle and block.row == block.column:
            return sum(1 for _ in self._tiles(block))
        return rows * columns

    def _tiles(self, block: Tile) -> Iterator[Tile]:
        for row in range(block.row, block.row_end, ROWS):
            row_end = min(row + ROWS, block.row_end)
            for column in range(block.column, block.column_end, COLUMNS):
                column_end = min(column + COLUMNS, block.column_end)
                # Of the triangle, only tiles with a pair row < column.
                if not self.triangle or column_end > row + 1:
                    yield Tile(row, row_end, column, column_end)
