"""The rows of a gallery within one transaction, by SQL that every database here understands.

Databases differ in how they are connected to, how they take turns and how they tell of changes;
that is in their stores (`storage.py`). What a speaker is, in rows, is here, once.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.database.schema import (
    Decision,
    Entry,
    Kept,
    Position,
    UtteranceRow,
    read_warnings,
)
from dcaplda.runtime.gallery.database.sums import check_sum, speaker_crc


class Database(Protocol):
    """A connection in a transaction; statements have a `?` for each value."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Everything that a query finds."""

    def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """A statement for each of many rows."""

    def last_number(self, table: str) -> int:
        """The highest number that any row of a table ever had."""

    def used_numbers(self, table: str, last: int) -> None:
        """Rows up to this number were added."""


class Moved(GalleryError):
    """A speaker changed between the look at it and the change; look again."""


@dataclass(frozen=True)
class Tables:
    """The tables; galleries of before lack some."""

    database: Database
    path: str
    has_sums: bool = True
    has_places: bool = True
    has_life: bool = True

    def change(
        self, gone: Sequence[tuple[str, int | None]], put: Sequence[tuple[str, Entry]]
    ) -> int:
        """Take speakers out (of these numbers, if told) and put others in; how many more."""
        stay = {name for name, _ in put}
        for name, number in gone:
            self._take(name, number)
            if name not in stay:
                self._rows("DELETE FROM tags WHERE speaker = ?", (name,))
                self._rows("DELETE FROM origins WHERE speaker = ?", (name,))
        if put:
            self._put(put)
        return len(put) - len(gone)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.database.rows(query, values)

    def _take(self, name: str, expected: int | None) -> None:
        found = self._rows("SELECT number FROM speakers WHERE id = ?", (name,))
        if not found:
            raise GalleryError(f"{self.path}: there is no speaker '{name}'")
        if expected is not None and found[0][0] != expected:
            raise Moved(f"{self.path}: '{name}' was changed by another process; try again")
        for table in ("speakers", "sums", "placed"):
            self._rows(f"DELETE FROM {table} WHERE number = ?", found[0])
        self._rows("DELETE FROM utterances WHERE speaker = ?", (name,))
        self._rows("INSERT INTO removals(number) VALUES (?)", found[0])

    def _put(self, put: Sequence[tuple[str, Entry]]) -> None:
        many = self.database.many
        first = self.database.last_number("speakers") + 1
        numbered = [(first + place, *pair) for place, pair in enumerate(put)]
        many(
            "INSERT INTO speakers(number, id, warnings, voiceprints, way) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (id) DO NOTHING",
            [
                (number, name, _lines(entry.warnings), entry.data, entry.way or None)
                for number, name, entry in numbered
            ],
        )
        self.database.used_numbers("speakers", numbered[-1][0])
        ((there,),) = self._rows("SELECT count(*) FROM speakers WHERE number >= ?", (first,))
        if there != len(numbered):
            raise self._doubled(numbered)
        many(
            "INSERT INTO sums(number, crc) VALUES (?, ?) "
            "ON CONFLICT (number) DO UPDATE SET crc = excluded.crc",
            [(n, speaker_crc(n, name, it.data, it.place)) for n, name, it in numbered],
        )
        placed = [(number, entry.place) for number, _, entry in numbered if entry.place]
        if placed:
            many("INSERT INTO placed(number, place) VALUES (?, ?)", placed)
        self._put_utterances(put)
        origins = [(name, entry.origin) for name, entry in put if entry.origin is not None]
        if origins:
            many("INSERT INTO origins(speaker, number) VALUES (?, ?)", origins)
        for name, entry in put:
            if entry.tags is not None:
                self.write_tags(name, entry.tags, anew=True)

    def _doubled(self, numbered: Iterable[tuple[int, str, Entry]]) -> GalleryError:
        """Which of them has an id that is taken."""
        for number, name, _ in numbered:
            found = self._rows("SELECT number FROM speakers WHERE id = ?", (name,))
            if found != [(number,)]:
                break
        return GalleryError(f"{self.path}: '{name}' is already there; replace or remove it")

    def _put_utterances(self, put: Sequence[tuple[str, Entry]]) -> None:
        rows = [(name, row) for name, entry in put for row in entry.utterances]
        if not rows:
            return
        last = self.database.last_number("utterances")
        made = []
        for name, row in rows:
            number = row.number
            if number is None:
                number = last + 1
            last = max(last, number)
            row = row._replace(number=number)
            made.append((number, name, *row[1:], utterance_crc(name, row)))
        self.database.many(
            "INSERT INTO utterances(number, speaker, seconds, norm, moment, session, heard, "
            "source, warnings, voiceprint, embedding, crc) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            made,
        )
        self.database.used_numbers("utterances", last)

    def get(self, name: str) -> Entry | None:
        """What is kept of a speaker, but for its utterances and tags; None if it is not there."""
        found = self._stored(name)
        return None if found is None else found.entry

    def life(self, name: str) -> Kept | None:
        """The same with all that is kept of its utterances."""
        found = self._stored(name)
        if found is None or not self.has_life:
            return found
        rows = self._rows(
            "SELECT number, seconds, norm, moment, session, heard, source, warnings, voiceprint, "
            "embedding, crc FROM utterances WHERE speaker = ? ORDER BY number",
            (name,),
        )
        utterances = []
        for *values, crc in rows:
            row = UtteranceRow(*values)
            if not _as_written(name, row, crc):
                raise GalleryError(
                    f"{self.path}: utterance {row.number} of '{name}' is not as it was written; "
                    "restore a copy"
                )
            utterances.append(row)
        entry = found.entry._replace(utterances=tuple(utterances), tags=self.tags(name))
        return found._replace(entry=entry)

    def _stored(self, name: str) -> Kept | None:
        way = "way" if self.has_life else "NULL"
        if self.has_sums:
            joined = "speakers LEFT JOIN sums ON sums.number = speakers.number"
            query = f"SELECT speakers.number, id, voiceprints, crc, warnings, {way} FROM {joined}"
        else:
            query = f"SELECT number, id, voiceprints, NULL, warnings, {way} FROM speakers"
        found = self._rows(f"{query} WHERE id = ?", (name,))
        if not found:
            return None
        *row, warnings, how = found[0]
        place = ""
        if self.has_places:
            placed = self._rows("SELECT place FROM placed WHERE number = ?", (row[0],))
            place = placed[0][0] if placed else ""
        check_sum(row, place, self.path)
        lines = read_warnings(warnings, name, self.path)
        return Kept(row[0], Entry(row[2], lines, place, how or ""))

    def write_tags(self, name: str, tags: Mapping[str, str | None], anew: bool = False) -> None:
        """Set tags of a speaker, or take them away (None); `anew`: those that are not told too."""
        if not anew and not self._rows("SELECT number FROM speakers WHERE id = ?", (name,)):
            raise GalleryError(f"{self.path}: there is no speaker '{name}'")
        if anew:
            self._rows("DELETE FROM tags WHERE speaker = ?", (name,))
        else:
            # Nobody has the number 0: nothing goes, but positions tell that something happened.
            self._rows("INSERT INTO removals(number) VALUES (0)")
        for key, value in tags.items():
            if not anew:
                self._rows("DELETE FROM tags WHERE speaker = ? AND name = ?", (name, key))
            if value is not None:
                self._rows(
                    "INSERT INTO tags(speaker, name, value) VALUES (?, ?, ?)", (name, key, value)
                )

    def tags(self, name: str) -> dict[str, str]:
        """Of a speaker."""
        if not self.has_life:
            return {}
        query = "SELECT name, value FROM tags WHERE speaker = ? ORDER BY name"
        return dict(self._rows(query, (name,)))  # type: ignore[arg-type]

    def tagged(self, tags: Mapping[str, str]) -> list[int]:
        """Numbers of the speakers that have all of these tags."""
        if not self.has_life:
            return []
        joins = "".join(
            f" JOIN tags AS t{n} ON t{n}.speaker = speakers.id AND t{n}.name = ? AND t{n}.value = ?"
            for n in range(len(tags))
        )
        values = [text for pair in tags.items() for text in pair]
        found = self._rows(f"SELECT speakers.number FROM speakers{joins}", values)
        return [number for (number,) in found]

    def all_tags(self) -> dict[str, dict[str, str]]:
        """Tags of all speakers that have some."""
        found: dict[str, dict[str, str]] = {}
        if self.has_life:
            for speaker, name, value in self._rows("SELECT speaker, name, value FROM tags"):
                found.setdefault(speaker, {})[name] = value
        return found

    def lacking(self, seconds: bool) -> list[str]:
        """Speakers of whom an utterance has no embedding, or, if they are needed, no seconds."""
        if not self.has_life:
            return [name for (name,) in self._rows("SELECT id FROM speakers ORDER BY number")]
        bad = "embedding IS NULL" + (" OR seconds IS NULL" if seconds else "")
        query = (
            "SELECT id FROM speakers WHERE "
            "NOT EXISTS (SELECT 1 FROM utterances WHERE speaker = speakers.id) OR "
            f"EXISTS (SELECT 1 FROM utterances WHERE speaker = speakers.id AND ({bad})) "
            "ORDER BY number"
        )
        return [name for (name,) in self._rows(query)]

    def position(self) -> Position:
        """How far the gallery has come."""
        ((step,),) = self._rows("SELECT coalesce(max(step), 0) FROM removals")
        ((number,),) = self._rows("SELECT coalesce(max(number), 0) FROM speakers")
        return Position(number, step)

    def origins(self) -> dict[str, int]:
        """Numbers that speakers had in the gallery from which a migration brought them."""
        return dict(self._rows("SELECT speaker, number FROM origins"))  # type: ignore[arg-type]

    def note(self, decisions: Sequence[Decision]) -> None:
        """Add decisions to the audit log."""
        marks = ", ".join("?" * len(Decision._fields))
        fields = ", ".join(Decision._fields)
        self.database.many(f"INSERT INTO decisions({fields}) VALUES ({marks})", decisions)

    def decisions(self, speaker: str | None, since: float) -> list[Decision]:
        """The audit log, oldest first."""
        if not self.has_life:
            return []
        query = f"SELECT {', '.join(Decision._fields)} FROM decisions WHERE moment >= ?"
        values: list[Any] = [since]
        if speaker is not None:
            query, values = f"{query} AND speaker = ?", [since, speaker]
        return [Decision(*row) for row in self._rows(f"{query} ORDER BY moment, number", values)]

    def forget_decisions(self, names: Iterable[str]) -> None:
        """Take what was decided on speakers out of the audit log."""
        for name in names:
            self._rows("DELETE FROM decisions WHERE speaker = ?", (name,))


def _lines(warnings: Sequence[str]) -> str | None:
    return json.dumps(warnings) if warnings else None


def _as_written(name: str, row: UtteranceRow, crc: Any) -> bool:
    """Whether an utterance has its checksum; a damaged one may be of any type."""
    try:
        return bool(crc == utterance_crc(name, row))
    except (TypeError, ValueError):
        return False


def utterance_crc(name: str, row: UtteranceRow) -> int:
    """A checksum of all that is kept of an utterance."""
    about = json.dumps([name, *row[:8]]).encode()
    return zlib.crc32(row.embedding or b"", zlib.crc32(row.voiceprint or b"", zlib.crc32(about)))
