"""What a gallery's file holds: tables, versions, and the shapes of what goes in and comes out.

Version 1 knew speakers of one model, version 2 of several places too, version 3 keeps utterances,
tags and decisions. A gallery of before is read as it is, and becomes one of version 3 with the
first change, in the same transaction. Triggers count the speakers in the settings, so that a file
of which a part is missing is noticed.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dcaplda.runtime.errors import GalleryError

APPLICATION_ID = 0x64636147  # "dcaG", so that `file` and we recognise a gallery
FIRST_VERSION, VERSION = 1, 3
"""That can be read, and that is written."""
PAGE_BYTES = 16384
"""A large page holds a dozen voiceprints, which makes opening a gallery faster."""
SPEAKERS_AT_ONCE = 512
"""Speakers fetched at once when a gallery is opened."""
STORAGES = ("float32", "float16")

SCHEMA = (
    "CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # AUTOINCREMENT: a number is never used again, not even the last one.
    "CREATE TABLE speakers(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
    "warnings TEXT, voiceprints BLOB NOT NULL, way TEXT)",
    "CREATE TABLE removals(step INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL)",
)
MIGRATED, KEEP_EMBEDDINGS, SWEPT = "migrated", "keep_embeddings", "swept"
"""Where the speakers went; whether embeddings are stored; whether free pages are empty."""
COUNT = "speakers"
"""The setting that says how many speakers there are; galleries of before get it when written to."""
COUNT_SCHEMA = (
    f"INSERT INTO settings SELECT '{COUNT}', count(*) FROM speakers",
    *(
        f"CREATE TRIGGER IF NOT EXISTS speaker_{name} AFTER {event} ON speakers BEGIN "
        f"UPDATE settings SET value = CAST(value AS INTEGER) {step} WHERE name = '{COUNT}'; END"
        for name, event, step in (("added", "INSERT", "+ 1"), ("removed", "DELETE", "- 1"))
    ),
)
LIFE_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS placed(number INTEGER PRIMARY KEY, place TEXT NOT NULL)",
    "CREATE TABLE utterances(number INTEGER PRIMARY KEY AUTOINCREMENT, speaker TEXT NOT NULL, "
    "seconds REAL, norm REAL, moment REAL, session INTEGER, heard INTEGER NOT NULL, "
    "source TEXT NOT NULL, warnings TEXT, voiceprint BLOB, embedding BLOB, crc INTEGER NOT NULL)",
    "CREATE INDEX utterances_of ON utterances(speaker)",
    "CREATE TABLE tags(speaker TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
    "PRIMARY KEY (name, value, speaker)) WITHOUT ROWID",
    "CREATE INDEX tags_of ON tags(speaker)",
    "CREATE TABLE origins(speaker TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE decisions(number INTEGER PRIMARY KEY AUTOINCREMENT, moment REAL NOT NULL, "
    "kind TEXT NOT NULL, speaker TEXT NOT NULL, decision TEXT NOT NULL, llr REAL, threshold REAL, "
    "posterior REAL, prior REAL, cost_miss REAL, cost_fa REAL, seconds REAL, model TEXT NOT NULL)",
)
"""What version 3 has more than those before."""

Row = tuple[int, str, bytes]
"""Number, id and the bytes of the voiceprints of a speaker."""


class UtteranceRow(NamedTuple):
    """What is kept of an utterance, as it is stored."""

    number: int | None
    """None: a new one."""
    seconds: float | None
    norm: float | None
    """Length of the embedding."""
    moment: float | None
    """Seconds since 1970 (UTC)."""
    session: int | None
    heard: int
    """Utterances that this stands for."""
    source: str
    warnings: str | None
    """JSON."""
    voiceprint: bytes | None
    """float32; None where the speaker has a row of its own for each utterance."""
    embedding: bytes | None
    """float32."""


class Entry(NamedTuple):
    """What is kept of a speaker."""

    data: bytes
    warnings: tuple[str, ...]
    place: str = ""
    """Fingerprint of the adapted model that made the voiceprints; empty: the gallery's own."""
    way: str = ""
    """How several utterances were taken together; empty: not known."""
    utterances: tuple[UtteranceRow, ...] = ()
    tags: Mapping[str, str] | None = None
    """None: as they are."""
    origin: int | None = None
    """The number that it had in the gallery from which a migration brings it."""


class Kept(NamedTuple):
    """A speaker as it is at the moment: every change gives it another number."""

    number: int
    entry: Entry


class Decision(NamedTuple):
    """A line of the audit log: what was decided, and on what; no vectors."""

    moment: float
    """Seconds since 1970 (UTC)."""
    kind: str
    """`verify` or `identify`."""
    speaker: str
    """Who was asked about; of an identification the best speaker, named or not."""
    decision: str
    """`accept` or `reject`."""
    llr: float | None
    threshold: float
    """Of a verification the LLR, of an identification the probability that was needed."""
    posterior: float
    prior: float
    cost_miss: float
    cost_fa: float
    seconds: float | None
    model: str
    """Fingerprint."""


