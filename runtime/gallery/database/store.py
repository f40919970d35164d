"""Voiceprints of enrolled speakers in an SQLite file: what survives a crash.

One row per speaker, numbered in the order in which they came and never renumbered; what was
removed is noted, so that a process can ask for everything that changed since it last looked.
SQLite's write-ahead log lets readers go on while one process writes, and every acknowledged
change is on the disk (synchronous=FULL).
"""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.extractors.note import ExtractorNote
from dcaplda.runtime.files import replacing
from dcaplda.runtime.gallery.database.connection import (
    BUSY_SECONDS,
    Connection,
    patiently,
    snapshot,
    transaction,
)
from dcaplda.runtime.gallery.database.schema import (
    APPLICATION_ID,
    COUNT_SCHEMA,
    KEEP_EMBEDDINGS,
    LIFE_SCHEMA,
    MIGRATED,
    PAGE_BYTES,
    SCHEMA,
    SPEAKERS_AT_ONCE,
    STORAGES,
    SWEPT,
    VERSION,
    Changes,
    Decision,
    Position,
    Settings,
    has_life,
    has_places,
    read_count,
    read_places,
    read_settings,
    upgrade,
)
from dcaplda.runtime.gallery.database.storage import Gone, Put, Wanted
from dcaplda.runtime.gallery.database.sums import (
    SUMS_SCHEMA,
    check_index,
    checked,
    columns,
    has_sums,
)
from dcaplda.runtime.gallery.database.tables import Tables

Result = TypeVar("Result")


