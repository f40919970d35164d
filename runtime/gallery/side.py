"""The file of rows beside a gallery's database, from which a large gallery opens at once.

Reading a speaker out of a database costs more than the bytes do. So whoever had to read many of
them leaves them in one piece (`gallery.db-rows`); the next one reads that, and from the database
only what happened since. A file that does not fit the database is made again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.blocks import Block, VoiceprintBlocks
from dcaplda.runtime.gallery.memory import Memory
from dcaplda.runtime.gallery.schema import Position
from dcaplda.runtime.gallery.store import GalleryStore
from dcaplda.runtime.gallery.stored.layout import Kind
from dcaplda.runtime.gallery.stored.rows_file import RowsFile, erase_rows, open_rows
from dcaplda.runtime.gallery.stored.writing import Piece, write_rows

SUFFIX = "-rows"
LEAST = 20_000
"""Speakers from which on a gallery has such a file: fewer are read in a tenth of a second."""
NEWS = 0.1
"""Share of speakers that are not in the file, or not in the gallery any more, to make it anew."""


class SideFile:
    """The file of rows of one gallery."""

    def __init__(self, store: GalleryStore, kind: Kind) -> None:
        self._store = store
        self.kind = kind
        self.path = store.beside(SUFFIX)

    def fitting(self) -> tuple[RowsFile, NDArray[np.int64]] | None:
        """The file, if it is whole and fits the database, and who of it was removed since."""
        found = open_rows(self.path, self.kind)
        if found is None:
            return None
        fit = self._store.fit(position_of(found))
        if fit is None or not found.fits(fit):
            return None
        return found, found.where(fit.removed)

    def load(self, empty: Memory) -> Memory:
        """Memory as of the file; empty if there is none that fits."""
        fitting = self.fitting()
        if fitting is None:
            return empty
        found, gone = fitting
        made = VoiceprintBlocks(empty.path, empty.shape)
        for begin, end in block_edges(found, made.block_rows):
            first = int(found.offsets[begin])
            offsets = found.offsets[begin : end + 1] - first
            made.adopt(
                found.numbers[begin:end].copy(),
                found.ids(begin, end),
                offsets,
                lambda out, first=first: found.read(first, out),  # type: ignore[misc]
            )
            rows = made.blocks[-1].rows[: offsets[-1]]
            if np.setdiff1d(found.altered(begin, end, rows), gone).size:
                return empty  # a bit flipped, or somebody is removed at this moment
        return replace(empty, blocks={"": made.blocks}, seen=position_of(found))

    def keep(self, memory: Memory, known: int) -> bool:
        """Write the speakers in memory, of which `known` were in the file, if that is worth it."""
        count, parts = len(memory), memory.parts()
        if count < LEAST or abs(count - known) < NEWS * count or len(parts) > 1:
            return False
        fit = self._store.fit(memory.seen)
        if fit is None or fit.speakers < count - len(fit.removed):
            return False  # some have no checksums
        try:
            self.write(memory.seen, pieces(parts[""]), *self._store.crcs())
        except OSError:
            return False  # a folder that others own, a full disk: everything works without
        return True

    def write(
        self,
        seen: Position,
        made: Iterator[Piece],
        numbers: NDArray[np.int64],
        crcs: NDArray[np.uint32],
    ) -> None:
        """Write the file of a moment of the database, with checksums of these numbers."""

        def of(asked: NDArray[np.int64]) -> NDArray[np.uint32]:
            # Who is not there any more was removed after that moment, which is noted.
            found = np.minimum(np.searchsorted(numbers, asked), max(len(numbers) - 1, 0))
            return np.where(numbers[found] == asked, crcs[found], 0).astype(np.uint32)

        position, like = (seen.number, seen.step), self._store.beside("")
        write_rows(self.path, self.kind, position, made, of, like)

    def newer(self) -> Memory | None:
        """Memory of a file that was made since; None of this kind, which is made on opening."""
        return None

    def watch(self, memory: Memory) -> None:
        """Look whether the file is still good for what is in memory."""

    def close(self) -> None:
        """Let go of whatever is under way."""

    def erase(self, numbers: Sequence[int]) -> None:
        """Overwrite what the file has of speakers who were removed."""
        try:
            erase_rows(self.path, self.kind, numbers)
        except PermissionError:
            pass  # of a reader; whoever removed them, or opens the gallery next, may
        except OSError:
            self.path.unlink(missing_ok=True)  # what cannot be overwritten


def position_of(found: RowsFile) -> Position:
    """The moment of the database whose speakers a file has."""
    return Position(found.header.number, found.header.step)


def block_edges(found: RowsFile, block_rows: int) -> Iterator[tuple[int, int]]:
    """Speakers of each block: as many as have room."""
    begin, offsets = 0, found.offsets
    while begin < len(found):
        fitting = int(np.searchsorted(offsets, offsets[begin] + block_rows, side="right")) - 1
        yield begin, max(fitting, begin + 1)
        begin = max(fitting, begin + 1)


def pieces(blocks: Sequence[Block]) -> Iterator[Piece]:
    """Blocks as pieces of a file of rows."""
    for block in blocks:
        count = len(block.numbers)
        sizes = np.diff(block.offsets)
        yield Piece(block.numbers, block.ids[:count], sizes, block.rows[: block.used])
