"""Files beside a gallery's database: rows, from which it opens at once, and codes of them.

Reading a speaker out of a database costs more than the bytes do. So whoever had to read many of
them leaves them in one piece (`gallery.db-rows`); the next one reads that, and from the database
only what happened since. A file that does not fit the database is made again. It has the speakers
of the gallery's own model; those of other places are read from the database.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import GalleryError, InputError
from dcaplda.runtime.gallery.blocks import Block, VoiceprintBlocks
from dcaplda.runtime.gallery.database.beside import read_crcs, read_fit, read_placed
from dcaplda.runtime.gallery.database.schema import Changes, Position
from dcaplda.runtime.gallery.database.storage import Store, is_server
from dcaplda.runtime.gallery.memory import CodedMemory, Memory
from dcaplda.runtime.gallery.stored.layout import Kind
from dcaplda.runtime.gallery.stored.rows_file import Fit, RowsFile, erase_rows, open_rows
from dcaplda.runtime.gallery.stored.writing import Piece, write_rows
from dcaplda.runtime.values import shown

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.codes.coded import Coded

CODES = "codes"
SUFFIX, CODES_SUFFIX = "-rows", "-codes"
LEAST = 20_000
"""Speakers from which on a gallery has such a file: fewer are read in a tenth of a second."""
NEWS = 0.1
"""Share of speakers that are not in the file, or not in the gallery any more, to make it anew."""
LEAST_CODED = 10_000
"""Speakers from which on there are codes: fewer are compared one and all in 2 ms or less, which is
at most twice what codes take (bench/codes.py --sizes)."""
TAIL, CODED_NEWS = 10_000, 0.05
"""Speakers who came or went, at least and as a share of all, to make codes again."""


class SideFile:
    """The file of rows of one gallery."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self.kind = kind
        self._like = store.beside()
        """Whose permissions the file gets."""
        self.path = Path(self._like + SUFFIX)

    def _fit(self, until: Position) -> Fit | None:
        return self._store.look(lambda tables: read_fit(tables, until))

    def _crcs(self, after: int = 0) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        return self._store.look(lambda tables: read_crcs(tables, after))

    def _with_placed(self, memory: Memory) -> Memory:
        """Memory with the speakers of other places, as of the file or later."""
        # Who was removed after the file's moment is told by the next changes, here or not.
        placed = self._store.look(lambda tables: read_placed(tables, memory.seen.number))
        return replace(memory, blocks=memory.with_placed(*placed))

    def fitting(self) -> tuple[RowsFile, NDArray[np.int64]] | None:
        """The file, if it is whole and fits the database, and who of it was removed since."""
        found = open_rows(self.path, self.kind)
        if found is None:
            return None
        fit = self._fit(position_of(found))
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
        for begin, end in found.cuts(made.block_rows):
            rows = found.rows[found.offsets[begin] : found.offsets[end]]
            if np.setdiff1d(found.altered(begin, end, rows), gone).size:
                return empty  # a bit flipped, or somebody is removed at this moment
        made.adopt(found)
        seen = position_of(found)
        return self._with_placed(replace(empty, blocks={"": made.blocks}, seen=seen))

    def keep(self, memory: Memory, known: int) -> bool:
        """Write the speakers in memory, of which `known` were in the file, if that is worth it."""
        own = memory.parts()[""]
        count = sum(len(block.numbers) for block in own)
        if count < LEAST or abs(len(memory) - known) < NEWS * count:
            return False
        if not os.access(self.path.parent, os.W_OK):
            return False
        fit = self._fit(memory.seen)
        if fit is None or fit.speakers < count - len(fit.removed):
            return False  # some have no checksums
        try:
            self.write(memory.seen, pieces(own), *self._crcs())
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
            if not len(numbers):
                return np.zeros(len(asked), np.uint32)
            found = np.minimum(np.searchsorted(numbers, asked), len(numbers) - 1)
            return np.where(numbers[found] == asked, crcs[found], 0).astype(np.uint32)

        position = (seen.number, seen.step)
        write_rows(self.path, self.kind, position, made, of, Path(self._like))

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
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)  # what cannot be overwritten


