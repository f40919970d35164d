"""What a gallery's file holds: tables, versions, and the shapes of what goes in and comes out.

A gallery has speakers of one model, version 1, until the first speaker comes whose model was
adapted from it: then the table `placed` is made and the version is 2.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

APPLICATION_ID = 0x64636147  # "dcaG", so that `file` and we recognise a gallery
VERSION, PLACED_VERSION = 1, 2
"""Of a gallery with speakers of one model, and with some of other places of it."""
PAGE_BYTES = 16384
"""A large page holds a dozen voiceprints, which makes opening a gallery faster."""
BUSY_SECONDS = 60.0
LOG_BYTES = 64 << 20
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
