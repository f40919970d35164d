"""Whole numbers for ids, by a guess that is checked: lists name the same few ids all the time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint32]
SLOT_BITS = 20
MOST_GUESSED = 1 << 16
"""Ids up to which guessing pays; with more, too many would share a slot."""
LEAST_GUESSED = 10_000
"""Rows from which it pays."""


@dataclass
class IdTable:
    """Whole numbers for the ids of all files of a set; equal ids get equal numbers.

    A guess is the last id whose hash begins with the same bits. It is compared with the id itself,
    so nothing rests on hashes; where it was wrong, a dictionary knows. Comparing costs a third of
    looking up.
    """

    code_of: dict[str, int] = field(default_factory=dict)
    _guesses: Codes | None = field(default=None, repr=False)
    """Number to be tried for each value of the first bits of a hash."""
    _column: Any = field(default=None, repr=False)
    """The ids that can be guessed, as a polars column in the order of their numbers."""

    @property
    def names(self) -> list[str]:
        """The ids in the order of their numbers."""
        return list(self.code_of)

    def codes(self, column: Any) -> Codes:
        """Numbers of a polars string column without nulls; new ids are added."""
        if self._column is None or len(column) < LEAST_GUESSED:
            found = self._looked_up(column)
            self._prepare()
            return found
        assert self._guesses is not None
        found = self._guesses[_slots(column)]
        wrong = ~self.equal(found, column)
        if wrong.any():
            found[wrong] = self._looked_up(column.filter(wrong))
            self._prepare()
        return found

    def equal(self, codes: Codes, column: Any) -> NDArray[np.bool_]:
        """Whether the ids of a column are those of the numbers, row by row."""
        if self._column is None:
            return np.zeros(len(column), bool)
        found: NDArray[np.bool_] = (self._column.gather(codes) == column).to_numpy()
        return found

    def _looked_up(self, column: Any) -> Codes:
        import polars as pl

        words = column.cast(pl.Categorical)
        unique = words.unique()
        local = unique.to_physical().to_numpy()
        lookup = np.zeros(int(local.max()) + 1 if local.size else 0, np.uint32)
        table = self.code_of
        lookup[local] = [table.setdefault(name, len(table)) for name in unique.to_list()]
        found: Codes = lookup[words.to_physical().to_numpy()]
        return found

    def _prepare(self) -> None:
        """Let ids that are new be guessed from now on."""
        import polars as pl

        known = 0 if self._column is None else len(self._column)
        if known == len(self.code_of) or len(self.code_of) > MOST_GUESSED:
            return
        self._column = pl.Series(self.names, dtype=pl.String)
        if self._guesses is None:
            self._guesses = np.zeros(1 << SLOT_BITS, np.uint32)
        fresh = np.arange(known, len(self.code_of), dtype=np.uint32)
        self._guesses[_slots(self._column[known:])] = fresh


def _slots(column: Any) -> NDArray[np.uint64]:
    found: NDArray[np.uint64] = column.hash().to_numpy() >> np.uint64(64 - SLOT_BITS)
    return found
