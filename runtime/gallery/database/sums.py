"""A checksum of every speaker: a bit that flips on a disk is noticed, and not searched with.

SQLite finds pages that are out of order, not values that changed. Galleries of before have no
checksums for their speakers, and versions of before write none; then there is nothing to compare.
"""

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.database.schema import COUNT, miscounted

SUMS_SCHEMA = ("CREATE TABLE IF NOT EXISTS sums(number INTEGER PRIMARY KEY, crc INTEGER NOT NULL)",)
# The number of speakers whom a look for their id does not find: the index lies elsewhere.
_LOST = (
    "SELECT count(*) FROM speakers AS t NOT INDEXED WHERE NOT EXISTS (SELECT 1 FROM speakers AS s "
    "INDEXED BY sqlite_autoindex_speakers_1 WHERE s.id = t.id AND s.number = t.number)"
)
# And whether it knows ids of nobody, as in a copy that was made while the gallery was written.
# How many speakers there are is compared with what the settings say when they are read.
_MORE = (
    "SELECT (SELECT count(*) FROM speakers INDEXED BY sqlite_autoindex_speakers_1 WHERE id >= '') "
    f"<> CAST(value AS INTEGER) FROM settings WHERE name = '{COUNT}'"
)

Stored = Sequence[Any]
"""Number, id, voiceprints and checksum of a speaker, as they are in the file."""


def has_sums(connection: sqlite3.Connection) -> bool:
    """Whether there are checksums of some speakers."""
    query = "SELECT count(*) FROM sqlite_schema WHERE name = 'sums' AND type = 'table'"
    return bool(connection.execute(query).fetchone()[0])


def columns(connection: sqlite3.Connection) -> tuple[str, str]:
    """What to select of a speaker, and from where."""
    if has_sums(connection):
        joined = "speakers LEFT JOIN sums ON sums.number = speakers.number"
        return "speakers.number, id, voiceprints, crc", joined
    return "number, id, voiceprints, NULL", "speakers"


def check_sum(row: Stored, place: str, path: str) -> None:
    """Refuse a speaker who is not as it was written; its warnings are looked at by themselves."""
    number, name, data, crc = row
    if crc is None:
        return
    if isinstance(name, str) and isinstance(data, bytes):
        if crc == speaker_crc(number, name, data, place):
            return
    raise GalleryError(
        f"{path}: the speaker '{str(name)[:40]}' is not as it was written; restore a copy"
    )


def checked(
    chunks: Iterator[list[tuple[Any, Any, Any, Any]]], places: Mapping[int, str], path: str
) -> Iterator[list[tuple[int, str, bytes]]]:
    """Number, id and voiceprints of speakers, some at a time, each compared with its checksum."""
    crc32, of_own_place = zlib.crc32, not places
    for rows in chunks:
        for row in rows:
            number, name, data, crc = row
            # As check_sum, which opening a large gallery cannot wait for a million times.
            if of_own_place and type(name) is str and type(data) is bytes and crc is not None:
                about = f"{number}\n{name}\n\n".encode("utf-8", "surrogatepass")
                if crc == crc32(data, crc32(about)):
                    continue
            check_sum(row, places.get(number, ""), path)
        yield [(number, name, data) for number, name, data, _ in rows]


def check_index(connection: sqlite3.Connection, path: str) -> None:
    """Refuse a file in which a speaker is not found under its own id, or an id is nobody's."""
    if any(found for (found,) in connection.execute(_LOST)):
        raise GalleryError(f"{path}: its index of ids is damaged; restore a copy")
    if any(found for (found,) in connection.execute(_MORE)):
        raise miscounted(path)


def speaker_crc(number: int, name: str, data: bytes, place: str) -> int:
    """The checksum of a speaker."""
    about = f"{number}\n{name}\n{place}\n".encode("utf-8", "surrogatepass")
    return zlib.crc32(data, zlib.crc32(about))
