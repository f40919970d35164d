"""Keeps the file of codes: reads it, makes it where it does not fit, makes it again aside."""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.codes.coded import Coded
from dcaplda.runtime.gallery.codes.faiss_lib import needed
from dcaplda.runtime.gallery.codes.file import erase_codes, read_codes, write_codes
from dcaplda.runtime.gallery.codes.forms import read_forms
from dcaplda.runtime.gallery.codes.making import Stopped, make_codes
from dcaplda.runtime.gallery.stored.rows_file import RowsFile

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

Thing = TypeVar("Thing")


class Keeper:
    """The file of codes of one gallery, and the thread that makes it anew."""

    def __init__(self, backend: "Backend", path: Path, like: Path) -> None:
        needed()
        self._backend = backend
        self._path, self._like = path, like
        self._fresh: Coded | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()

    def codes_of(self, found: RowsFile) -> Coded:
        """The codes of a file of rows, read, or made and written."""
        codes = read_codes(self._path, found)
        if codes is None or codes.conditions != len(read_forms(self._backend).conditions):
            codes = make_codes(self._backend, found, self._stop.is_set)
            with contextlib.suppress(OSError):  # a full disk: they are made again the next time
                write_codes(self._path, codes, self._like)
        return Coded(self._backend, found, codes)

    def erase(self, found: RowsFile, numbers: Iterable[int]) -> None:
        """Overwrite the codes of speakers who were removed."""
        speakers = found.where(numbers).tolist()
        rows = [row for i in speakers for row in range(*found.offsets[[i, i + 1]].tolist())]
        with contextlib.suppress(OSError):  # of a reader; whoever opens the gallery next may
            erase_codes(self._path, rows, found.header.token)

    def fresh(self) -> Coded | None:
        """Codes that were made aside since this was last asked."""
        found, self._fresh = self._fresh, None
        return found

    @property
    def busy(self) -> bool:
        """Whether codes are being made aside."""
        return self._thread is not None and self._thread.is_alive()

    def remake(self, write: Callable[[], RowsFile | None]) -> None:
        """In a thread: write a new file of rows, and make its codes."""

        def work() -> None:
            # A disk that is full, a gallery that was closed: what there is stays good.
            with contextlib.suppress(OSError, GalleryError, Stopped):
                found = write()
                if found is not None:
                    self._fresh = self.codes_of(found)

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()

    def going_on(self, things: Iterable[Thing]) -> Iterator[Thing]:
        """The same, until the gallery is closed."""
        for thing in things:
            if self._stop.is_set():
                raise Stopped
            yield thing

    def wait(self) -> None:
        """Until the codes that are being made are there."""
        if self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Stop making codes."""
        self._stop.set()
        self.wait()
