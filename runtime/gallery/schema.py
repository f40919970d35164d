"""What a gallery's file holds: tables, versions, and the shapes of what goes in and comes out.

A gallery has speakers of one model, version 1, until the first speaker comes whose model was
adapted from it: then the table `placed` is made and the version is 2. Triggers count the speakers
in the settings, so that a file of which a part is missing is noticed.
"""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from dcaplda.runtime.errors import GalleryError

APPLICATION_ID = 0x64636147  # "dcaG", so that `file` and we recognise a gallery
VERSION, PLACED_VERSION = 1, 2
"""Of a gallery with speakers of one model, and with some of other places of it."""
PAGE_BYTES = 16384
"""A large page holds a dozen voiceprints, which makes opening a gallery faster."""
SPEAKERS_AT_ONCE = 512
"""Speakers fetched at once when a gallery is opened."""
STORAGES = ("float32", "float16")

SCHEMA = (
    "CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # AUTOINCREMENT: a number is never used again, not even the last one.
    "CREATE TABLE speakers(number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, "
    "warnings TEXT, voiceprints BLOB NOT NULL)",
    "CREATE TABLE removals(step INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL)",
)
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
# Made with the first speaker of another place; older versions must not read such a gallery.
PLACED_SCHEMA = (
    "CREATE TABLE placed(number INTEGER PRIMARY KEY, place TEXT NOT NULL)",
    f"UPDATE settings SET value = '{PLACED_VERSION}' WHERE name = 'version'",
)

Row = tuple[int, str, bytes]
"""Number, id and the bytes of the voiceprints of a speaker."""


class Entry(NamedTuple):
    """What is kept of a speaker."""

    data: bytes
    warnings: tuple[str, ...]
    place: str = ""
    """Fingerprint of the adapted model that made the voiceprints; empty: the gallery's own."""


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


def read_settings(connection: sqlite3.Connection, path: str) -> Settings:
    """The settings, if this version can read such a gallery."""
    found = dict(connection.execute("SELECT name, value FROM settings"))
    damaged = GalleryError(f"{path}: its settings are damaged; restore a copy")
    version = _whole(found.get("version"))
    if version is None or version < VERSION:
        raise damaged
    if version > PLACED_VERSION:
        raise GalleryError(
            f"{path}: format version {version} is newer than this dcaplda reads "
            f"({PLACED_VERSION}); upgrade dcaplda"
        )
    fingerprint, storage = found.get("fingerprint"), found.get("storage")
    counted = COUNT not in found or _whole(found[COUNT]) is not None
    if not isinstance(fingerprint, str) or storage not in STORAGES or not counted:
        raise damaged
    return Settings(fingerprint, storage)


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


def write_place(connection: sqlite3.Connection, number: int | None, place: str) -> None:
    """Note the place of a speaker."""
    for statement in () if has_places(connection) else PLACED_SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO placed VALUES (?, ?)", (number, place))