class CodedSide(SideFile):
    """Files of rows and codes (`gallery.db-codes`) of a gallery that is searched by codes.

    The rows stay on the disk, the codes are read into memory. Speakers who came since are compared
    with every probe; when they are too many, a thread makes both files again, and the next search
    goes on with these.
    """

    def __init__(self, store: Store, kind: Kind, backend: "Backend") -> None:
        from dcaplda.runtime.gallery.codes.keeper import Keeper

        super().__init__(store, kind)
        self.keeper: Keeper = Keeper(backend, Path(self._like + CODES_SUFFIX), Path(self._like))
        self._empty: Memory | None = None

    def load(self, empty: Memory) -> Memory:
        """Memory with codes, made if need be; empty of a gallery that is too small for them."""
        self._empty = empty
        found = self.fitting()
        if found is None or len(found[0]) < LEAST_CODED:
            if not self._stream(empty):
                return empty
            found = self.fitting()
            if found is None:
                raise GalleryError(
                    f"{empty.path}: was changed too fast to make codes of it; try again"
                )
        return self._with(self.keeper.codes_of(found[0]))

    def _with(self, coded: "Coded") -> Memory:
        assert self._empty is not None
        empty, seen = self._empty, position_of(coded.rows_file)
        made = CodedMemory(empty.path, empty.shape, empty.known, seen=seen, coded=coded)
        return self._with_placed(made)

    def _stream(self, empty: Memory) -> bool:
        """Write the file of rows out of the database, unless that has only a few speakers."""
        # First: whoever comes between this and the reading is left to be read as news.
        numbers, crcs = self._crcs()
        if len(numbers) < LEAST_CODED:
            return False

        def checked(changes: Changes) -> Iterator[Piece]:
            placed = changes.places
            for rows in changes.speakers:
                made = VoiceprintBlocks(empty.path, empty.shape)
                made.append([it for it in rows if it[0] <= numbers[-1] and it[0] not in placed])
                yield from pieces(made.blocks)

        def take(changes: Changes) -> bool:
            if len(numbers) - len(changes.places) < LEAST_CODED:
                return False
            seen = Position(int(numbers[-1]), changes.now.step)
            self.write(seen, checked(changes), numbers, crcs)
            return True

        try:
            return self._store.read_changes(Position(), take)
        except OSError as error:
            raise GalleryError(f"{self.path}: cannot be written ({error.strerror})") from None

    def keep(self, memory: Memory, known: int) -> bool:
        """Nothing: the files were made when the gallery was opened."""
        return False

    def erase(self, numbers: Sequence[int]) -> None:
        """Overwrite rows and codes of speakers who were removed."""
        found = open_rows(self.path, self.kind, check=False)
        super().erase(numbers)
        if found is not None:
            self.keeper.erase(found, numbers)

    def newer(self) -> Memory | None:
        """Memory with the codes that were made aside since."""
        fresh = self.keeper.fresh()
        return None if fresh is None else self._with(fresh)

    def watch(self, memory: Memory) -> None:
        """Make the codes again, aside, if too many came or went since."""
        if not self.keeper.busy and _outgrown(memory):
            self.keeper.remake(lambda: self._rewritten(memory))

    def _rewritten(self, memory: Memory) -> RowsFile | None:
        after, numbers, crcs = 0, np.empty(0, np.int64), np.empty(0, np.uint32)
        if isinstance(memory, CodedMemory):
            tables = memory.coded.rows_file.tables
            numbers, crcs = tables["numbers"], tables["crcs"]
            after = memory.coded.rows_file.header.number
        news = self._crcs(after)
        made = self.keeper.going_on(pieces(memory.parts()[""]))
        both = np.concatenate([numbers, news[0]]), np.concatenate([crcs, news[1]])
        self.write(memory.seen, made, *both)
        found = self.fitting()
        return None if found is None else found[0]

    def close(self) -> None:
        """Stop making codes."""
        self.keeper.close()


def _outgrown(memory: Memory) -> bool:
    """Whether codes should be made, or made again."""
    if not isinstance(memory, CodedMemory):
        return sum(len(block.numbers) for block in memory.parts()[""]) >= LEAST_CODED
    news = len(memory.gone) + sum(len(block.numbers) for block in memory.tail)
    return news >= max(TAIL, CODED_NEWS * len(memory.coded.rows_file))


def check_index(index: str | None) -> None:
    """Refuse an index that there is not."""
    if index not in (None, CODES):
        raise InputError(f"index = {shown(index)}: expected '{CODES}', or None for exact searches")


def side_file(store: Store, backend: "Backend", index: str | None) -> SideFile | None:
    """The files beside a gallery, by the kind of search that it is opened for.

    Of a server's gallery a machine has files only if it is asked for codes.
    """
    if index is None and is_server(store.path):
        return None
    info = backend.info
    kind = Kind(info.fingerprint, store.storage, info.voiceprint_dim)
    return SideFile(store, kind) if index is None else CodedSide(store, kind, backend)


def position_of(found: RowsFile) -> Position:
    """The moment of the database whose speakers a file has."""
    return Position(found.header.number, found.header.step)


def pieces(blocks: Sequence[Block]) -> Iterator[Piece]:
    """Blocks as pieces of a file of rows."""
    for block in blocks:
        count = len(block.numbers)
        sizes = np.diff(block.offsets)
        yield Piece(block.numbers, block.ids[:count], sizes, block.rows[: block.used])
