"""Voiceprints of enrolled speakers in PostgreSQL: the truth that many machines share.

The tables, numbers and checksums are those of a file (`tables.py`), so that a process follows the
changes of others in the same way. Writers take turns at the row of `counters`.
"""

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.extractors.note import ExtractorNote
from dcaplda.runtime.gallery.database.address import parse_address
from dcaplda.runtime.gallery.database.schema import (
    KEEP_EMBEDDINGS,
    MIGRATED,
    VERSION,
    Changes,
    Decision,
    Position,
    check_not_migrated,
    checked_settings,
)
from dcaplda.runtime.gallery.database.storage import Gone, Put, Wanted
from dcaplda.runtime.gallery.database.store import agreed_extractor, check_model, check_storage
from dcaplda.runtime.gallery.database.sums import checked
from dcaplda.runtime.gallery.database.tables import Tables
from dcaplda.runtime.gallery.postgres.connection import ServerConnection, channel, transaction, undo
from dcaplda.runtime.gallery.postgres.schema import GRANTS, SCHEMA
from dcaplda.runtime.values import word

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[Any]

Result = TypeVar("Result")
SPEAKERS_AT_ONCE = 2048
_LOOK = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_VECTORS = ("speakers", "utterances")
_OWNS = (
    "SELECT bool_and(pg_has_role(relowner, 'USAGE')) FROM pg_class "
    "WHERE oid IN ('speakers'::regclass, 'utterances'::regclass)"
)
_MAY_BEGIN_LOG = (
    "SELECT has_function_privilege('pg_switch_wal()', 'EXECUTE') AND NOT pg_is_in_recovery()"
)
# The role pg_checkpoint is there from version 15 on.
_MAY_CHECKPOINT = (
    "SELECT rolsuper OR EXISTS (SELECT 1 FROM pg_roles AS it WHERE it.rolname = 'pg_checkpoint' "
    "AND pg_has_role(it.oid, 'USAGE')) FROM pg_roles WHERE rolname = current_user"
)
_COPIED = ("speakers", "sums", "placed", "utterances", "tags", "decisions")


