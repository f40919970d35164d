"""What the files beside a gallery ask of its tables, within one transaction of any database.

They have the speakers of the gallery's own model; those of other places (`placed`) stay in the
database alone.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.database.schema import Position, Row
from dcaplda.runtime.gallery.database.sums import check_sum
from dcaplda.runtime.gallery.database.tables import Tables
from dcaplda.runtime.gallery.stored.rows_file import Fit

AT_ONCE = 1 << 16
"""Checksums that are asked for at once."""


def read_fit(tables: Tables, until: Position) -> Fit | None:
    """What a file of rows of that position is compared with; None without checksums."""
    if not tables.has_sums:
        return None
    rows = tables.database.rows
    removed = rows(
        "SELECT number FROM removals WHERE step > ? AND number <= ?", (until.step, until.number)
    )
    told = "SELECT count(*), coalesce(sum(crc), 0) FROM sums"
    ((count, total),) = rows(f"{told} WHERE number <= ?", (until.number,))
    if tables.has_places:
        placed = f"{told} WHERE number IN (SELECT number FROM placed WHERE number <= ?)"
        ((others, theirs),) = rows(placed, (until.number,))
        count, total = count - others, int(total) - int(theirs)
    return Fit([number for (number,) in removed], int(count), int(total))


def read_crcs(tables: Tables, after: int) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Numbers above `after`, ascending, and their checksums."""
    pairs = np.concatenate([np.empty((0, 2), np.int64), *_crcs(tables, after)])
    return pairs[:, 0].copy(), pairs[:, 1].astype(np.uint32)


def _crcs(tables: Tables, after: int) -> Iterator[NDArray[np.int64]]:
    query = f"SELECT number, crc FROM sums WHERE number > ? ORDER BY number LIMIT {AT_ONCE}"
    while tables.has_sums:
        found = tables.database.rows(query, (after,))
        if found:
            yield np.array(found, np.int64)
        if len(found) < AT_ONCE:
            return
        after = int(found[-1][0])


def read_row(tables: Tables, number: int) -> tuple[str, bytes] | None:
    """Id and voiceprints of the speaker of that number; None if it is not there."""
    found = _speakers(tables, "speakers.number = ?", number)
    return found[0][0][1:] if found else None


def read_placed(tables: Tables, until: int) -> tuple[list[Row], dict[int, str]]:
    """Speakers of other places up to a number, in their order, and which place is whose."""
    if not tables.has_places:
        return [], {}
    chosen = "speakers.number IN (SELECT number FROM placed WHERE number <= ?)"
    found = _speakers(tables, chosen, until)
    return [row for row, _ in found], {row[0]: place for row, place in found}


def _speakers(tables: Tables, which: str, number: int) -> list[tuple[Row, str]]:
    """Speakers, each compared with its checksum, and their places."""
    wanted, joined = ["speakers.number", "id", "voiceprints"], "speakers"
    for there, column, table in (
        (tables.has_sums, "crc", "sums"),
        (tables.has_places, "place", "placed"),
    ):
        wanted.append(column if there else "NULL")
        if there:
            joined += f" LEFT JOIN {table} ON {table}.number = speakers.number"
    query = f"SELECT {', '.join(wanted)} FROM {joined} WHERE {which} ORDER BY speakers.number"
    found = []
    for own, name, data, crc, place in tables.database.rows(query, (number,)):
        check_sum((own, name, data, crc), place or "", tables.path)
        found.append(((own, name, data), place or ""))
    return found