class SQLiteRows:
    """A connection to SQLite as `tables.Database`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Everything that a query finds."""
        return self._connection.execute(query, values).fetchall()

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """A statement for each of many rows."""
        self._connection.executemany(statement, rows)

    def last_number(self, table: str) -> int:
        """The highest number that any row of a table ever had: AUTOINCREMENT keeps it."""
        found = self.rows("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,))
        return int(found[0][0]) if found else 0

    def used_numbers(self, table: str, last: int) -> None:
        """SQLite has seen them itself."""


class GalleryStore:
    """The file of a gallery; see storage.Store."""

    def __init__(self, path: str | Path, wanted: Wanted) -> None:
        self._connection = Connection(path)
        self.path = self._connection.path
        self.lock = self._connection.lock
        if not wanted.create and not os.path.isfile(self._connection.file):
            raise GalleryError(f"{self.path}: no such gallery; add speakers to it first")
        check_storage(wanted.storage)
        try:
            settings = self._connection.use(
                lambda it: patiently(
                    lambda: self._open_or_create(
                        it, wanted.fingerprint, wanted.storage, wanted.create
                    )
                )
            )
            check_model(self.path, settings, wanted)
            self.storage = settings.storage
            self.keep_embeddings = settings.keep_embeddings
            if wanted.keep_embeddings not in (None, self.keep_embeddings):
                self._keep_embeddings(bool(wanted.keep_embeddings))
        except BaseException:
            self.close()
            raise

    def _keep_embeddings(self, keep: bool) -> None:
        statement = "INSERT OR REPLACE INTO settings VALUES (?, ?)"
        row = (KEEP_EMBEDDINGS, "yes" if keep else "no")
        self._write(lambda it: it.execute(statement, row))
        self.keep_embeddings = keep

    def _open_or_create(
        self, connection: sqlite3.Connection, fingerprint: str, storage: str, create: bool
    ) -> Settings:
        """Check what the file says of itself, or write that into an empty one."""
        if _application(connection) != APPLICATION_ID:
            self._check_empty(connection, create)
            settings = {"version": VERSION, "fingerprint": fingerprint, "storage": storage}
            make_file(connection, settings)
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

        return agreed_extractor(self.path, self._connection.use(agreed), told)

    def change(self, gone: Gone, put: Put) -> None:
        """Take speakers out and put others in; nobody ever sees a part of it."""
        self._write(lambda it: self._tables(it).change(gone, put))
        if gone:
            self.scrub(wait=False)

    def write_tags(self, name: str, tags: Mapping[str, str | None]) -> None:
        """Set tags of a speaker; None takes one away."""
        self._write(lambda it: self._tables(it).write_tags(name, tags))

    def note(self, decisions: Sequence[Decision]) -> None:
        """Add to the audit log."""
        self._write(lambda it: self._tables(it).note(decisions))

    def forget_decisions(self, names: Sequence[str]) -> None:
        """Take what was decided on speakers out of the audit log."""
        self._write(lambda it: self._tables(it).forget_decisions(names))

    def _write(self, change: Callable[[sqlite3.Connection], object]) -> None:
        """A change that is on the disk when this returns, or has no effect."""

        def upgraded(connection: sqlite3.Connection) -> None:
            upgrade(connection, self.path)
            for statement in SUMS_SCHEMA:
                connection.execute(statement)
            change(connection)

        self._connection.use(lambda it: transaction(it, lambda: upgraded(it)))

    def _tables(self, connection: sqlite3.Connection) -> Tables:
        return Tables(
            SQLiteRows(connection),
            self.path,
            has_sums(connection),
            has_places(connection),
            has_life(connection),
        )

    def look(self, look: Callable[[Tables], Result]) -> Result:
        """What is found in the tables at one moment."""
        return self._connection.use(
            lambda it: snapshot(it, lambda cursor: look(self._tables(cursor.connection)))
        )

    def beside(self) -> str:
        """The file, wherever the process goes: others that go with it lie beside it."""
        return self._connection.file

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

    def scrub(self, wait: bool) -> None:
        """Empty the log, in which removed speakers may still be; the file itself has zeros there.

        Versions of before left the content of what they removed in free pages: with `wait`, their
        files are written anew, once.
        """
        if wait and not self._connection.use(_is_swept):
            self._connection.use(lambda it: it.execute("VACUUM"))
            row = (SWEPT, "yes")
            self._write(lambda it: it.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", row))
        if not self._connection.emptied_log(BUSY_SECONDS if wait else 0.0) and wait:
            raise GalleryError(
                f"{self.path}: they are removed, but another process has been reading for more "
                f"than {BUSY_SECONDS:g} s, and what was there is still in the log; scrub it later "
                "(Gallery.scrub)"
            )

    def backup(self, target: str) -> None:
        """A copy as of one moment, while others write; whole or not at all."""
        with replacing(target) as beside:

            def copy(connection: sqlite3.Connection) -> None:
                with contextlib.closing(sqlite3.connect(beside, isolation_level=None)) as made:
                    connection.backup(made)
                    # One file: whoever opens it makes a log of its own.
                    made.execute("PRAGMA journal_mode = DELETE")

            self._connection.use(copy)
            with open(beside, "rb") as stream:
                os.fsync(stream.fileno())

    def finish(self, name: str | Path) -> None:
        """Give a gallery that a migration made its name; it is closed afterwards."""
        self.scrub(wait=True)
        self.close()
        if os.path.lexists(name):
            raise GalleryError(f"{name}: is there already; name a new file")
        os.rename(self._connection.file, name)
        handle = os.open(os.path.dirname(os.path.abspath(name)), os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def forget_origins(self) -> None:
        """Nothing is brought here any more."""
        self._write(lambda it: it.execute("DELETE FROM origins"))

    def retire(self, target: str, last: Callable[[Position], bool]) -> bool:
        """Refuse further changes, if `last(position)`, called while nobody can write, says so."""
        done = [False]

        def mark(connection: sqlite3.Connection) -> None:
            done[0] = last(self._tables(connection).position())
            if done[0]:
                row = (MIGRATED, target)
                connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", row)

        self._write(mark)
        return done[0]

    def grant(self, role: str, kind: str) -> None:
        """A file has no accounts."""
        raise GalleryError(
            f"{self.path}: a file has no accounts; who may write it may enrol (see its permissions)"
        )

    def close(self) -> None:
        """Close the file for good."""
        self._connection.close()


def check_storage(storage: str) -> None:
    """Refuse a kind of numbers that voiceprints are not stored in."""
    if storage not in STORAGES:
        raise GalleryError(f"storage = '{storage}': expected {' or '.join(STORAGES)}")


def check_model(path: str, settings: Settings, wanted: Wanted) -> None:
    """Refuse a gallery of another model."""
    fingerprint, parent = wanted.fingerprint, wanted.parent
    if parent and settings.fingerprint == parent:
        raise GalleryError(
            f"{path}: holds voiceprints of the model that this one was adapted from; "
            "enrol again from stored embeddings, move them by Gallery.adapt, or open it with "
            "that model and give this one as one of its places"
        )
    if settings.fingerprint != fingerprint:
        raise GalleryError(
            f"{path}: was made with another model ({settings.fingerprint[:12]}, this "
            f"one is {fingerprint[:12]}); open it with its own model or enrol again"
        )


def agreed_extractor(
    path: str, found: str | None, told: ExtractorNote | None
) -> ExtractorNote | None:
    """The extractor that a gallery has noted, if it is the one that was told."""
    if found is None:
        return None
    if told is not None and found != told.fingerprint:
        raise GalleryError(
            f"{path}: holds speakers of extractor {found[:12]}, not of "
            f"{told.fingerprint[:12]} ({told.place}); enrol again, or use that one"
        )
    return told or ExtractorNote(found, "", path)


def _is_swept(connection: sqlite3.Connection) -> bool:
    query = "SELECT count(*) FROM settings WHERE name = ?"
    return bool(connection.execute(query, (SWEPT,)).fetchone()[0])


def _application(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])


def make_file(connection: sqlite3.Connection, settings: Mapping[str, object]) -> None:
    """Make the tables of a new file."""
    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    transaction(connection, lambda: _make(connection, settings))


def _make(connection: sqlite3.Connection, settings: Mapping[str, object]) -> None:
    """Make the tables, unless another process was faster."""
    if _application(connection) == APPLICATION_ID:
        return
    for statement in SCHEMA:
        connection.execute(statement)
    rows = {**settings, SWEPT: "yes"}
    connection.executemany("INSERT INTO settings VALUES (?, ?)", rows.items())
    for statement in (*COUNT_SCHEMA, *SUMS_SCHEMA, *LIFE_SCHEMA):
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
