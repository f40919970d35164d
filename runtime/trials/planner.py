"""Scores any list of trials: dense tiles where trials lie close together, pairs elsewhere.

Enrolment rows are taken in blocks of a tile's height. A block compares either all its rows
with all tests that it meets, and picks the trials out, or gathers the two sides of each
trial; the counts tell which is cheaper. Matrix products of different sizes round differently,
so sizes and choices follow from the whole list even where only a part of it is scored: the
parts then equal the whole bit for bit. The full matrix is never in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.trials.tiles import COLUMNS, ROWS, Float32, Tile, run_jobs

Index = NDArray[np.int64]

PAIR_COST = 30
"""How many cells of a tile cost as much as one gathered pair (bench/compare.py measures it)."""
PAIRS_AT_ONCE = 256
"""Pairs per call: two sides of so many voiceprints stay in a core's cache."""
STRIP_COLUMNS = 32 * COLUMNS
"""Widest part of a block held at once: 32 MB of LLRs."""


@dataclass(frozen=True)
class Scorers:
    """How to compare voiceprints: tile by tile, or row by row.

    `tile` takes rows that `prepare` made of enrolments.
    """

    tile: Tile
    pairs: Tile
    prepare: Callable[[Float32], Float32] = np.asarray


@dataclass(frozen=True)
class TrialList:
    """Trials as row numbers; `offsets` cuts the enrolment rows into models to average over.

    Model m owns the rows offsets[m] to offsets[m + 1]; `models` numbers models, `tests` rows.
    """

    models: Index
    tests: Index
    offsets: Index

    @property
    def single(self) -> bool:
        """Whether every model is one row."""
        return bool(self.offsets[-1] == len(self.offsets) - 1)


def score_trials(
    scorers: Scorers,
    enroll: Float32,
    test: Float32,
    trials: TrialList,
    part: tuple[int, int],
    threads: int,
    progress: Callable[[int, int], None] | None = None,
) -> Float32:
    """LLRs of the trials part[0] to part[1], in order."""
    llrs = np.empty(part[1] - part[0], dtype=np.float32)

    def work(block: "Block") -> int:
        chosen = block.positions[(block.positions >= part[0]) & (block.positions < part[1])]
        if len(chosen):
            method = _score_dense if block.dense else _score_pairs
            llrs[chosen - part[0]] = method(scorers, enroll, test, trials, block, chosen)
        return len(chosen)

    done = 0
    for count in run_jobs(work, _blocks(trials, len(test)), threads):
        done += count
        if progress is not None and count:
            progress(done, len(llrs))
    return llrs


@dataclass(frozen=True)
class Block:
    """Consecutive models, the places of their trials in the list, and how to score them."""

    first: int
    last: int
    positions: Index
    dense: bool
    columns: Index
    """Tests that the block meets, in order; empty unless dense."""


def _block_edges(offsets: Index) -> Index:
    """Models at which blocks begin: as many whole models as fit the rows of a tile."""
    edges = [0]
    n_models = len(offsets) - 1
    while edges[-1] < n_models:
        fitting = np.searchsorted(offsets, offsets[edges[-1]] + ROWS, side="right") - 1
        edges.append(max(int(fitting), edges[-1] + 1))
    return np.array(edges, dtype=np.int64)


def _blocks(trials: TrialList, n_test: int) -> Iterator[Block]:
    """Cut the list into blocks and choose the cheaper way for each."""
    edges = _block_edges(trials.offsets)
    # Small numbers are sorted by radix, several times faster.
    small = np.uint16 if len(edges) < 1 << 16 else np.int64
    number = np.repeat(np.arange(len(edges) - 1, dtype=small), np.diff(edges))[trials.models]
    if (np.diff(trials.models) < 0).any():
        order = np.argsort(number, kind="stable")
    else:
        order = np.arange(len(number))
    bounds = np.searchsorted(number[order], np.arange(len(edges)), side="left")
    for index, (first, last) in enumerate(zip(edges[:-1], edges[1:], strict=True)):
        positions = order[bounds[index] : bounds[index + 1]]
        if len(positions) == 0:
            continue
        met = np.zeros(n_test, dtype=bool)
        met[trials.tests[positions]] = True
        columns = np.flatnonzero(met)
        rows = int(trials.offsets[last] - trials.offsets[first])
        pairs = len(positions) * rows / (last - first)
        dense = pairs * PAIR_COST > rows * len(columns)
        none = np.empty(0, dtype=np.int64)
        yield Block(int(first), int(last), positions, dense, columns if dense else none)