class PostgresRows:
    """A connection to PostgreSQL as `tables.Database`."""

    def __init__(self, connection: "Connection") -> None:
        self._connection = connection

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Everything that a query finds."""
        cursor = self._connection.execute(query.replace("?", "%s"), values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """A statement for each of many rows, without waiting for each."""
        with self._connection.cursor() as cursor:
            cursor.executemany(statement.replace("?", "%s"), rows)

    def last_number(self, table: str) -> int:
        """The highest number that any row of a table ever had."""
        return int(self.rows(f"SELECT {table} FROM counters")[0][0])

    def used_numbers(self, table: str, last: int) -> None:
        """Rows up to this number were added."""
        self.rows(f"UPDATE counters SET {table} = ?", (last,))


class PostgresStore:
    """A gallery on a server; see storage.Store."""

    def __init__(self, url: str, wanted: Wanted) -> None:
        self._address = parse_address(url)
        self._connection = ServerConnection(self._address)
        self.path = self._connection.path
        self.lock = self._connection.lock
        check_storage(wanted.storage)
        self._asked = -float("inf")
        self._version: tuple[str, int] = ("", -1)
        try:
            found = self._connection.use(lambda it: self._open_or_create(it, wanted))
            settings = checked_settings(found, self.path)
            self._identity = str(found.get("identity"))
            check_model(self.path, settings, wanted)
            self.storage = settings.storage
            self.keep_embeddings = settings.keep_embeddings
            if wanted.keep_embeddings not in (None, self.keep_embeddings):
                self._keep_embeddings(bool(wanted.keep_embeddings))
        except BaseException:
            self.close()
            raise

    def _open_or_create(self, connection: "Connection", wanted: Wanted) -> dict[str, str]:
        if not self._exists(connection):
            if not wanted.create:
                raise GalleryError(f"{self.path}: no such gallery; add speakers to it first")
            transaction(connection, lambda: self._make(connection, wanted))
        # By its whole name: a schema that an account may not use is passed over in a search path.
        query = f'SELECT name, value FROM "{self._address.gallery}".settings'
        return dict(connection.execute(query).fetchall())

    def _exists(self, connection: "Connection") -> bool:
        # A table, not a function of names: those answer from a cache that may be old.
        query = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = 'settings'"
        return connection.execute(query, (self._address.gallery,)).fetchone() is not None

    def _make(self, connection: "Connection", wanted: Wanted) -> None:
        """Make the tables, unless another process was faster."""
        gallery = self._address.gallery
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (channel(gallery),))
        if self._exists(connection):
            return
        connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{gallery}"')
        for statement in SCHEMA:
            connection.execute(statement)
        settings = {
            "version": str(VERSION),
            "fingerprint": wanted.fingerprint,
            "storage": wanted.storage,
            "identity": uuid.uuid4().hex,
            KEEP_EMBEDDINGS: "yes" if wanted.keep_embeddings else "no",
        }
        for row in settings.items():
            connection.execute("INSERT INTO settings VALUES (%s, %s)", row)

    def _keep_embeddings(self, keep: bool) -> None:
        self._write(lambda tables: self._set(tables, KEEP_EMBEDDINGS, "yes" if keep else "no"))
        self.keep_embeddings = keep

    def _set(self, tables: Tables, name: str, value: str) -> None:
        statement = (
            "INSERT INTO settings(name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        tables.database.rows(statement, (name, value))

    def agree_on_extractor(self, told: ExtractorNote | None) -> ExtractorNote | None:
        """The extractor of the speakers here: the first that was told; another one is refused."""
        query = "SELECT value FROM settings WHERE name = 'extractor'"
        found = self._connection.use(lambda it: it.execute(query).fetchone())
        if found is None and told is not None and self._may_write():
            statement = "INSERT INTO settings VALUES ('extractor', %s) ON CONFLICT DO NOTHING"
            self._connection.use(lambda it: it.execute(statement, (told.fingerprint,)))
            found = self._connection.use(lambda it: it.execute(query).fetchone())
        return agreed_extractor(self.path, None if found is None else str(found[0]), told)

    def _may_write(self) -> bool:
        query = "SELECT has_table_privilege('settings', 'INSERT')"
        return self._connection.use(lambda it: it.execute(query).fetchone()) == (True,)

    def change(self, gone: Gone, put: Put) -> None:
        """Take speakers out and put others in; nobody ever sees a part of it."""
        self._write(lambda tables: tables.change(gone, put))

    def write_tags(self, name: str, tags: Mapping[str, str | None]) -> None:
        """Set tags of a speaker; None takes one away."""
        self._write(lambda tables: tables.write_tags(name, tags))

    def forget_decisions(self, names: Sequence[str]) -> None:
        """Take what was decided on speakers out of the audit log."""
        self._write(lambda tables: tables.forget_decisions(names))

    def note(self, decisions: Sequence[Decision]) -> None:
        """Add to the audit log; writers of speakers are not waited for.

        If the connection breaks in the middle of its commit, a decision may be there twice.
        """
        self._connection.use(lambda it: transaction(it, lambda: self._tables(it).note(decisions)))

    def _write(self, change: Callable[[Tables], object]) -> None:
        """A change that survives when this returns, or has no effect; done once.

        `change` returns how many speakers there are more, if there are.
        """
        token = uuid.uuid4().hex

        def attempt(connection: "Connection") -> None:
            def act() -> None:
                # First, for its lock: whoever wrote before is done, our own last try as well.
                moved = "UPDATE counters SET change = change + 1 RETURNING change"
                number = connection.execute(moved).fetchone()
                there = "SELECT 1 FROM writes WHERE token = %s"
                if connection.execute(there, (token,)).fetchone():
                    return
                self._check_place(connection)
                more = change(self._tables(connection))
                if isinstance(more, int) and more:
                    connection.execute("UPDATE counters SET count = count + %s", (more,))
                connection.execute("DELETE FROM writes WHERE moment < now() - interval '1 day'")
                connection.execute("INSERT INTO writes(token) VALUES (%s)", (token,))
                tell = (channel(self._address.gallery), str(number[0] if number else 0))
                connection.execute("SELECT pg_notify(%s, %s)", tell)

            transaction(connection, act)

        self._connection.use(attempt)

    def _check_place(self, connection: "Connection") -> None:
        """Refuse to change a gallery that is another one by now, or that went elsewhere."""
        query = "SELECT name, value FROM settings WHERE name IN ('identity', %s)"
        found = dict(connection.execute(query, (MIGRATED,)).fetchall())
        self._check_identity(found.get("identity"))
        check_not_migrated(found.get(MIGRATED), self.path)

    def _check_identity(self, found: Any) -> None:
        if found != self._identity:
            raise GalleryError(f"{self.path}: was replaced while it was open; open it again")

    def _tables(self, connection: "Connection") -> Tables:
        return Tables(PostgresRows(connection), self.path)

    def look(self, look: Callable[[Tables], Result]) -> Result:
        """What is found in the tables at one moment."""
        return self._connection.use(
            lambda it: transaction(it, lambda: look(self._tables(it)), _LOOK)
        )

    def data_version(self) -> object:
        """The number of the last change; with a lag, what the server told of it by itself.

        Whoever listens is told of every change while the connection lasts; after that, and at
        least every `lag` seconds, the number is asked for, so that nothing is missed.
        """
        lag = self._address.lag
        if lag and time.monotonic() - self._asked < lag and self._nothing_told():
            return self._version
        self._version = self._connection.use(self._ask)
        self._asked = time.monotonic()
        return self._version

    def _ask(self, connection: "Connection") -> tuple[str, int]:
        query = "SELECT value, change FROM settings, counters WHERE name = 'identity'"
        found = connection.execute(query).fetchone()
        self._check_identity(found and found[0])
        assert found is not None
        return str(found[0]), int(found[1])

    def _nothing_told(self) -> bool:
        with self.lock:
            connection = self._connection.alive()
            if connection is None:
                return False
            try:
                return not any(True for _ in connection.notifies(timeout=0, stop_after=1))
            except Exception:  # broken: whoever asks next will say how
                self._connection.disconnect()
                return False

    def read_changes(self, since: Position, take: Callable[[Changes], Result]) -> Result:
        """Hand over what happened after `since`, as of one moment; returns what comes back."""

        def read(connection: "Connection") -> Result:
            try:
                connection.execute(_LOOK)
                return take(self._changes(connection, since))
            finally:
                undo(connection)

        return self._connection.use(read)

    def _changes(self, connection: "Connection", since: Position) -> Changes:
        rows = PostgresRows(connection).rows
        ((count, last),) = rows("SELECT count, speakers FROM counters")
        ((step,),) = rows("SELECT coalesce(max(step), 0) FROM removals")
        behind = last < since.number or step < since.step
        removed = rows(
            "SELECT number FROM removals WHERE step > ? AND number <= ?", (since.step, since.number)
        )
        places = dict(rows("SELECT number, place FROM placed WHERE number > ?", (since.number,)))
        connection.execute(
            "DECLARE new_speakers NO SCROLL CURSOR FOR "
            "SELECT speakers.number, id, voiceprints, crc FROM speakers "
            "LEFT JOIN sums ON sums.number = speakers.number "
            f"WHERE speakers.number > {int(since.number)} ORDER BY speakers.number"
        )
        return Changes(
            now=Position(max(since.number, last), step),
            speakers=checked(_chunks(connection), places, self.path),  # type: ignore[arg-type]
            removed=[number for (number,) in removed],
            places=places,  # type: ignore[arg-type]
            # A server that was set back to an earlier day: nothing that was read before counts.
            n_speakers=-1 if behind else count,
        )

    def scrub(self, wait: bool) -> None:
        """Write the tables with vectors anew, without what was removed, and let go of the old log.

        VACUUM alone marks room as free and leaves the bytes there. The log is begun anew where the
        account may ask for that; whether old segments are deleted or used again (`wal_recycle`),
        archives and replicas are the server's affair.
        """
        if wait:
            self._connection.use(self._rewrite)

    def _rewrite(self, connection: "Connection") -> None:
        if connection.execute(_OWNS).fetchone() != (True,):
            raise GalleryError(
                f"{self.path}: they are removed, but what was there is still in the server's "
                "files, which only the owner of the gallery may write anew (Gallery.scrub)"
            )
        for table in _VECTORS:
            connection.execute(f"VACUUM (FULL) {table}")
        if connection.execute(_MAY_BEGIN_LOG).fetchone() == (True,):
            connection.execute("SELECT pg_switch_wal()")
        if connection.execute(_MAY_CHECKPOINT).fetchone() == (True,):
            connection.execute("CHECKPOINT")

    def beside(self) -> str:
        """In a folder that only this account reads, by what the gallery is known by for ever."""
        folder = Path(self._address.files or _usual_folder()).expanduser().absolute()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = folder / self._identity
            # Whose permissions the files get.
            owner.touch(mode=0o600, exist_ok=True)
        except OSError as error:
            raise GalleryError(
                f"{self.path}: no files can be kept in {folder} ({error.strerror}); name another "
                "folder (&files=...)"
            ) from None
        return str(owner)

    def grant(self, role: str, kind: str) -> None:
        """Let an account search and verify, or change speakers too."""
        word(role, "role")
        if kind not in GRANTS or '"' in role:
            raise GalleryError(f"{self.path}: '{kind}' for '{role}': expected search or enrol")
        names = {"gallery": self._address.gallery, "role": role}

        def granted(connection: "Connection") -> None:
            for statement in GRANTS[kind]:
                connection.execute(statement.format(**names))
            # Whoever does not own the tables gets a warning only.
            query = "SELECT has_table_privilege(%s, 'speakers', %s)"
            asked = (role, "INSERT" if kind == "enrol" else "SELECT")
            if connection.execute(query, asked).fetchone() != (True,):
                raise GalleryError(
                    f"{self.path}: this account may not do that; its owner grants it"
                )

        self._connection.use(lambda it: transaction(it, lambda: granted(it)))

    def backup(self, target: str) -> None:
        """A copy in a file of SQLite, as of one moment."""
        from dcaplda.runtime.gallery.database.copying import write_copy

        def read(connection: "Connection") -> None:
            found = dict(connection.execute("SELECT name, value FROM settings").fetchall())
            with contextlib.ExitStack() as stack:
                write_copy(target, found, self._all_rows(connection, stack))

        self._connection.use(lambda it: transaction(it, lambda: read(it), _LOOK))

    def _all_rows(
        self, connection: "Connection", stack: contextlib.ExitStack
    ) -> Iterator[tuple[str, list[str], list[tuple[Any, ...]]]]:
        """Tables, the names of their columns, and rows, some at a time."""
        for table in _COPIED:
            cursor = stack.enter_context(connection.cursor(name=f"copy_{table}"))
            cursor.execute(f"SELECT * FROM {table} ORDER BY 1", binary=True)
            for rows in iter(lambda it=cursor: it.fetchmany(SPEAKERS_AT_ONCE), []):  # type: ignore[misc]
                yield table, [column.name for column in cursor.description or ()], rows

    def finish(self, name: str | Path) -> None:
        """Give a gallery that a migration made its name; it is closed afterwards."""
        target = parse_address(str(name)).gallery
        statement = f'ALTER SCHEMA "{self._address.gallery}" RENAME TO "{target}"'
        self._connection.use(lambda it: it.execute(statement))
        self.close()

    def forget_origins(self) -> None:
        """Nothing is brought here any more."""
        self._write(lambda tables: tables.database.rows("DELETE FROM origins"))

    def retire(self, target: str, last: Callable[[Position], bool]) -> bool:
        """Refuse further changes, if `last(position)`, called while nobody can write, says so."""
        done = [False]

        def mark(tables: Tables) -> None:
            done[0] = done[0] or last(tables.position())
            if done[0]:
                self._set(tables, MIGRATED, target)

        self._write(mark)
        return done[0]

    def close(self) -> None:
        """Let go of the server."""
        self._connection.close()


def _usual_folder() -> Path:
    """Where programs of this account keep what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dcaplda"


def _chunks(connection: "Connection") -> Iterator[list[tuple[Any, ...]]]:
    fetch = f"FETCH {SPEAKERS_AT_ONCE} FROM new_speakers"
    return iter(lambda: connection.execute(fetch, binary=True).fetchall(), [])
