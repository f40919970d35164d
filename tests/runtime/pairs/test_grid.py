"""Tiles of all pairs: each pair once, in parts of consecutive tiles, whatever the sizes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcaplda.runtime.backend import VOICEPRINTS_AT_ONCE
from dcaplda.runtime.pairs import grid as module
from dcaplda.runtime.pairs.grid import Grid
from dcaplda.runtime.trials.tiles import COLUMNS, ROWS


@pytest.fixture(scope="module", autouse=True)
def small_tiles():
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("ROWS", 3), ("COLUMNS", 4), ("BLOCK", 12)):
            patch.setattr(module, name, size)
        yield


def test_a_block_holds_whole_tiles_and_whole_calls_of_voiceprints() -> None:
    # As shipped, not as patched: parts are bit for bit one run only then.
    for size in (ROWS, COLUMNS, VOICEPRINTS_AT_ONCE):
        assert 32 * 1024 % size == 0


grids = st.one_of(
    st.builds(lambda n: Grid(n, n, True), st.integers(2, 60)),
    st.builds(Grid, st.integers(1, 50), st.integers(1, 50)),
)


@given(grids, st.integers(1, 20))
def test_parts_have_every_pair_once(grid: Grid, num_parts: int) -> None:
    seen = np.zeros((grid.rows, grid.columns), np.int64)
    edges = [grid.n_tiles * part // num_parts for part in range(num_parts + 1)]
    for first, last in itertools.pairwise(edges):
        tiles = list(grid.tiles(first, last))
        assert len(tiles) == last - first
        rows, columns = grid.needed(first, last)
        for tile in tiles:
            seen[tile.row : tile.row_end, tile.column : tile.column_end] += 1
            assert rows[tile.row // 12] and columns[tile.column // 12]
        assert rows.any() == columns.any() == bool(tiles)
    wanted = np.triu(np.ones_like(seen), 1) if grid.triangle else np.ones_like(seen)
    assert (seen[wanted == 1] == 1).all()
    assert (seen <= 1).all()
    assert grid.n_pairs == wanted.sum()


@given(grids)
def test_rows_meet_their_partners_in_rising_order(grid: Grid) -> None:
    """What ranks equal LLRs without a key (best.py)."""
    met: dict[int, list[int]] = {}
    for tile in grid.tiles(0, grid.n_tiles):
        pairs = itertools.product(
            range(tile.row, tile.row_end), range(tile.column, tile.column_end)
        )
        pairs = [(i, j) for i, j in pairs if i < j or not grid.triangle]
        if grid.triangle:
            for i, j in pairs:
                met.setdefault(j, []).append(i)
        for i, j in pairs:
            met.setdefault(i, []).append(j)
    assert all(partners == sorted(partners) for partners in met.values())
