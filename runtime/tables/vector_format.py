"""Where a vector starts and ends inside a Kaldi archive, checked before anything is allocated.

A binary vector is `\\0B`, `FV ` or `DV `, the byte 4, the number of values as int32, the values,
all little-endian; a text vector is `[ 1 2.5 ]` up to the end of the line. An archive puts an
id and a blank before each. A file that is one vector, as an scp may name it, can also be npy.
"""

import re
import struct
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.formats import npy
from dcaplda.runtime.tables.formats.arrays import Broken
from dcaplda.runtime.tables.specifiers import Buffer
from dcaplda.runtime.tables.text_lines import CONTROL
from dcaplda.runtime.values import LONGEST_ID, is_word

_HEADER = struct.Struct("<2s3sBi")
ID = re.compile(rb"[^\x00-\x20\x7f]+")
_ID_AND_BLANK = re.compile(rb"([^\x00-\x20\x7f]+)[ \t]")
_OTHER_KINDS = {
    b"FM ": "a float matrix",
    b"DM ": "a double matrix",
    b"CM ": "a compressed matrix",
    b"CM2": "a compressed matrix",
    b"CM3": "a compressed matrix",
}
_DTYPES: dict[bytes, np.dtype] = {b"FV ": np.dtype("<f4"), b"DV ": np.dtype("<f8")}
TEXT = np.dtype("S1")


class Span(NamedTuple):
    """The values of one vector: bytes start..stop of a buffer, binary or (dtype TEXT) text."""

    start: int
    stop: int
    dtype: np.dtype

    @property
    def length(self) -> int:
        """Number of values of a binary vector."""
        return (self.stop - self.start) // self.dtype.itemsize


Locate = Callable[[Buffer, int], Span]
"""Finds the object that starts at a byte of a buffer; raises Broken if there is none."""


def locate(data: Buffer, position: int) -> Span:
    """Find the vector that starts at `position`; raise Broken if there is none."""
    size = len(data)
    if position >= size:
        raise Broken(f"no data at byte {position}, the file has {size} bytes")
    if data[position : position + 2] != b"\0B":
        return _locate_text(data, position)
    if position + _HEADER.size > size:
        raise Broken(f"truncated: the file ends at byte {size}, inside a vector's header")
    _, kind, width, count = _HEADER.unpack_from(data, position)
    dtype = _DTYPES.get(kind)
    if dtype is None:
        what = _OTHER_KINDS.get(kind, f"unknown binary data {kind!r}")
        raise Broken(f"{what} at byte {position} where a vector is expected")
    if width != 4 or count < 0:
        raise Broken(f"corrupt header at byte {position} (a size of {count} values)")
    start = position + _HEADER.size
    stop = start + count * dtype.itemsize
    if stop > size:
        raise Broken(f"truncated: {count} values announced, the file ends at byte {size}")
    if count == 0:
        raise Broken(f"an empty vector at byte {position}")
    return Span(start, stop, dtype)


def _locate_text(data: Buffer, position: int) -> Span:
    if not position and data[: len(npy.MAGIC)] == npy.MAGIC:
        return Span(*npy.locate_vector(data, position))
    newline = data.find(b"\n", position)
    line_end = len(data) if newline < 0 else newline
    line = data[position:line_end]
    body = line.strip(b" \t\r")
    if not body.startswith(b"["):
        shown = body[:20].decode("utf-8", "replace")
        raise Broken(f"neither a binary vector nor '[' at byte {position}, found {shown!r}")
    if not body.endswith(b"]"):
        raise Broken(f"no ']' at the end of the line that starts at byte {position}")
    start = position + line.index(b"[") + 1
    return Span(start, position + line.rindex(b"]"), TEXT)


def values(data: Buffer, span: Span) -> NDArray[np.floating]:
    """The values of a located vector, in the precision they are stored in."""
    if span.dtype != TEXT:
        return np.frombuffer(data, span.dtype, span.length, span.start)
    return parse_numbers(data[span.start : span.stop])


def parse_numbers(text: bytes) -> NDArray[np.float64]:
    """Numbers separated by blanks; raise Broken if anything else is among them."""
    text = text.strip()
    if not text:  # numpy would make a number of it
        raise Broken("an empty vector")
    control = CONTROL.search(text)
    if control:  # some of which numpy takes for blanks
        raise Broken(f"not all numbers: the control character {control[0]!r}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.fromstring(text.decode("ascii"), np.float64, sep=" ")
        except (ValueError, DeprecationWarning):
            raise Broken(f"not all numbers: {_first_bad_word(text)!r}") from None


def _first_bad_word(text: bytes) -> str:
    for word in text.split():
        try:
            float(word)
        except ValueError:
            return word[:40].decode("utf-8", "replace")
    return text[:40].decode("utf-8", "replace")  # such as 1_0, which Python takes for 10


def scan_archive(data: Buffer, place: str, find: Locate = locate) -> Iterator[tuple[str, Span]]:
    """Walk through an archive: the id and the location of each object, in file order.

    `find` locates what follows an id; without it, vectors of floats.
    """
    size = len(data)
    position = 0
    while position < size:
        match = _ID_AND_BLANK.match(data, position, position + LONGEST_ID)
        if match is None:
            if position and not data[position:].strip(b"\n"):
                return  # blank lines after the last text vector
            raise TableError(f"{place}: {_not_an_entry(data, position)}")
        try:
            key = match[1].decode("utf-8")
        except UnicodeDecodeError:
            raise TableError(
                f"{place}: the id {match[1][:40]!r} at byte {position} is not UTF-8; rename it"
            ) from None
        if not is_word(key):
            raise TableError(
                f"{place}: the id {key[:40]!r} at byte {position} holds a control character; "
                "rename it"
            )
        try:
            span = find(data, match.end())
        except Broken as error:
            raise TableError(f"{place}: '{key}': {error}; make the archive again") from None
        yield key, span
        position = span.stop
        if span.dtype == TEXT:
            newline = data.find(b"\n", position)
            position = size if newline < 0 else newline + 1


def _not_an_entry(data: Buffer, position: int) -> str:
    """What stands where an id and a blank should be."""
    found = bytes(data[position : position + 40])
    match = ID.match(found)
    if match and match.end() < len(found) and found[match.end()] in b"\r\n":
        return f"the id '{match[0].decode('utf-8', 'replace')}' at byte {position} has no data"
    return f"no id at byte {position}, found {found[:20]!r}; damaged, or not a Kaldi archive"
