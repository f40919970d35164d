"""Text files as lists of lines: UTF-8, one blank between words, no surprises inside."""

import re

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import read_bytes

# What no id and no number may hold: ASCII's control characters and, in UTF-8, those of Latin-1.
# Carriage returns are allowed before a newline only.
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\r(?!\n|\Z)")
_ASCII_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\r")


def normalised(data: bytes, place: str) -> bytes:
    """The same lines with single blanks between words, none around them, and a newline each.

    Tabs count as blanks, Windows line ends as line ends, a byte-order mark as nothing; line
    numbers are kept. Control characters raise TableError. Everything here runs at the speed
    of C on the whole file, because trial lists have millions of lines.
    """
    data = data.removeprefix(b"\xef\xbb\xbf")
    refuse_controls(data, place)
    if data and not data.endswith(b"\n"):
        data += b"\n"
    if b"\r" in data:
        data = data.replace(b"\r", b"")
    if b"\t" in data:
        data = data.replace(b"\t", b" ")
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    if b" \n" in data:
        data = data.replace(b" \n", b"\n")
    if b"\n " in data:
        data = data.replace(b"\n ", b"\n")
    return data.removeprefix(b" ")


def refuse_controls(data: bytes, place: str, first_line: int = 1) -> None:
    """Raise TableError if there are control characters, with the line of the first.

    `first_line` is the number of the line that the data start with.
    """
    # Twenty times faster than the search, which then is for suspicious data only.
    plain = len(data.translate(None, _ASCII_CONTROLS)) == len(data)
    if plain and b"\r" not in data and (data.isascii() or b"\xc2" not in data):
        return
    bad = CONTROL.search(data)
    if bad:
        number = data.count(b"\n", 0, bad.start()) + first_line
        raise TableError(
            f"'{place}' line {number}: control character {bad[0]!r}; is this a text file?"
        )


def decoded(data: bytes, place: str) -> str:
    """Text of a UTF-8 file; raise TableError with the line that is not."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        found = data[error.start : error.start + 8]
        raise TableError(
            f"'{place}' line {number}: {found!r} is not UTF-8 text; convert the file to UTF-8"
        ) from None


def lines_of(data: bytes, place: str) -> list[str]:
    """The lines of a text file, normalised; none for an empty file."""
    data = normalised(data, place)
    if not data:
        return []
    # Not splitlines: that would also split at exotic characters inside an id.
    return decoded(data, place).removesuffix("\n").split("\n")


def read_lines(source: str) -> list[str]:
    """The normalised lines behind an extended file name."""
    return lines_of(read_bytes(source), source)
