"""The SQLite connection behind a gallery: one per process, through interrupts, threads and forks.

Ctrl-C may come between any two steps, so nothing here rests on the end of a context manager written
in Python: a transaction is undone where it was begun, and what is left in spite of that is undone
by the next user of the connection.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.database.forks import watch, watched
from dcaplda.runtime.values import shown

BUSY_SECONDS = 60.0
OTHERS_SECONDS = 5.0
"""For which other users of a file within this process are waited for."""
LOG_BYTES = 64 << 20
TRIES = 100
"""Of an action in whose middle handlers of signals use the same gallery."""

Result = TypeVar("Result")


class Connection:
    """A file, and the connection to it where there is one."""

    def __init__(self, path: str | Path) -> None:
        self.path = checked_path(path)
        self.lock = threading.RLock()
        """Held while the file is used; whoever keeps a copy in memory guards it with this."""
        self.opened = 0
        """How often the file was connected to; SQLite's numbers mean something only within one."""
        # A relative name means the same file wherever the process goes.
        self.file = os.path.abspath(self.path)
        self._identity: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        """The file by which users of the log know of each other, as this connection found it."""
        self._connection: sqlite3.Connection | None = None
        self._second: sqlite3.Connection | None = None
        """Empties the log, and does not wait for readers."""
        self._closed = False
        watch(self)  # SQLite forbids carrying a connection into a forked child

    def use(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Act with the connection of this process, one thread at a time, with errors in words."""
        with self.lock:
            if self._closed:
                raise GalleryError(f"{self.path}: the gallery was closed; open it again")
            for _ in range(TRIES):
                try:
                    return action(self._ready())
                except sqlite3.Error as error:
                    if self._closed or not _was_disconnected(error):
                        raise self._in_words(error) from None
                except UnicodeDecodeError:  # of what SQLite says about a damaged name
                    raise self._in_words(sqlite3.DatabaseError("not text")) from None
                # A handler of signals used the gallery in the middle of this, which closed the
                # connection and so undid what was not finished: once more.
            raise GalleryError(f"{self.path}: handlers of signals leave it no time; try again")

    def _ready(self) -> sqlite3.Connection:
        """The connection, in no transaction, to the file that was opened first."""
        if self._identity is None:
            self._identity = _identity(self.file)
        elif self._identity != _identity(self.file):
            # What was written now would go to a file that nobody can open again.
            raise GalleryError(
                f"{self.path}: was removed or replaced while it was open; open it again"
            )
        if self._connection is not None and self._connection.in_transaction:
            # An interrupt left it so, or this is a handler of signals in the middle of something.
            _undo(self._connection)
            self.disconnect()  # whoever was in the middle notices, and starts again
        if self._connection is not None and self._log_is_lost():
            self._disconnect_all()
        if self._connection is None:
            connection = _connect(self.file)
            self.opened += 1
            self._connection = connection
        return self._connection

    def _log_is_lost(self) -> bool:
        """Whether others took the log away: what was written to it now would be nowhere.

        A process that opens and closes the file by itself, to copy it say, takes SQLite's locks
        away from its own connections; whoever else closes the gallery then takes himself for the
        last one.
        """
        found = _identity(f"{self.file}-shm")
        if self._log is None:
            self._log = found
        return found != self._log

    def _disconnect_all(self) -> None:
        """Close all connections of this process to the file: they share one view of the log."""
        for it in watched():
            if not isinstance(it, Connection) or it.file != self.file:
                continue
            if not it.lock.acquire(timeout=OTHERS_SECONDS):
                raise GalleryError(f"{self.path}: others took its log away; open it again")
            try:
                it.disconnect()
            finally:
                it.lock.release()

    def _in_words(self, error: sqlite3.Error) -> GalleryError:
        text = " ".join(str(error).split())
        if "locked" in text or "busy" in text:
            return GalleryError(
                f"{self.path}: another process has been writing for more than "
                f"{BUSY_SECONDS:g} s; try again later"
            )
        if isinstance(error, sqlite3.OperationalError | sqlite3.DataError):
            return GalleryError(f"{self.path}: {text}")
        return GalleryError(f"{self.path}: damaged or not a gallery ({text}); restore a copy")

    def emptied_log(self, seconds: float) -> bool:
        """Take all out of the write-ahead log; False if others read it for longer than `seconds`.

        By a connection of its own, since the usual one waits for a minute.
        """
        last = time.monotonic() + seconds
        while True:
            with self.lock:
                try:
                    if self._second is None:
                        name = f"{Path(self.file).as_uri()}?mode=rw"  # never a new file
                        self._second = sqlite3.connect(
                            name, 0.0, isolation_level=None, check_same_thread=False, uri=True
                        )
                    found = self._second.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                    if found[0][0] == 0:
                        return True
                except sqlite3.Error:  # others make or leave it, or a fork closed it
                    self._second = None
            if time.monotonic() >= last:
                return False
            time.sleep(0.01)

    def disconnect(self) -> None:
        """Close the connection; the next use opens another."""
        with self.lock:
            self._log = None
            for name in ("_connection", "_second"):
                connection = getattr(self, name)
                setattr(self, name, None)
                if connection is not None:
                    connection.close()

    def close(self) -> None:
        """Close the file for good."""
        with self.lock:
            self._closed = True
            self.disconnect()


def checked_path(path: str | Path) -> str:
    """The name of a file: SQLite takes some names for a place in memory, lost at the end."""
    try:
        name = os.fsdecode(path)
        os.fsencode(name)
    except Exception:  # no name at all, or none that a file can have
        name = ""
    if name in ("", ":memory:") or "\0" in name:
        raise GalleryError(f"gallery {shown(path)}: names no file; name one to keep it in")
    return name


def transaction(connection: sqlite3.Connection, change: Callable[[], object]) -> None:
    """Make a change that is on the disk when this returns, or has no effect."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        change()
        connection.execute("COMMIT")
    except BaseException:
        _undo(connection)
        raise


def snapshot(connection: sqlite3.Connection, look: Callable[[sqlite3.Cursor], Result]) -> Result:
    """What `look` finds, all of one moment; it may leave a query of the cursor unfinished."""
    cursor = connection.cursor()
    try:
        cursor.execute("BEGIN")
        return look(cursor)
    finally:
        _undo(connection, cursor)  # nothing was written


def _undo(connection: sqlite3.Connection, cursor: sqlite3.Cursor | None = None) -> None:
    """End a transaction, where there is one, without effect."""
    try:
        if cursor is not None:
            cursor.close()  # a query that is not finished keeps the log from being emptied
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.ProgrammingError as error:
        if not _was_disconnected(error):
            raise


def _was_disconnected(error: sqlite3.Error) -> bool:
    return isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error)


def patiently(action: Callable[[], Result]) -> Result:
    """Try again while others make the same gallery.

    SQLite waits for a writer, but not for a process that turns a new file's journal into a log:
    there it says at once that the database is locked.
    """
    last = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > last:
                raise
            time.sleep(0.01)


def _connect(file: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")
    # What is removed is overwritten with zeros.
    connection.execute("PRAGMA secure_delete = ON")
    # A large transaction grows the log to its own size; afterwards it may shrink again.
    connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
    # Every change goes on into the file itself at once: a copy of the file alone, without the log
    # that people do not know of, would else lack up to 16 MB of changes.
    connection.execute("PRAGMA wal_autocheckpoint = 1")
    return connection


def _identity(file: str) -> tuple[int, int] | None:
    """What tells a file from another of the same name; None if there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino
