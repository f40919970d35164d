"""The tables of all pairs: their utterances, and voiceprints of those that a part needs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.likeness import judge_tables, judge_voiceprints
from dcaplda.bin.common.option_groups import SideTables
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.sides import enrolled_side, need_seconds, report_missing, tested_side
from dcaplda.bin.common.utterances import Source, load
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError, UsageError
from dcaplda.runtime.pairs.grid import BLOCK, Grid, Tile
from dcaplda.runtime.several import refuse_both
from dcaplda.runtime.tables.text_tables import read_durations
from dcaplda.runtime.tables.vectors import vector_ids

Float32 = NDArray[np.float32]
_LACKING = "utterances cannot be compared"
_STRIPS = 64
"""Rows of tiles that are kept prepared."""


@dataclass(frozen=True)
class Table:
    """One side: where its utterances come from, and which of them take part."""

    source: Source
    ids: list[str]
    timed: bool

    def voiceprints(
        self, blocks: NDArray[np.bool_], options: SideTables, backend: Backend, log: Log
    ) -> Float32:
        """Voiceprints of the utterances of some blocks, one block after the other."""
        wanted = self.ids
        if not blocks.all():
            starts = (number * BLOCK for number in np.flatnonzero(blocks))
            wanted = [name for start in starts for name in self.ids[start : start + BLOCK]]
        if not wanted:
            return np.empty((0, backend.info.voiceprint_dim), np.float32)
        found = load(self.source, set(wanted), backend, self.timed, log)
        if found.ids != wanted:
            lost = next(iter(set(wanted) - set(found.ids)), wanted[0])
            raise InputError(
                f"'{self.source.vectors}': '{lost}' cannot be read; parts need every vector of the "
                "table: extract it again, or take it out"
            )
        judge_tables(options, backend.familiarity, [found], log)
        made = found.voiceprints(backend)
        judge_voiceprints(options, backend, self.source.vectors, made, log)
        return made


@dataclass(frozen=True)
class PairTables:
    """Both sides; `columns` is `rows` if every utterance is compared with every other."""

    rows: Table
    columns: Table

    @property
    def grid(self) -> Grid:
        """All pairs."""
        return Grid(len(self.rows.ids), len(self.columns.ids), self.rows is self.columns)

    @property
    def ids(self) -> list[str]:
        """Ids by the numbers of the output: the rows', then the columns' where they are others."""
        both = self.rows is not self.columns
        return self.rows.ids + (self.columns.ids if both else [])

    @property
    def first_column(self) -> int:
        """Number of the first column in `ids`."""
        return 0 if self.rows is self.columns else len(self.rows.ids)

    def comparison(
        self, tiles: tuple[int, int], options: SideTables, backend: Backend, log: Log
    ) -> Callable[[Tile], Float32]:
        """Reads what these tiles need, and gives what compares a tile."""
        row_blocks, column_blocks = self.grid.needed(*tiles)
        if self.rows is self.columns:
            row_blocks = column_blocks = row_blocks | column_blocks
        left = self.rows.voiceprints(row_blocks, options, backend, log)
        right = left
        if self.rows is not self.columns:
            right = self.columns.voiceprints(column_blocks, options, backend, log)
        refuse_both(backend, left, right)
        places = _places(row_blocks), _places(column_blocks)

        # Neighbouring tiles have the same rows.
        @lru_cache(maxsize=_STRIPS)
        def prepared(row: int, row_end: int) -> Float32:
            begin = places[0][row // BLOCK] + row % BLOCK
            return backend.prepared(left[begin : begin + row_end - row])

        def compare(tile: Tile) -> Float32:
            begin = places[1][tile.column // BLOCK] + tile.column % BLOCK
            tests = right[begin : begin + tile.column_end - tile.column]
            return backend.prepared_tile(prepared(tile.row, tile.row_end), tests)

        return compare


def _places(blocks: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where each block begins among the rows of those that are there."""
    return BLOCK * (np.cumsum(blocks) - 1)


def read_tables(options: SideTables, backend: Backend, names: list[str], log: Log) -> PairTables:
    """The tables of one or two names, without their vectors."""
    first = enrolled_side(options, names[0])
    if len(names) == 1:
        table = _table(first, options, backend, log)
        if len(table.ids) < 2:
            raise InputError(f"'{names[0]}': one utterance makes no pair")
        return PairTables(table, table)
    second = tested_side(options, names[1])
    return PairTables(_table(first, options, backend, log), _table(second, options, backend, log))


def _table(source: Source, options: SideTables, backend: Backend, log: Log) -> Table:
    timed = backend.info.uses_durations and not source.are_voiceprints
    for name in (source.vectors, source.durations):
        if name == "-" or name.endswith(":-"):
            raise UsageError(f"'{name}': is read twice, ids first; put it into a file")
    ids = vector_ids(source.vectors)
    if timed:
        need_seconds(source.durations, "--durations=utt2dur")
        seconds = read_durations(source.durations, source.frame_shift)
        missing = {name: source.durations for name in ids if name not in seconds}
        report_missing(missing, _LACKING, options.allow_missing, log)
        ids = [name for name in ids if name not in missing]
    if not ids:
        raise InputError(f"'{source.vectors}': no utterance is left to compare")
    return Table(source, ids, timed)
