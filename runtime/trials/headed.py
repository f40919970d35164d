"""Trial lists with a header line, as NIST and others publish them (tsv, csv)."""

import csv
import io
from typing import Any

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.columns import Columns, NoFrame, column_place, read_frame
from dcaplda.runtime.tables.text_lines import decoded, normalised, refuse_controls


def parse_headed(data: bytes, source: str, columns: Columns) -> Any:
    """A polars frame with the categorical columns `enroll` and `test`.

    A label is not used here; where the user named its column, it has to be there. The header
    decides what separates columns: a tab, else a comma, else blanks. Every line must have as many
    columns as the header; fields may be quoted as in csv.
    """
    refuse_controls(data, source)
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    data = data if data.endswith(b"\n") else data + b"\n"
    header = data[: data.find(b"\n")]
    separator = next((mark for mark in ("\t", ",") if mark.encode() in header), " ")
    if separator == " ":
        data = normalised(data, source)
    names = _header_names(data, source, separator)
    enroll, test = (column_place(names, known, source) for known in (columns.enroll, columns.test))
    if columns.label != Columns.label:
        column_place(names, columns.label, source)
    if b'"' in data:
        data, separator = _without_quotes(data, source, separator, len(names)), "\t"
    return _parse(data, source, separator, len(names), (enroll, test))


def _header_names(data: bytes, source: str, separator: str) -> list[str]:
    header = decoded(data[: data.find(b"\n")], source)
    names = next(csv.reader([header], delimiter=separator), [])
    return [name.strip() for name in names]


def _parse(data: bytes, source: str, separator: str, columns: int, places: tuple[int, int]) -> Any:
    import polars as pl

    body = data[data.find(b"\n") + 1 :]
    lines = body.count(b"\n")
    if not body.strip():
        raise TableError(f"'{source}': no trials after the header")
    if body.count(separator.encode()) != (columns - 1) * lines:
        raise _ragged(data, source, separator, columns)
    try:
        schema = {f"column_{place}": pl.Categorical for place in range(columns)}
        frame = read_frame(body, separator, schema)
    except NoFrame:
        raise _ragged(data, source, separator, columns) from None
    chosen = frame.select(
        pl.col(f"column_{place}").alias(name)
        for place, name in zip(places, ("enroll", "test"), strict=True)
    )
    if frame.height != lines:
        raise _ragged(data, source, separator, columns)
    _check_ids(chosen, source)
    return chosen


def _check_ids(frame: Any, source: str) -> None:
    """Refuse empty ids and ids that would fall apart in a score file."""
    import polars as pl

    for column in frame.columns:
        bad = frame[column].cast(pl.String).str.contains(r"[\x00-\x20\x7f-\x{9f}]").fill_null(True)
        if bad.any():
            row = bad.arg_max()
            raise TableError(
                f"'{source}' line {row + 2}: the {column} id {frame[column][row] or ''!r} must be "
                "one word without blanks"
            )


def _without_quotes(data: bytes, source: str, separator: str, columns: int) -> bytes:
    """Rewrite a table with quoted fields as plain tab-separated lines."""
    reader = csv.reader(
        io.StringIO(decoded(data, source), newline=""), delimiter=separator, strict=True
    )
    plain = []
    try:
        for row in reader:
            if len(row) != columns or any("\t" in word or "\n" in word for word in row):
                raise TableError(
                    f"'{source}' line {reader.line_num}: expected {columns} plain columns, "
                    f"found {separator.join(row)[:80]!r}"
                )
            plain.append("\t".join(row))
    except csv.Error as error:
        raise TableError(f"'{source}' line {reader.line_num}: {error}") from None
    return ("\n".join(plain) + "\n").encode()


def _ragged(data: bytes, source: str, separator: str, columns: int) -> TableError:
    """Find the first line with another number of columns than the header."""
    lines = decoded(data, source).removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        if line.count(separator) != columns - 1:
            return TableError(
                f"'{source}' line {number}: expected {columns} columns as in the header, "
                f"found {line[:80]!r}"
            )
    return TableError(f"'{source}': cannot be read as a table with {columns} columns")
