"""A string of bytes as a sequence of decisions: what to damage, where, and how.

Coverage-guided engines change bytes and keep what reaches new code; here every byte decides
something, so they work on the structure of a file and not on its letters. The same bytes give the
same file.
"""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Choices:
    """Decisions taken from bytes; after the last one all of them are the first possibility."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        if self._at >= len(self._data):
            return 0
        self._at += 1
        return self._data[self._at - 1]

    def below(self, limit: int) -> int:
        """A number from 0 to limit - 1."""
        if limit <= 1:
            return 0
        value, span = self.byte(), 256
        while span < limit:
            value, span = value * 256 + self.byte(), span * 256
        return value % limit

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def chance(self, of: int = 2) -> bool:
        """True in one of so many cases."""
        return self.below(of) == of - 1

    def bytes(self, most: int) -> bytes:
        return bytes(self.byte() for _ in range(1 + self.below(most)))

    def times(self, most: int) -> range:
        """1 to `most` rounds."""
        return range(1 + self.below(most))
