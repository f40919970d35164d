"""Voiceprints of enrolled speakers in an SQLite file: what survives a crash.

One row per speaker, numbered in the order in which they came and never renumbered; what was
removed is noted, so that a process can ask for everything that changed since it last looked.
SQLite's write-ahead log lets readers go on while one process writes, and every acknowledged
change is on the disk (synchronous=FULL).
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.extractors.note import ExtractorNote
from dcaplda.runtime.gallery.connection import Connection, patiently, snapshot, transaction
from dcaplda.runtime.gallery.schema import (
    APPLICATION_ID,
    COUNT_SCHEMA,
    PAGE_BYTES,
    SCHEMA,
    SPEAKERS_AT_ONCE,
    STORAGES,
    VERSION,
    Changes,
    Entry,
    Position,
    Settings,
    count_from_now_on,
    has_places,
    read_count,
    read_places,
    read_settings,
    read_warnings,
    write_place,
)
from dcaplda.runtime.gallery.sums import (
    SUMS_SCHEMA,
    check_index,
    check_sum,
    checked,
    columns,
    write_sum,
)

Result = TypeVar("Result")


class GalleryStore:
    """The file of a gallery; safe to use from many threads and around a fork."""

    def __init__(
        self, path: str | Path, fingerprint: str, storage: str, create: bool, parent: str = ""
    ) -> None:
        """`parent` is the model that this one was adapted from, for what is said of its gallery."""
        self._connection = Connection(path)
        self.path = self._connection.path
        self.lock = self._connection.lock
        """Held while the file is used; whoever keeps a copy in memory guards it with this."""
        if not create and not os.path.isfile(self._connection.file):
            raise GalleryError(f"{self.path}: no such gallery; add speakers to it first")
        if storage not in STORAGES:
            raise GalleryError(f"storage = '{storage}': expected {' or '.join(STORAGES)}")
        try:
            settings = self._connection.use(
                lambda it: patiently(lambda: self._open_or_create(it, fingerprint, storage, create))
            )
            self._check_model(settings, fingerprint, parent)
        except BaseException:
            self.close()
            raise
        self.storage = settings.storage

    def _open_or_create(
        self, connection: sqlite3.Connection, fingerprint: str, storage: str, create: bool
    ) -> Settings:
        """Check what the file says of itself, or write that into an empty one."""
        if _application(connection) != APPLICATION_ID:
            self._check_empty(connection, create)
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            settings = {"version": VERSION, "fingerprint": fingerprint, "storage": storage}
            transaction(connection, lambda: _make(connection, settings))
        # Only now: a gallery is never a file whose contents are all in its log.
        connection.execute("PRAGMA journal_mode = WAL")
        return read_settings(connection, self.path)

    def _check_empty(self, connection: sqlite3.Connection, create: bool) -> None:
        """Before anything is written into a file that may be somebody else's."""
        if connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            # Another process may have just made the gallery.
            if _application(connection) == APPLICATION_ID:
                return
            raise GalleryError(f"{self.path}: an SQLite file, but not a gallery; name another")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            raise GalleryError(
                f"{self.path}: has nothing in it; what it had was in '{self.path}-wal', which is "
                "not there: copy both files, or remove this one"
            )
        if not create:
            raise GalleryError(f"{self.path}: is empty, not a gallery; name another")

    def _check_model(self, settings: Settings, fingerprint: str, parent: str) -> None:
        if parent and settings.fingerprint == parent:
            raise GalleryError(
                f"{self.path}: holds voiceprints of the model that this one was adapted from; "
                "enrol again from stored embeddings, move them by Gallery.adapt, or open it with "
                "that model and give this one as one of its places"
            )
        if settings.fingerprint != fingerprint:
            raise GalleryError(
                f"{self.path}: was made with another model ({settings.fingerprint[:12]}, this "
                f"one is {fingerprint[:12]}); open it with its own model or enrol again"
            )

    def agree_on_extractor(self, told: ExtractorNote | None) -> ExtractorNote | None:
        """The extractor of the speakers here: the first that was told; another one is refused."""
        query = "SELECT value FROM settings WHERE name = 'extractor'"

        def agreed(connection: sqlite3.Connection) -> str | None:
            found = connection.execute(query).fetchone()
            if found is None and told is not None:
                row = ("extractor", told.fingerprint)
                statement = "INSERT OR IGNORE INTO settings VALUES (?, ?)"
                transaction(connection, lambda: connection.execute(statement, row))
                found = connection.execute(query).fetchone()
            return None if found is None else str(found[0])

        found = self._connection.use(agreed)
        if found is None:
            return None
        if told is not None and found != told.fingerprint:
            raise GalleryError(
                f"{self.path}: holds speakers of extractor {found[:12]}, not of "
                f"{told.fingerprint[:12]} ({told.place}); enrol again, or use that one"
            )
        return told or ExtractorNote(found, "", self.path)

    def add(self, speakers: Iterable[tuple[str, Entry]]) -> None:
        """Store speakers by their ids, all of them or none."""
        # Before the transaction: what makes them may take its time, or use this gallery.
        packed = list(speakers)

        def added(connection: sqlite3.Connection) -> None:
            for name, entry in packed:
                self._insert(connection, name, entry)

        self._write(added)

    def remove(self, names: Iterable[str]) -> None:
        """Forget speakers, all of them or none."""

        def removed(connection: sqlite3.Connection) -> None:
            for name in names:
                self._delete(connection, name)

        self._write(removed)

    def replace(self, name: str, entry: Entry) -> None:
        """Give a speaker new voiceprints; nobody ever sees both or neither."""

        def replaced(connection: sqlite3.Connection) -> None:
            self._delete(connection, name)
            self._insert(connection, name, entry)

        self._write(replaced)

    def _write(self, change: Callable[[sqlite3.Connection], None]) -> None:
        """A change that is on the disk when this returns, or has no effect."""

        def counted(connection: sqlite3.Connection) -> None:
            count_from_now_on(connection)
            for statement in SUMS_SCHEMA:
                connection.execute(statement)
            change(connection)

        self._connection.use(lambda it: transaction(it, lambda: counted(it)))

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
        write_sum(connection, cursor.lastrowid, name, data, place)

    def _delete(self, connection: sqlite3.Connection, name: str) -> None:
        cursor = connection.execute("SELECT number FROM speakers WHERE id = ?", (name,))
        found = cursor.fetchone()
        if found is None:
            raise GalleryError(f"{self.path}: there is no speaker '{name}'")
        connection.execute("DELETE FROM speakers WHERE number = ?", found)
        connection.execute("DELETE FROM sums WHERE number = ?", found)
        connection.execute("INSERT INTO removals(number) VALUES (?)", found)
        if has_places(connection):
            connection.execute("DELETE FROM placed WHERE number = ?", found)

    def get(self, name: str) -> Entry | None:
        """What is kept of a speaker; None if there is no such speaker."""

        def found(cursor: sqlite3.Cursor) -> Entry | None:
            wanted, tables = columns(cursor.connection)
            query = f"SELECT warnings, {wanted} FROM {tables} WHERE id = ?"
            kept = cursor.execute(query, (name,)).fetchone()
            if kept is None:
                return None
            warnings, *row = kept
            number, _, data, _ = row
            place = read_places(cursor.connection, "= ?", number).get(number, "")
            check_sum(row, place, self.path)
            return Entry(data, read_warnings(warnings, name, self.path), place)

        return self._connection.use(lambda it: snapshot(it, found))

    @property
    def file(self) -> str:
        """The file, wherever the process goes."""
        return self._connection.file

    def read(self, query: Callable[[sqlite3.Cursor], Result]) -> Result:
        """What a query finds, all of one moment."""
        return self._connection.use(lambda it: snapshot(it, query))

    def data_version(self) -> tuple[int, int]:
        """Something that changes when another process has changed the file."""

        def found(connection: sqlite3.Connection) -> tuple[int, int]:
            version = connection.execute("PRAGMA data_version").fetchone()[0]
            return self._connection.opened, version

        return self._connection.use(found)

    def read_changes(self, since: Position, take: Callable[[Changes], Result]) -> Result:
        """Hand over what happened after `since`, as of one moment; returns what comes back."""
        return self._connection.use(
            lambda it: snapshot(it, lambda cursor: take(_changes(cursor, since, self.path)))
        )

    def close(self) -> None:
        """Close the file for good."""
        self._connection.close()


