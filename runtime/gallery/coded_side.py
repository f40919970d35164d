"""The files beside a gallery that is searched by codes, and who makes them anew when it has grown.

`gallery.db-rows` has the voiceprints, which stay on the disk, `gallery.db-codes` their codes,
which are read into memory. Speakers who came since are compared with every probe; when they are
too many, a thread makes both files again and the next search goes on with these.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.blocks import VoiceprintBlocks
from dcaplda.runtime.gallery.coded_memory import CodedMemory
from dcaplda.runtime.gallery.codes.coded import Coded
from dcaplda.runtime.gallery.codes.faiss_lib import needed
from dcaplda.runtime.gallery.codes.file import erase_codes, read_codes, write_codes
from dcaplda.runtime.gallery.codes.making import Stopped, make_codes
from dcaplda.runtime.gallery.memory import Memory
from dcaplda.runtime.gallery.schema import Changes, Position
from dcaplda.runtime.gallery.side import SideFile, pieces, position_of
from dcaplda.runtime.gallery.store import GalleryStore
from dcaplda.runtime.gallery.stored.layout import Kind
from dcaplda.runtime.gallery.stored.rows_file import RowsFile, open_rows
from dcaplda.runtime.gallery.stored.writing import Piece

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

SUFFIX = "-codes"
LEAST_CODED = 20_000
"""Speakers from which on there are codes; fewer are compared one and all (bench/codes.py)."""
TAIL = 10_000
NEWS = 0.05
"""Speakers who came or went since, at least and as a share of all, to make the codes again."""


class CodedSide(SideFile):
    """Files of rows and codes of one gallery."""

    def __init__(self, store: GalleryStore, kind: Kind, backend: "Backend") -> None:
        super().__init__(store, kind)
        needed()
        self._backend = backend
        self._codes_path = store.beside(SUFFIX)
        self._empty: Memory | None = None
        self._fresh: CodedMemory | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def load(self, empty: Memory) -> Memory:
        """Memory with codes, made if need be; empty of a gallery that is too small for them."""
        self._empty = empty
        found = self.fitting()
        if found is None or len(found[0]) < LEAST_CODED:
            if not self._stream():
                return empty
            found = self.fitting()
            if found is None:
                raise GalleryError(
                    f"{empty.path}: its speakers have no checksums, which index='codes' needs; "
                    "copy them into a new gallery"
                )
        return self._with_codes(found[0])

    def _with_codes(self, found: RowsFile) -> CodedMemory:
        assert self._empty is not None
        codes = read_codes(self._codes_path, found)
        if codes is None:
            codes = make_codes(self._backend, found, self._stop.is_set)
            write_codes(self._codes_path, codes, self._store.beside(""))
        empty, coded = self._empty, Coded(self._backend, found, codes)
        return CodedMemory(
            empty.path, empty.shape, empty.known, seen=position_of(found), coded=coded
        )

    def _stream(self) -> bool:
        """Write the file of rows out of the database, unless that has only a few speakers."""
        # First: whoever comes between this and the reading is left to be read as news.
        numbers, crcs = self._store.crcs()
        if len(numbers) < LEAST_CODED:
            return False

        def take(changes: Changes) -> None:
            if changes.places:
                raise GalleryError(
                    f"{self._store.path}: has speakers of several places, for which there are no "
                    "codes; open it without index='codes'"
                )
            last = int(numbers[-1])
            seen = Position(last, changes.now.step)
            self.write(seen, self._checked(changes, last), numbers, crcs)

        try:
            self._store.read_changes(Position(), take)
        except OSError as error:
            raise GalleryError(f"{self.path}: cannot be written ({error.strerror})") from None
        return True

    def _checked(self, changes: Changes, last: int) -> Iterator[Piece]:
        """Speakers as they are in the database, with the checks of all that come from a file."""
        assert self._empty is not None
        for rows in changes.speakers:
            made = VoiceprintBlocks(self._empty.path, self._empty.shape)
            made.append([row for row in rows if row[0] <= last])
            yield from pieces(made.blocks)

    def keep(self, memory: Memory, known: int) -> bool:
        """Nothing: the files were made when the gallery was opened."""
        return False

    def erase(self, numbers: list[int]) -> None:  # type: ignore[override]
        """Overwrite rows and codes of speakers who were removed."""
        found = open_rows(self.path, self.kind, check=False)
        super().erase(numbers)
        if found is None:
            return
        speakers = found.where(numbers)
        rows = [r for i in speakers.tolist() for r in range(*found.offsets[[i, i + 1]].tolist())]
        with contextlib.suppress(PermissionError):
            erase_codes(self._codes_path, rows, found.header.token)

    def newer(self) -> Memory | None:
        """Memory with the codes that a thread has made since."""
        fresh, self._fresh = self._fresh, None
        return fresh

    def watch(self, memory: Memory) -> None:
        """Make the codes again, aside, if too many came or went since."""
        if self._thread is not None and self._thread.is_alive():
            return
        if isinstance(memory, CodedMemory):
            coded = len(memory.coded.rows_file)
            news = len(memory.gone) + sum(len(block.numbers) for block in memory.tail)
            if news < max(TAIL, NEWS * coded):
                return
        elif len(memory) < LEAST_CODED or len(memory.parts()) > 1:
            return
        self._thread = threading.Thread(target=self._remake, args=(memory,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the codes that are being made are there."""
        if self._thread is not None:
            self._thread.join()

    def _remake(self, memory: Memory) -> None:
        with contextlib.suppress(OSError, GalleryError, Stopped):
            after, numbers, crcs = 0, np.empty(0, np.int64), np.empty(0, np.uint32)
            if isinstance(memory, CodedMemory):
                tables = memory.coded.rows_file.tables
                numbers, crcs = tables["numbers"], tables["crcs"]
                after = memory.coded.rows_file.header.number
            news = self._store.crcs(after)
            both = np.concatenate([numbers, news[0]]), np.concatenate([crcs, news[1]])
            self.write(memory.seen, self._going_on(pieces(memory.parts()[""])), *both)
            found = self.fitting()
            if found is not None:
                self._fresh = self._with_codes(found[0])

    def _going_on(self, made: Iterator[Piece]) -> Iterator[Piece]:
        for piece in made:
            if self._stop.is_set():
                raise Stopped
            yield piece

    def close(self) -> None:
        """Stop making codes."""
        self._stop.set()
        self.wait()
