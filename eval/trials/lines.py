"""Trial keys and score files of any length, read in blocks into codes and numbers.

A file of 24 million lines never stands in memory as text: each block of lines becomes a
polars frame, its ids become whole numbers, and the text is dropped.
"""

import itertools
import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.columns import column_place
from dcaplda.runtime.tables.specifiers import Buffer, read_input
from dcaplda.runtime.tables.text_lines import decoded, normalised

Codes = NDArray[np.uint32]
BLOCK_BYTES = 1 << 25


@dataclass
class IdTable:
    """Whole numbers for the ids of all files of a set; equal ids get equal numbers."""

    code_of: dict[str, int] = field(default_factory=dict)

    def codes(self, column: Any) -> Codes:
        """Numbers of a polars string column without nulls; new ids are added."""
        import polars as pl

        words = column.cast(pl.Categorical)
        unique = words.unique()
        local = unique.to_physical().to_numpy()
        lookup = np.zeros(int(local.max()) + 1 if local.size else 0, np.uint32)
        table = self.code_of
        lookup[local] = [table.setdefault(name, len(table)) for name in unique.to_list()]
        found: Codes = lookup[words.to_physical().to_numpy()]
        return found

    @property
    def names(self) -> list[str]:
        """The ids in the order of their numbers."""
        return list(self.code_of)


@dataclass(frozen=True)
class Block:
    """Consecutive lines of a file: polars string columns, null where a line is shorter."""

    place: str
    first_line: int
    columns: list[Any]

    def place_of(self, row: int) -> str:
        """How a message calls a row."""
        return f"'{self.place}' line {self.first_line + row}"


class RawBlock(NamedTuple):
    """Whole lines as bytes, the number of the first and how many there are."""

    line: int
    data: bytes
    n_lines: int


RawBlocks = Iterator[RawBlock]


def raw_blocks(source: str) -> RawBlocks:
    """The lines of a file, pipe or stdin, some megabytes at a time."""
    data = read_input(source)
    start, line = 0, 1
    while start < len(data):
        end = min(start + BLOCK_BYTES, len(data))
        if end < len(data):
            end = data.rfind(b"\n", start, end) + 1 or data.find(b"\n", end) + 1 or len(data)
        block = data[start:end]
        n_lines = block.count(b"\n") + (not block.endswith(b"\n"))
        yield RawBlock(line, block, n_lines)
        line += n_lines
        _forget(data, end)
        start = end


def _forget(data: Buffer, end: int) -> None:
    """Let go of the pages of a mapped file that have been read."""
    if isinstance(data, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        length = end // mmap.PAGESIZE * mmap.PAGESIZE
        if length:
            data.madvise(mmap.MADV_DONTNEED, 0, length)


def peeked(blocks: RawBlocks) -> tuple[str, RawBlocks]:
    """The first line of a file, and the same blocks again."""
    first = next(blocks, None)
    if first is None:
        return "", blocks
    line = first.data[: first.data.find(b"\n")].decode("utf-8", "replace").strip("\r\ufeff")
    return line, itertools.chain([first], blocks)


def word_blocks(
    source: str, least: int, most: int, expected: str, blocks: RawBlocks | None = None
) -> Iterator[Block]:
    """Blocks of lines of `least` to `most` words between blanks or tabs, as `most` columns.

    `expected` says in an error what a line should hold.
    """
    empty = True
    for raw in blocks if blocks is not None else raw_blocks(source):
        odd = any(mark in raw.data for mark in (b"\t", b"\r", b"\0"))
        odd |= raw.data.startswith(b"\xef\xbb\xbf")
        columns = None if odd else _fast_columns(raw, least, most)
        if columns is None:
            columns = _fast_columns(_tidied(raw, source), least, most)
        if columns is None:
            columns = _checked_columns(raw, source, least, most, expected)
        empty = False
        yield Block(source, raw.line, columns)
    if empty:
        raise TableError(f"'{source}': the file is empty; expected lines '{expected}'")


def _tidied(raw: RawBlock, place: str) -> RawBlock:
    """The same lines with single blanks; unchanged if they are not text at all."""
    try:
        return raw._replace(data=normalised(raw.data, place))
    except TableError:
        return raw  # whoever looks closer will find it again, with the right line number


def _fast_columns(raw: RawBlock, least: int, most: int) -> list[Any] | None:
    """Columns of lines with single blanks; None if any line needs a closer look."""
    import polars as pl

    width = raw.data[: raw.data.find(b"\n")].count(b" ") + 1
    if not least <= width <= most:
        return None
    names = [str(number) for number in range(width)]
    try:
        frame = pl.read_csv(
            raw.data,
            has_header=False,
            separator=" ",
            quote_char=None,
            schema=dict.fromkeys(names, pl.String),
        )
    except pl.exceptions.PolarsError:
        return None
    # A double blank, a short or an empty line shows as a null, or as a line too few.
    if frame.height != raw.n_lines or any(frame[name].null_count() for name in names[:least]):
        return None
    columns = frame.get_columns()
    return columns + [pl.repeat(None, raw.n_lines, dtype=pl.String, eager=True)] * (most - width)


def _checked_columns(raw: RawBlock, place: str, least: int, most: int, expected: str) -> list[Any]:
    """The same for lines of any width and spacing; an error names the first bad line."""
    import polars as pl

    # Empty lines in front keep the line numbers of the checks true; rarely is this path taken.
    text = decoded(normalised(b"\n" * (raw.line - 1) + raw.data, place), place)
    # Blank lines at the end are nobody's trials; inside they are a sign of damage.
    lines = text.rstrip("\n").split("\n")[raw.line - 1 :]
    rows = [line.split(" ") if line else [] for line in lines]
    for number, (row, line) in enumerate(zip(rows, lines, strict=True), raw.line):
        if not least <= len(row) <= most:
            found = f"found {line[:80]!r}" if line else "found a blank line"
            raise TableError(f"'{place}' line {number}: expected '{expected}', {found}")
    return [
        pl.Series(str(place), [row[place] if place < len(row) else None for row in rows], pl.String)
        for place in range(most)
    ]


def headed_blocks(
    source: str, wanted: list[tuple[str, ...]], blocks: RawBlocks | None = None
) -> Iterator[Block]:
    """Blocks of a table with a header line: tabs or commas between, or else blanks.

    Each entry of `wanted` holds the names that a column may have, in lower case.
    """
    import polars as pl

    header: list[str] = []
    separator = b" "
    for line, data, _ in blocks if blocks is not None else raw_blocks(source):
        raw = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
        if not header:
            top = raw[: raw.find(b"\n") if b"\n" in raw else len(raw)]
            separator = next((mark for mark in (b"\t", b",") if mark in top), b" ")
            words = top.decode("utf-8", "replace").split(separator.decode())
            header = [word.strip(' "') for word in words]
            places = [column_place(header, names, source) for names in wanted]
            raw, line = raw[len(top) + 1 :], line + 1
            if not raw:
                continue
        try:
            frame = pl.read_csv(
                raw,
                has_header=False,
                separator=separator.decode(),
                schema={str(number): pl.String for number in range(len(header))},
            )
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise TableError(
                f"'{source}': near line {line}: not {len(header)} columns as in the header "
                f"({reason})"
            ) from None
        yield Block(source, line, [frame[str(place)] for place in places])
    if not header:
        raise TableError(f"'{source}': the file is empty; expected a header line")