def _application(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def _make(connection: sqlite3.Connection, settings: dict[str, object]) -> None:
    """Make the tables, unless another process was faster."""
    if _application(connection) == APPLICATION_ID:
        return
    for statement in SCHEMA:
        connection.execute(statement)
    connection.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
    for statement in (*COUNT_SCHEMA, *SUMS_SCHEMA):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _changes(cursor: sqlite3.Cursor, since: Position, path: str) -> Changes:
    """What happened; the speakers are read from the cursor as they are asked for."""
    connection = cursor.connection
    if since == Position():
        check_index(connection, path)
    removed = connection.execute(
        "SELECT number FROM removals WHERE step > ? AND number <= ?", (since.step, since.number)
    ).fetchall()
    (step,) = connection.execute("SELECT max(step) FROM removals").fetchone()
    (number,) = connection.execute("SELECT max(number) FROM speakers").fetchone()
    wanted, tables = columns(connection)
    cursor.execute(
        f"SELECT {wanted} FROM {tables} WHERE speakers.number > ? ORDER BY speakers.number",
        (since.number,),
    )
    places = read_places(connection, "> ?", since.number)
    chunks = iter(lambda: cursor.fetchmany(SPEAKERS_AT_ONCE), [])
    return Changes(
        now=Position(max(since.number, number or 0), step or 0),
        speakers=checked(chunks, places, path),
        removed=[number for (number,) in removed],
        places=places,
        n_speakers=read_count(connection),
    )
