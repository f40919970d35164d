"""Goes through the tiles of a part and keeps what is asked for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from dcaplda.runtime.pairs.best import Best, Float32, Pairs, joined
from dcaplda.runtime.pairs.grid import Grid, Tile
from dcaplda.runtime.trials.tiles import run_jobs

Compare = Callable[[Tile], Float32]
"""LLRs of a tile's rows with its columns, in memory that may be written to."""
PAIRS_AT_ONCE = 1 << 20
"""Pairs handed on together."""


@dataclass(frozen=True)
class Wanted:
    """Which pairs are kept: LLRs from `min_llr` on, and the `top_k` best of each row (0: all)."""

    top_k: int = 0
    min_llr: float = -np.inf


def kept_pairs(
    compare: Compare,
    grid: Grid,
    tiles: tuple[int, int],
    wanted: Wanted,
    threads: int = 1,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Pairs]:
    """The pairs of tiles[0] to tiles[1] that are wanted, some at a time.

    With `top_k` they come at the end, row by row, the best first; in a triangle every utterance has
    a list of its own, so that a pair may be in two. Without, each pair comes once, in the order of
    the tiles. `progress` is told how many tiles more are done.
    """
    top_k = min(wanted.top_k, grid.partners)
    best = Best(grid.rows, top_k, wanted.min_llr) if top_k else None

    def work(tile: Tile) -> Pairs:
        llrs = compare(tile)
        if grid.triangle and tile.on_diagonal:
            number = np.arange(tile.row, tile.row_end)[:, None]
            llrs[number >= np.arange(tile.column, tile.column_end)] = -np.inf
        if best is None:
            return _above(tile, llrs, wanted.min_llr)
        return best.candidates(tile, llrs, grid.triangle)

    waiting: list[Pairs] = []
    count = 0
    for found in run_jobs(work, grid.tiles(*tiles), threads):
        if progress is not None:
            progress(1)
        if best is not None:
            best.add(found)
            continue
        waiting.append(found)
        count += len(found.rows)
        if count >= PAIRS_AT_ONCE:
            yield joined(waiting)
            waiting, count = [], 0
    yield joined(waiting) if best is None else best.finished()


def _above(tile: Tile, llrs: Float32, least: float) -> Pairs:
    """Pairs of a tile from an LLR on, row by row."""
    if np.isneginf(least) and not np.isneginf(llrs).any():
        flat = np.arange(llrs.size)
    elif not (llrs.max() >= least):
        flat = np.empty(0, np.int64)
    else:
        # An LLR is finite: -inf marks what is no pair.
        flat = np.flatnonzero((llrs >= np.float32(least)) & (llrs > -np.inf))
    row, column = np.divmod(flat, llrs.shape[1])
    return Pairs(
        (row + tile.row).astype(np.uint32),
        (column + tile.column).astype(np.uint32),
        llrs.reshape(-1)[flat],
    )
