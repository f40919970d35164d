"""Kept pairs against a full sort of the whole matrix, ties and parts included."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dcaplda.runtime.pairs import best as best_module
from dcaplda.runtime.pairs import grid as grid_module
from dcaplda.runtime.pairs.best import Pairs, joined, merged_best
from dcaplda.runtime.pairs.grid import Grid, Tile
from dcaplda.runtime.pairs.scan import Wanted, kept_pairs


@pytest.fixture(scope="module", autouse=True)
def small_tiles():
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("ROWS", 3), ("COLUMNS", 5), ("BLOCK", 15)):
            patch.setattr(grid_module, name, size)
        patch.setattr(best_module, "LEAST_WAITING", 20)
        yield


def scan(llrs: np.ndarray, triangle: bool, wanted: Wanted, part: int, num_parts: int, threads=1):
    grid = Grid(*llrs.shape, triangle)

    def compare(tile: Tile) -> np.ndarray:
        return llrs[tile.row : tile.row_end, tile.column : tile.column_end].copy()

    tiles = grid.n_tiles * (part - 1) // num_parts, grid.n_tiles * part // num_parts
    return joined(list(kept_pairs(compare, grid, tiles, wanted, threads)))


def by_sorting(llrs: np.ndarray, triangle: bool, wanted: Wanted) -> list[tuple[int, int, float]]:
    """Row after row, LLRs falling, equal ones by the partner's number."""
    found = []
    for row in range(len(llrs)):
        if triangle:
            values = [(llrs[min(row, j), max(row, j)], j) for j in range(len(llrs)) if j != row]
        else:
            values = [(llrs[row, j], j) for j in range(llrs.shape[1])]
        values = [(llr, j) for llr, j in values if llr >= wanted.min_llr]
        values.sort(key=lambda item: (-item[0], item[1]))
        found += [(row, j, llr) for llr, j in values[: wanted.top_k]]
    return found


def listed(pairs: Pairs) -> list[tuple[int, int, float]]:
    return list(zip(pairs.rows.tolist(), pairs.columns.tolist(), pairs.llrs.tolist(), strict=True))


matrices = st.builds(
    lambda rows, columns, triangle, levels, seed: (
        np.random.default_rng(seed)
        .integers(-levels, levels + 1, (rows, rows if triangle else columns))
        .astype(np.float32),
        triangle,
    ),
    st.integers(2, 40),
    st.integers(1, 40),
    st.booleans(),
    # Few levels: LLRs of copies of one recording are equal, and there may be thousands.
    st.sampled_from([0, 1, 3, 1000]),
    st.integers(0, 1000),
)


@given(
    matrices,
    st.integers(1, 8),
    st.sampled_from([-np.inf, -2.0, 0.0, 900.0]),
    st.sampled_from([1, 3, 16]),
)
def test_the_best_are_those_of_a_full_sort_in_any_number_of_parts(
    case, top_k, min_llr, num_parts
) -> None:
    llrs, triangle = case
    wanted = Wanted(top_k, min_llr)
    parts = [scan(llrs, triangle, wanted, part, num_parts) for part in range(1, num_parts + 1)]
    assert listed(merged_best(parts, len(llrs), top_k)) == by_sorting(llrs, triangle, wanted)
    if num_parts == 1:
        assert listed(parts[0]) == by_sorting(llrs, triangle, wanted)


@given(matrices, st.sampled_from([-np.inf, -2.0, 0.0, 900.0]), st.sampled_from([1, 3, 16]))
def test_all_from_an_llr_on_come_once(case, min_llr, num_parts) -> None:
    llrs, triangle = case
    wanted = Wanted(0, min_llr)
    parts = [scan(llrs, triangle, wanted, part, num_parts) for part in range(1, num_parts + 1)]
    whole = scan(llrs, triangle, wanted, 1, 1)
    assert listed(joined(parts)) == listed(whole)
    kept = np.triu(np.ones(llrs.shape, bool), 1) if triangle else np.ones(llrs.shape, bool)
    rows, columns = np.nonzero(kept & (llrs >= min_llr))
    expected = sorted(zip(rows, columns, llrs[rows, columns], strict=True))
    assert sorted(listed(whole)) == expected


def test_threads_change_nothing() -> None:
    llrs = np.random.default_rng(0).integers(-3, 4, (200, 200)).astype(np.float32)
    one, three = (scan(llrs, True, Wanted(4), 1, 1, threads) for threads in (1, 3))
    assert listed(one) == listed(three) == by_sorting(llrs, True, Wanted(4))


def test_progress_counts_tiles() -> None:
    told: list[int] = []
    grid = Grid(20, 20, True)
    zeros = np.zeros((20, 20), np.float32)
    compare = lambda t: zeros[t.row : t.row_end, t.column : t.column_end].copy()  # noqa: E731
    list(kept_pairs(compare, grid, (0, grid.n_tiles), Wanted(1), 1, told.append))
    assert sum(told) == grid.n_tiles


@pytest.mark.parametrize("triangle", [True, False])
def test_more_partners_than_there_are_are_not_held(triangle) -> None:
    """Memory follows the table, not the number that somebody asked for."""
    llrs = np.random.default_rng(0).standard_normal((7, 7)).astype(np.float32)
    wanted = Wanted(10**11, -np.inf)
    found = listed(scan(llrs, triangle, wanted, 1, 1))
    assert found == by_sorting(llrs, triangle, Wanted(100, -np.inf))
    assert len(found) == (7 * 6 if triangle else 7 * 7)


def test_a_limit_beyond_all_llrs_keeps_nothing_without_a_warning() -> None:
    llrs = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert listed(scan(llrs, True, Wanted(2, 1e300), 1, 1)) == []
