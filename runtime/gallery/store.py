"""Voiceprints of enrolled speakers in an SQLite file: what survives a crash.

One row per speaker, numbered in the order in which they came and never renumbered; what was
removed is noted, so that a process can ask for everything that changed since it last looked.
SQLite's write-ahead log lets readers go on while one process writes, and every acknowledged
change is on the disk (synchronous=FULL).
"""

import contextlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.schema import (
    APPLICATION_ID,
    BUSY_SECONDS,
    LOG_BYTES,
    PAGE_BYTES,
    PLACED_VERSION,
    SCHEMA,
    SPEAKERS_AT_ONCE,
    STORAGES,
    VERSION,
    Changes,
    Entry,
    Position,
    has_places,
    read_places,
    write_place,
)

Result = TypeVar("Result")


class GalleryStore:
    """The file of a gallery; safe to use from many threads and around a fork."""

    def __init__(
        self, path: str | Path, fingerprint: str, storage: str, create: bool, parent: str = ""
    ) -> None:
        """`parent` is the model that this one was adapted from, for what is said of its gallery."""
        self.path = str(path)
        self.lock = threading.RLock()
        """Held while the file is used; whoever keeps a copy in memory guards it with this."""
        self._connection: sqlite3.Connection | None = None
        self._connections = 0
        self._closed = False
        if not create and not os.path.isfile(self.path):
            raise GalleryError(f"{self.path}: no such gallery; add speakers to it first")
        _stores.add(self)
        with self._speaking():
            self.storage = self._open_or_create(fingerprint, storage, parent)

    @contextlib.contextmanager
    def _speaking(self) -> Iterator[sqlite3.Connection]:
        """The connection of this process, for one thread at a time, with errors in words."""
        with self.lock:
            if self._closed:
                raise GalleryError(f"{self.path}: the gallery was closed; open it again")
            try:
                if self._connection is None:
                    self._connection = self._connect()
                yield self._connection
            except sqlite3.OperationalError as error:
                if "locked" in str(error) or "busy" in str(error):
                    raise GalleryError(
                        f"{self.path}: another process has been writing for more than "
                        f"{BUSY_SECONDS:g} s; try again later"
                    ) from None
                raise GalleryError(f"{self.path}: {error}") from None
            except sqlite3.DatabaseError as error:
                raise GalleryError(
                    f"{self.path}: damaged or not a gallery ({error}); restore a copy"
                ) from None

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
        # A large transaction grows the log to its own size; afterwards it may shrink again.
        connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
        self._connections += 1
        return connection

    def _open_or_create(self, fingerprint: str, storage: str, parent: str) -> str:
        """Check what the file says of itself, or write that into an empty one."""
        with self._speaking() as connection:
            settings = _patiently(lambda: self._settings(connection, fingerprint, storage))
        if not {"version", "fingerprint", "storage"} <= settings.keys():
            raise GalleryError(f"{self.path}: its settings are damaged; restore a copy")
        version = int(settings["version"])
        if version > PLACED_VERSION:
            raise GalleryError(
                f"{self.path}: format version {version} is newer than this dcaplda reads "
                f"({PLACED_VERSION}); upgrade dcaplda"
            )
        if parent and settings["fingerprint"] == parent:
            raise GalleryError(
                f"{self.path}: holds voiceprints of the model that this one was adapted from; "
                "enrol again from stored embeddings, move them by Gallery.adapt, or open it with "
                "that model and give this one as one of its places"
            )
        if settings["fingerprint"] != fingerprint:
            raise GalleryError(
                f"{self.path}: was made with another model ({settings['fingerprint'][:12]}, this "
                f"one is {fingerprint[:12]}); open it with its own model or enrol again"
            )
        return settings["storage"]

    def _settings(
        self, connection: sqlite3.Connection, fingerprint: str, storage: str
    ) -> dict[str, str]:
        (identity,) = connection.execute("PRAGMA application_id").fetchone()
        if identity != APPLICATION_ID:
            self._create(connection, fingerprint, storage)
        return dict(connection.execute("SELECT name, value FROM settings"))

    def _create(self, connection: sqlite3.Connection, fingerprint: str, storage: str) -> None:
        if storage not in STORAGES:
            raise GalleryError(f"storage = '{storage}': expected {' or '.join(STORAGES)}")
        # Before anything is written into a file that may be somebody else's.
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            # Another process may have just made the gallery.
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return
            raise GalleryError(f"{self.path}: an SQLite file, but not a gallery; name another")
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        with self._writing(connection):
            if connection.execute("PRAGMA application_id").fetchone()[0] == APPLICATION_ID:
                return
            for statement in SCHEMA:
                connection.execute(statement)
            settings = {"version": VERSION, "fingerprint": fingerprint, "storage": storage}
            connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")

    @contextlib.contextmanager
    def _writing(self, connection: sqlite3.Connection) -> Iterator[None]:
        """A transaction that is on the disk when the block is left, or has no effect."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def add(self, speakers: Iterable[tuple[str, Entry]]) -> None:
        """Store speakers by their ids, all of them or none."""
        with self._speaking() as connection, self._writing(connection):
            for name, entry in speakers:
                self._insert(connection, name, entry)

    def remove(self, names: Iterable[str]) -> None:
        """Forget speakers, all of them or none."""
        with self._speaking() as connection, self._writing(connection):
            for name in names:
                self._delete(connection, name)

    def replace(self, name: str, entry: Entry) -> None:
        """Give a speaker new voiceprints; nobody ever sees both or neither."""
        with self._speaking() as connection, self._writing(connection):
            self._delete(connection, name)
            self._insert(connection, name, entry)

    def _insert(self, connection: sqlite3.Connection, name: str, entry: Entry) -> None:
        data, warnings, place = entry
        try:
            cursor = connection.execute(
                "INSERT INTO speakers(id, warnings, voiceprints) VALUES (?, ?, ?)",
                (name, json.dumps(warnings) if warnings else None, data),
            )
        except sqlite3.IntegrityError:
            raise GalleryError(
                f"{self.path}: '{name}' is already there; replace or remove it"
            ) from None
        if place:
            write_place(connection, cursor.lastrowid, place)

    def _delete(self, connection: sqlite3.Connection, name: str) -> None:
        cursor = connection.execute("SELECT number FROM speakers WHERE id = ?", (name,))
        found = cursor.fetchone()
        if found is None:
            raise GalleryError(f"{self.path}: there is no speaker '{name}'")
        connection.execute("DELETE FROM speakers WHERE number = ?", found)
        connection.execute("INSERT INTO removals(number) VALUES (?)", found)
        if has_places(connection):
            connection.execute("DELETE FROM placed WHERE number = ?", found)

    def get(self, name: str) -> Entry | None:
        """What is kept of a speaker; None if there is no such speaker."""
        with self._speaking() as connection:
            cursor = connection.execute(
                "SELECT voiceprints, warnings, number FROM speakers WHERE id = ?", (name,)
            )
            found = cursor.fetchone()
            if found is None:
                return None
            data, warnings, number = found
            places = read_places(connection, "= ?", number)
        return Entry(data, tuple(json.loads(warnings or "[]")), places.get(number, ""))

    def data_version(self) -> tuple[int, int]:
        """Something that changes when another process has changed the file."""
        with self._speaking() as connection:
            # SQLite's number means something within one connection only.
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            return self._connections, version

    @contextlib.contextmanager
    def changes(self, since: Position) -> Iterator[Changes]:
        """What happened after `since`, as of one moment."""
        with self._speaking() as connection:
            connection.execute("BEGIN")
            try:
                removed = connection.execute(
                    "SELECT number FROM removals WHERE step > ? AND number <= ?",
                    (since.step, since.number),
                ).fetchall()
                (step,) = connection.execute("SELECT max(step) FROM removals").fetchone()
                (number,) = connection.execute("SELECT max(number) FROM speakers").fetchone()
                rows = connection.execute(
                    "SELECT number, id, voiceprints FROM speakers WHERE number > ? ORDER BY number",
                    (since.number,),
                )
                now = Position(max(since.number, number or 0), step or 0)
                chunks = iter(lambda: rows.fetchmany(SPEAKERS_AT_ONCE), [])
                places = read_places(connection, "> ?", since.number)
                yield Changes(now, chunks, [number for (number,) in removed], places)
            finally:
                connection.execute("ROLLBACK")  # nothing was written

    def disconnect(self) -> None:
        """Close the connection; the next use opens another."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Close the file for good."""
        with self.lock:
            self.disconnect()
            self._closed = True


# SQLite forbids carrying a connection into a forked child. Every store therefore lets go of
# its connection before a fork, and both sides open a new one when they next need it. The lock
# is held across, so that the child gets neither a lock of another thread nor half a change.
_stores: "weakref.WeakSet[GalleryStore]" = weakref.WeakSet()
_held: list[GalleryStore] = []


def _before_fork() -> None:
    for store in list(_stores):
        store.lock.acquire()
        _held.append(store)
        store.disconnect()


def _after_fork() -> None:
    while _held:
        _held.pop().lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


def _patiently(action: Callable[[], Result]) -> Result:
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
