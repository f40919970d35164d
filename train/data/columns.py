"""Labels of millions of utterances: one table of ids, and a few bytes for every label.

Four dictionaries of the same ids would take an eighth of what embeddings of 512 values do.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = dict[str, int]


@dataclass(frozen=True)
class WordColumn(Mapping[str, str]):
    """The word of each id, by its number among the different ones."""

    rows: Rows
    numbers: NDArray[np.int32]
    words: Sequence[str]

    def __getitem__(self, name: str) -> str:
        return self.words[self.numbers[self.rows[name]]]

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class NumberColumn(Mapping[str, float]):
    """The number of each id."""

    rows: Rows
    numbers: NDArray[np.float64]

    def __getitem__(self, name: str) -> float:
        return float(self.numbers[self.rows[name]])

    def __contains__(self, name: object) -> bool:
        return name in self.rows

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Columns:
    """Makes columns of tables; those with the same ids in the same order share them."""

    def __init__(self) -> None:
        self._rows: Rows = {}

    def words(self, table: Mapping[str, str]) -> WordColumn:
        """A table of words."""
        rows = self._shared(table)
        words, numbers = numbered(table.values(), len(table))
        return WordColumn(rows, numbers, words)

    def numbers(self, table: Mapping[str, float]) -> NumberColumn:
        """A table of numbers."""
        return NumberColumn(self._shared(table), np.fromiter(table.values(), np.float64))

    def _shared(self, table: Mapping[str, Any]) -> Rows:
        """Those of the first table where the ids are the same, as they should be."""
        if len(self._rows) == len(table) and all(map(str.__eq__, self._rows, table)):
            return self._rows
        rows = {name: row for row, name in enumerate(table)}
        self._rows = self._rows or rows
        return rows


def numbered(words: Iterable[str], count: int = -1) -> tuple[list[str], NDArray[np.int32]]:
    """The different words in the order of their coming, and the number of every one."""
    first: dict[str, int] = {}
    numbers = np.fromiter((first.setdefault(word, len(first)) for word in words), np.int32, count)
    return list(first), numbers