@dataclass(frozen=True)
class Position:
    """How far a process has read: the last speaker and the last removal it knows of."""

    number: int = 0
    step: int = 0


class Changes(NamedTuple):
    """What happened since a position."""

    now: Position
    speakers: Iterator[list[Row]]
    """Those that are there, in the order of their numbers, some at a time."""
    removed: list[int]
    places: dict[int, str]
    """Place of those speakers who are of another place than the gallery's own."""
    n_speakers: int | None
    """Speakers that the file says to have; None if it does not say."""


class Settings(NamedTuple):
    """What a gallery says of itself."""

    fingerprint: str
    storage: str
    keep_embeddings: bool = False


def read_settings(connection: sqlite3.Connection, path: str) -> Settings:
    """The settings, if this version can read such a gallery."""
    return checked_settings(dict(connection.execute("SELECT name, value FROM settings")), path)


def checked_settings(found: Mapping[Any, Any], path: str) -> Settings:
    """What the settings say, if this version can read such a gallery."""
    damaged = GalleryError(f"{path}: its settings are damaged; restore a copy")
    version = _whole(found.get("version"))
    if version is None or version < FIRST_VERSION:
        raise damaged
    if version > VERSION:
        raise GalleryError(
            f"{path}: format version {version} is newer than this dcaplda reads ({VERSION}); "
            "upgrade dcaplda"
        )
    fingerprint, storage = found.get("fingerprint"), found.get("storage")
    counted = COUNT not in found or _whole(found[COUNT]) is not None
    if not isinstance(fingerprint, str) or storage not in STORAGES or not counted:
        raise damaged
    return Settings(fingerprint, storage, found.get(KEEP_EMBEDDINGS) == "yes")


def check_not_migrated(target: Any, path: str) -> None:
    """Refuse to change a gallery whose speakers went to another one."""
    if target is not None:
        raise GalleryError(f"{path}: was migrated to '{target}'; change that one")


def _whole(text: Any) -> int | None:
    """A number of the settings, which are text; None for anything else."""
    plain = isinstance(text, str) and text.isascii() and text.isdigit() and len(text) < 19
    return int(text) if plain else None


def read_count(connection: sqlite3.Connection) -> int | None:
    """How many speakers the settings say there are; None where they do not."""
    query = "SELECT value FROM settings WHERE name = ?"
    found = connection.execute(query, (COUNT,)).fetchone()
    return None if found is None else _whole(found[0])


def miscounted(path: str) -> GalleryError:
    """What is wrong with a gallery whose parts are not of one moment."""
    return GalleryError(
        f"{path}: has other speakers than its settings count; it was copied while it was written, "
        "or altered: restore a copy"
    )


def count_from_now_on(connection: sqlite3.Connection) -> None:
    """Let a gallery of before count its speakers too."""
    if read_count(connection) is None:
        for statement in COUNT_SCHEMA:
            connection.execute(statement)


def read_warnings(text: Any, name: str, path: str) -> tuple[str, ...]:
    """The warnings of a speaker, stored as JSON."""
    try:
        found = [] if text is None else json.loads(text)
    except (ValueError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
        raise GalleryError(f"{path}: the warnings of '{name}' are damaged; restore a copy")
    return tuple(found)


def has_places(connection: sqlite3.Connection) -> bool:
    """Whether there is, or was, a speaker of another place."""
    query = "SELECT count(*) FROM sqlite_schema WHERE name = 'placed'"
    return bool(connection.execute(query).fetchone()[0])


def read_places(connection: sqlite3.Connection, which: str, number: int) -> dict[int, str]:
    """Places of speakers whose number is as `which` says."""
    if not has_places(connection):
        return {}
    query = f"SELECT number, place FROM placed WHERE number {which}"
    return dict(connection.execute(query, (number,)))


def has_life(connection: sqlite3.Connection) -> bool:
    """Whether it is a gallery of version 3."""
    query = "SELECT count(*) FROM sqlite_schema WHERE name = 'utterances' AND type = 'table'"
    return bool(connection.execute(query).fetchone()[0])


def upgrade(connection: sqlite3.Connection, path: str) -> None:
    """Before a change: make a gallery of before one of this version, in the same transaction."""
    query = "SELECT value FROM settings WHERE name = ?"
    found = connection.execute(query, (MIGRATED,)).fetchone()
    check_not_migrated(found[0] if found else None, path)
    count_from_now_on(connection)
    if has_life(connection):
        return
    connection.execute("ALTER TABLE speakers ADD COLUMN way TEXT")
    for statement in LIFE_SCHEMA:
        connection.execute(statement)
    connection.execute("UPDATE settings SET value = ? WHERE name = 'version'", (str(VERSION),))
