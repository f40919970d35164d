"""A file of rows, open: its tables at hand, its rows mapped and read when they are asked for."""

import io
import mmap
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.stored.layout import (
    HEADER_BYTES,
    TABLES,
    Header,
    Kind,
    read_header,
    speaker_sums,
    text_sums,
)
from dcaplda.runtime.gallery.stored.writing import tables_crc


class Fit(NamedTuple):
    """What the database says of the speakers up to a file's last number."""

    removed: list[int]
    """Numbers that were removed since."""
    speakers: int
    """How many are there now."""
    crcs: int
    """Sum of their checksums."""


class RowsFile:
    """Speakers i = 0, 1, ... with rows offsets[i] to offsets[i + 1], in the order of numbers."""

    def __init__(self, header: Header, mapped: mmap.mmap) -> None:
        self.header = header
        self._mapped = mapped
        places = header.places()
        tables = {}
        for name, (dtype, _) in TABLES.items():
            begin, count = places[name]
            tables[name] = np.frombuffer(mapped, dtype, count, begin)
        self.tables: dict[str, NDArray] = tables
        self.numbers: NDArray[np.int64] = tables["numbers"]
        self.offsets: NDArray[np.int64] = tables["offsets"]
        self.id_ends: NDArray[np.int64] = tables["id_ends"]
        self._ids_begin = places["ids"][0]
        values = np.frombuffer(
            mapped, np.dtype(header.storage), header.rows * header.width, HEADER_BYTES
        )
        self.rows: NDArray[np.floating] = values.reshape(header.rows, header.width)
        self.single = header.rows == header.speakers
        """Whether every speaker has one voiceprint."""

    def __len__(self) -> int:
        """Speakers."""
        return self.header.speakers

    def ids_text(self, begin: int, end: int) -> bytes:
        """Ids of some speakers, one a line."""
        ends = self.id_ends[[begin, end]] + self._ids_begin
        return self._mapped[int(ends[0]) : int(ends[1])]

    def ids(self, begin: int, end: int) -> list[str]:
        """Ids of the speakers from `begin` to before `end`."""
        return self.ids_text(begin, end).decode("utf-8", "surrogatepass").split("\n")[:-1]

    def altered(self, begin: int, end: int, rows: NDArray[np.floating]) -> NDArray[np.int64]:
        """Which speakers of a range, whose rows these are, are not as they were written."""
        offsets = self.offsets[begin : end + 1]
        bad = speaker_sums(rows, offsets - offsets[0]) != self.tables["sums"][begin:end]
        return begin + np.flatnonzero(bad | self._altered_ids(begin, end))

    def _altered_ids(self, begin: int, end: int) -> NDArray[np.bool_]:
        ends = self.id_ends[begin : end + 1]
        found = text_sums(self.ids_text(begin, end), ends - ends[0])
        return found != self.tables["id_sums"][begin:end]

    def gathered(
        self, speakers: NDArray[np.int64]
    ) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.bool_]]:
        """Rows of some speakers, the offsets of each, and whose are as they were written."""
        if self.single:
            rows, offsets = self.rows[speakers], np.arange(len(speakers) + 1)
        else:
            begins, sizes = (
                self.offsets[speakers],
                self.offsets[speakers + 1] - self.offsets[speakers],
            )
            offsets = np.concatenate([[0], np.cumsum(sizes)])
            rows = self.rows[np.repeat(begins - offsets[:-1], sizes) + np.arange(offsets[-1])]
        return rows, offsets, speaker_sums(rows, offsets) == self.tables["sums"][speakers]

    def whole_ids(self, begin: int, end: int) -> list[str]:
        """Ids of a range, empty of who was erased."""
        names = self.ids(begin, end)  # before the look at who is erased, not after
        for place in np.flatnonzero(self._altered_ids(begin, end)).tolist():
            names[place] = ""
        return names

    def id_of(self, speaker: int) -> str:
        """The id of a speaker; empty if it is not as it was written, but erased.

        Ids are erased before rows: who has read a row that was erased finds no id afterwards.
        """
        begin, end = (int(it) + self._ids_begin for it in self.id_ends[speaker : speaker + 2])
        text = self._mapped[begin:end]
        if sum(text) != self.tables["id_sums"][speaker]:
            return ""
        return text[:-1].decode("utf-8", "surrogatepass")

    def cuts(self, most: int) -> Iterator[tuple[int, int]]:
        """All speakers in ranges of at most so many rows, or of one speaker who has more."""
        begin = 0
        while begin < len(self):
            reach = self.offsets[begin] + most
            end = int(np.searchsorted(self.offsets, reach, side="right")) - 1
            yield begin, max(end, begin + 1)
            begin = max(end, begin + 1)

    def where(self, numbers: Iterable[int]) -> NDArray[np.int64]:
        """Which speakers have these numbers; numbers that are not here are passed over."""
        asked = np.unique(np.fromiter(numbers, np.int64))
        found = np.searchsorted(self.numbers, asked)
        inside = found < len(self.numbers)
        found, asked = found[inside], asked[inside]
        return found[self.numbers[found] == asked]

    def fits(self, fit: Fit) -> bool:
        """Whether what is here are the speakers of the database, but for those removed since."""
        crcs = self.tables["crcs"]
        gone = self.where(fit.removed)
        total = int(crcs.sum(dtype=np.uint64)) - int(crcs[gone].sum(dtype=np.uint64))
        return fit.speakers == len(self) - len(gone) and fit.crcs == total


def open_rows(path: Path, kind: Kind, *, check: bool = True) -> RowsFile | None:
    """The file of such voiceprints; None if there is none that is whole."""
    try:
        with open(path, "rb") as file:
            header = read_header(file.read(HEADER_BYTES))
            size = os.fstat(file.fileno()).st_size
            if header is None or header.kind != kind or header.size() != size:
                return None
            mapped = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
    except (OSError, ValueError):
        return None
    found = RowsFile(header, mapped)
    if check and tables_crc(found.tables) != header.tables_crc:
        return None
    return found if _orderly(found) else None


def _orderly(found: RowsFile) -> bool:
    """Whether the tables can be those of a file of rows, whoever made it."""
    header = found.header
    ends = ((found.offsets, header.rows), (found.id_ends, header.id_bytes))
    rising = all(t[0] == 0 and t[-1] == last and (np.diff(t) > 0).all() for t, last in ends)
    return bool(rising and (np.diff(found.numbers) > 0).all())


def erase_rows(path: Path, kind: Kind, numbers: Iterable[int]) -> None:
    """Overwrite rows and ids of speakers that the database has no more."""
    found = open_rows(path, kind, check=False)
    if found is None:
        return
    gone = found.where(numbers)
    if not len(gone):
        return
    begin, size = found.header.places()["ids"][0], kind.row_bytes
    with open(path, "r+b", buffering=0) as file:
        if file.read(HEADER_BYTES) != found.header.packed():
            return  # another one has taken its place, whose maker looks for removals itself
        for speaker in gone.tolist():
            first, last = found.id_ends[[speaker, speaker + 1]].tolist()
            blank(file, begin + first, last - first - 1, b"\0")
            first, last = found.offsets[[speaker, speaker + 1]].tolist()
            blank(file, HEADER_BYTES + first * size, (last - first) * size, b"\0")
        os.fsync(file.fileno())


def blank(file: io.FileIO, begin: int, size: int, byte: bytes) -> None:
    """Write over what is there, unless that was done."""
    file.seek(begin)
    if file.read(size) != byte * size:
        file.seek(begin)
        file.write(byte * size)
