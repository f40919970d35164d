"""Trial keys and score files of any length, read in blocks into codes and numbers.

A file of 24 million lines never stands in memory as text: each block of lines becomes a
polars frame, its ids become whole numbers, and the text is dropped.
"""

import itertools
import mmap
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.columns import NoFrame, column_place, read_frame
from dcaplda.runtime.tables.specifiers import Buffer, read_input
from dcaplda.runtime.tables.text_lines import decoded, normalised, refuse_controls

BLOCK_BYTES = 1 << 23
"""Bytes of a block: much more no longer fits the cache, and its memory is new every time."""


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
        refuse_controls(block, source, line)
        n_lines = int(np.count_nonzero(np.frombuffer(block, np.uint8) == ord("\n")))
        n_lines += not block.endswith(b"\n")
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
    source: str,
    least: int,
    most: int,
    expected: str,
    blocks: RawBlocks | None = None,
    number: int | None = None,
) -> Iterator[Block]:
    """Blocks of lines of `least` to `most` words between blanks or tabs, as `most` columns.

    `expected` says in an error what a line should hold. The column `number` is float64 where all of
    it can be read as numbers at once, and else text as the others.
    """

    def columns_of(raw: RawBlock) -> Block:
        odd = any(mark in raw.data for mark in (b"\t", b"\r"))
        odd |= raw.data.startswith(b"\xef\xbb\xbf")
        columns = None if odd else _fast_columns(raw, least, most, number)
        if columns is None:
            columns = _fast_columns(_tidied(raw, source), least, most, None)
        if columns is None:
            columns = _checked_columns(raw, source, least, most, expected)
        return Block(source, raw.line, columns)

    empty = True
    for block in in_advance(columns_of, raw_blocks(source) if blocks is None else blocks):
        empty = False
        yield block
    if empty:
        raise TableError(f"'{source}': the file is empty; expected lines '{expected}'")


def in_advance(
    function: Callable[[RawBlock], Block], items: RawBlocks, n_ahead: int = 2
) -> Iterator[Block]:
    """`function` of each item, in order; the next ones are under way in other threads already."""
    first = list(itertools.islice(items, 2))
    if len(first) < 2:
        yield from map(function, first)
        return
    with ThreadPoolExecutor(n_ahead) as pool:
        waiting: deque[Future[Block]] = deque()
        try:
            for item in itertools.chain(first, items):
                waiting.append(pool.submit(function, item))
                if len(waiting) > n_ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _tidied(raw: RawBlock, place: str) -> RawBlock:
    """The same lines with single blanks; unchanged if they are not text at all."""
    try:
        return raw._replace(data=normalised(raw.data, place))
    except TableError:
        return raw  # whoever looks closer will find it again, with the right line number


def _fast_columns(raw: RawBlock, least: int, most: int, number: int | None) -> list[Any] | None:
    """Columns of lines with single blanks; None if any line needs a closer look."""
    import polars as pl

    width = raw.data[: raw.data.find(b"\n")].count(b" ") + 1
    if not least <= width <= most:
        return None
    names = [str(place) for place in range(width)]
    schema = {name: pl.Float64 if name == str(number) else pl.String for name in names}
    try:
        frame = read_frame(raw.data, " ", schema)
    except NoFrame:
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
            schema = {str(number): pl.String for number in range(len(header))}
            frame = read_frame(raw, separator.decode(), schema, quotes=True)
        except NoFrame as error:
            raise TableError(
                f"'{source}': near line {line}: not {len(header)} columns as in the header "
                f"({error})"
            ) from None
        yield Block(source, line, [frame[str(place)] for place in places])
    if not header:
        raise TableError(f"'{source}': the file is empty; expected a header line")
