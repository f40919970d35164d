"""How to compute a fixed list of pairs out of thin products, planned once, run many times.

A list that fills much of its enrolments x tests rectangle is computed as tiles of the whole
rectangle, of which the wanted places are taken; a sparse one pair by pair. Either way memory
stays bounded.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dcaplda.train.model.forms import Factors, compose

# A pair by itself costs about this many times its place in a rectangle: its rows are gathered
# from all over memory, while the product of a tile runs at the processor's full rate.
SPARSE_COST = 64
TILE_VALUES = 1 << 19
PAIRS_AT_ONCE = 1 << 13


@dataclass(frozen=True)
class _Tile:
    """Enrolments `rows` against all tests; `places` are wanted, as pairs `start..stop`."""

    rows: Tensor
    places: Tensor
    start: int
    stop: int


@dataclass(frozen=True)
class PairPlan:
    """Pairs (enroll, test) of rows; results come in the order in which they were given."""

    n_pairs: int
    tiles: tuple[_Tile, ...]
    """Empty for a sparse list."""
    test_rows: Tensor
    """Unique tests of the tiles; for a sparse list, the test of each pair."""
    enroll_rows: Tensor
    """Unique enrolments of a sparse list."""
    enroll_index: Tensor
    """Which of them each pair of a sparse list has."""
    unsort: Tensor | None
    """Place in the sorted pairs of each given pair; None where the order is the same."""

    def tensors(self) -> list[Tensor]:
        """All of the plan: equal tensors mean the same pairs."""
        parts = [part for tile in self.tiles for part in (tile.rows, tile.places)]
        parts += [self.test_rows, self.enroll_rows, self.enroll_index]
        return [*parts, *([] if self.unsort is None else [self.unsort])]

    @classmethod
    def make(
        cls, enroll: NDArray[np.int64], test: NDArray[np.int64], device: torch.device
    ) -> "PairPlan":
        """Plan for pairs of rows of the same source."""

        def tensor(values: NDArray[np.int64]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(device)

        enrolls, enroll_index = np.unique(enroll, return_inverse=True)
        tests, test_index = np.unique(test, return_inverse=True)
        n_pairs = len(enroll)
        if len(enrolls) * len(tests) > SPARSE_COST * n_pairs:
            return cls(n_pairs, (), tensor(test), tensor(enrolls), tensor(enroll_index), None)
        place = enroll_index * len(tests) + test_index
        order = np.argsort(place, kind="stable")
        place = place[order]
        height = max(1, TILE_VALUES // len(tests))
        tiles = []
        for first in range(0, len(enrolls), height):
            start, stop = np.searchsorted(
                place, [first * len(tests), (first + height) * len(tests)]
            )
            tiles.append(
                _Tile(
                    tensor(enrolls[first : first + height]),
                    tensor(place[start:stop] - first * len(tests)),
                    int(start),
                    int(stop),
                )
            )
        unsort = None
        if np.any(np.diff(order) < 0):
            inverse = np.empty_like(order)
            inverse[order] = np.arange(n_pairs)
            unsort = tensor(inverse)
        none = tensor(np.empty(0, np.int64))
        return cls(n_pairs, tuple(tiles), tensor(tests), none, none, unsort)

    def values(self, factors: list[Factors]) -> Tensor:
        """The model's LLR of each pair, from the factors of its forms; (n_pairs,)."""
        results = factors[0].right.new_empty(self.n_pairs)
        if not self.tiles:
            lefts = [f.left_of(self.enroll_rows) for f in factors]
            for first in range(0, self.n_pairs, PAIRS_AT_ONCE):
                part = slice(first, first + PAIRS_AT_ONCE)
                e, t = self.enroll_index[part], self.test_rows[part]
                values = [
                    torch.linalg.vecdot(left[e], f.right[t])
                    for left, f in zip(lefts, factors, strict=True)
                ]
                results[part] = compose(values)[0]
            return results
        rights = [f.right[self.test_rows].T for f in factors]
        for tile in self.tiles:
            values = [
                torch.mm(f.left_of(tile.rows), right).view(-1)[tile.places]
                for f, right in zip(factors, rights, strict=True)
            ]
            results[tile.start : tile.stop] = compose(values)[0]
        return results if self.unsort is None else results[self.unsort]
