"""Memory of a gallery with codes: the file of rows stays where it is, who came since is here."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.blocks import Block, Filled, VoiceprintBlocks
from dcaplda.runtime.gallery.memory import Memory
from dcaplda.runtime.gallery.schema import Changes
from dcaplda.runtime.gallery.side import block_edges
from dcaplda.runtime.gallery.stored.rows_file import RowsFile

if TYPE_CHECKING:
    from dcaplda.runtime.gallery.codes.coded import Coded


@dataclass(frozen=True, eq=False)
class CodedMemory(Memory):
    """`blocks` are those who came after the file was made, whom every search compares."""

    coded: "Coded" = None  # type: ignore[assignment]
    gone: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Speakers of the file who were removed since, ascending."""

    @property
    def tail(self) -> tuple[Block, ...]:
        """Speakers who came since."""
        return self.blocks[""]

    def __len__(self) -> int:
        """Speakers."""
        return super().__len__() + len(self.coded.rows_file) - len(self.gone)

    def after(self, changes: Changes, version: object) -> "Memory":
        """What is there after changes since `seen`."""
        made = super().after(changes, version)
        gone = self.coded.rows_file.where(changes.removed)
        return replace(made, gone=np.union1d(self.gone, gone)) if len(gone) else made  # type: ignore[call-arg]

    def parts(self) -> dict[str, tuple[Block, ...]]:
        """All speakers; the rows of the file are read when they are used."""
        return {"": (*self._mapped, *self.tail)}

    @cached_property
    def _mapped(self) -> tuple[Block, ...]:
        found = self.coded.rows_file
        holder = VoiceprintBlocks(self.path, self.shape)
        made: list[Block] = []
        for begin, end in block_edges(found, holder.block_rows):
            first = int(found.offsets[begin])
            offsets = found.offsets[begin : end + 1] - first
            rows = found.rows[first : first + int(offsets[-1])]
            ids: Any = _Ids(found, begin, end)
            block = Block(rows, found.numbers[begin:end], ids, offsets, Filled(len(rows)))
            lost = self.gone[np.searchsorted(self.gone, begin) : np.searchsorted(self.gone, end)]
            if len(lost):
                holder.blocks = (block,)
                holder.remove(found.numbers[lost].tolist())
                made += holder.blocks
            else:
                made.append(block)
        return tuple(made)


class _Ids(Sequence[str]):
    """Ids of some speakers of a file, read when they are asked for."""

    def __init__(self, found: RowsFile, begin: int, end: int) -> None:
        self._found, self._begin, self._end = found, begin, end

    def __len__(self) -> int:
        return self._end - self._begin

    @overload
    def __getitem__(self, which: int) -> str: ...

    @overload
    def __getitem__(self, which: slice) -> list[str]: ...

    def __getitem__(self, which: int | slice) -> str | list[str]:
        if isinstance(which, slice):
            return self._found.ids(self._begin, self._end)[which]
        return self._found.ids(self._begin + which, self._begin + which + 1)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self[:])