def _score_dense(
    scorers: Scorers, enroll: Float32, test: Float32, trials: TrialList, block: Block, chosen: Index
) -> Float32:
    offsets = trials.offsets[block.first : block.last + 1]
    rows = enroll[offsets[0] : offsets[-1]]
    starts = offsets[:-1] - offsets[0]
    everything = len(block.columns) == len(test)
    columns = trials.tests[chosen]
    if not everything:
        # A table: bisection among the tests that the block meets was most of the time of a list.
        places = np.empty(len(test), dtype=np.int64)
        places[block.columns] = np.arange(len(block.columns))
        columns = places[columns]
    models = trials.models[chosen] - block.first
    llrs = np.empty(len(chosen), dtype=np.float32)
    for begin in range(0, len(block.columns), STRIP_COLUMNS):
        end = min(begin + STRIP_COLUMNS, len(block.columns))
        inside = (
            slice(None)
            if end - begin == len(block.columns)
            else (columns >= begin) & (columns < end)
        )
        if not len(columns[inside]):
            continue
        side = test[begin:end] if everything else test[block.columns[begin:end]]
        strip = _strip(scorers, rows, side)
        if not trials.single:
            strip = _model_means(strip, starts)
        flat = models[inside] * (end - begin) + (columns[inside] - begin)
        llrs[inside] = strip.reshape(-1)[flat]
    return llrs


def _strip(scorers: Scorers, enroll: Float32, test: Float32) -> Float32:
    """All rows against all tests of a block, tile by tile."""
    strip = np.empty((len(enroll), len(test)), dtype=np.float32)
    for row in range(0, len(enroll), ROWS):
        ready = scorers.prepare(enroll[row : row + ROWS])
        for column in range(0, len(test), COLUMNS):
            cell = slice(row, row + ROWS), slice(column, column + COLUMNS)
            strip[cell] = scorers.tile(ready, test[cell[1]])
    return strip


def _model_means(rows: Float32, starts: Index) -> Float32:
    """Mean over the rows of each model; a model begins at each of `starts`."""
    sizes = np.diff(np.append(starts, len(rows)))
    shape = (-1,) + (1,) * (rows.ndim - 1)
    sums = np.add.reduceat(rows, starts, axis=0)
    return np.divide(sums, sizes.reshape(shape), dtype=np.float32)


def _score_pairs(
    scorers: Scorers, enroll: Float32, test: Float32, trials: TrialList, block: Block, chosen: Index
) -> Float32:
    models, tests = trials.models[chosen], trials.tests[chosen]
    if trials.single:
        return _gathered(scorers.pairs, enroll, test, trials.offsets[models], tests)
    sizes = trials.offsets[models + 1] - trials.offsets[models]
    starts = np.cumsum(sizes) - sizes
    within = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
    rows = np.repeat(trials.offsets[models], sizes) + within
    llrs = _gathered(scorers.pairs, enroll, test, rows, np.repeat(tests, sizes))
    return _model_means(llrs, starts)


def _gathered(pairs: Tile, enroll: Float32, test: Float32, rows: Index, tests: Index) -> Float32:
    """LLRs of pairs of rows, gathered a cache-full at a time, always at the same size."""
    llrs = np.empty(len(rows), dtype=np.float32)
    left = np.zeros((PAIRS_AT_ONCE, enroll.shape[1]), dtype=np.float32)
    right = np.zeros((PAIRS_AT_ONCE, test.shape[1]), dtype=np.float32)
    for begin in range(0, len(rows), PAIRS_AT_ONCE):
        end = min(begin + PAIRS_AT_ONCE, len(rows))
        count = end - begin
        # mode="clip" lets numpy write straight into `out`; the numbers were checked before.
        np.take(enroll, rows[begin:end], axis=0, out=left[:count], mode="clip")
        np.take(test, tests[begin:end], axis=0, out=right[:count], mode="clip")
        llrs[begin:end] = pairs(left, right)[:count]
    return llrs
