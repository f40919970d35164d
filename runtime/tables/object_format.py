"""One Kaldi object of any kind inside a buffer: its size is checked here, kaldiio decodes it.

kaldiio 2.18 believes a header: a vector cut short comes back shorter, without an error, and what
stands behind an object is not looked at. So `extent` compares the announced size with the buffer
before anything is allocated, and kaldiio gets a stream of exactly these bytes. It never gets a
name, which it could run as a command, nor data without the leading `\\0B`, which it could unpickle.

Text is read by `parse_numbers`: kaldiio makes float32 of it (a mean of nine digits loses two) and
int32 where the first number has no point, so that `[ 1 2.5 ]` is an error to it.
"""

import io
import math
import re
import struct
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.tables.specifiers import Buffer
from dcaplda.runtime.tables.vector_format import TEXT, Broken, Span, locate, parse_numbers

FLOAT_VECTOR = (b"FV ", b"DV ")
INT_VECTOR = (b"\4",)
PLAIN_MATRIX = (b"FM ", b"DM ")
COMPRESSED_MATRIX = (b"CM ", b"CM2 ", b"CM3 ")
OBJECT = np.dtype("V1")
"""The dtype of a Span that holds a whole binary object, from its kind on."""
_BRACKET = re.compile(rb"\s*\[")
_AFTER_TEXT = re.compile(rb"[ \t\r]*(?:\n|\Z)")


class _Layout(NamedTuple):
    """The header of a kind, and the bytes that follow for each value and each column."""

    header: struct.Struct
    value: int
    column: int = 0


# A size in a header follows a byte 4, its own width; so does each value of an int vector, whose
# first size is at once its kind. Compressed matrices begin with the least value and the range.
_LAYOUTS = {
    b"\4": _Layout(struct.Struct("<Bi"), 5),
    b"FV ": _Layout(struct.Struct("<3xBi"), 4),
    b"DV ": _Layout(struct.Struct("<3xBi"), 8),
    b"FM ": _Layout(struct.Struct("<3xBiBi"), 4),
    b"DM ": _Layout(struct.Struct("<3xBiBi"), 8),
    b"CM ": _Layout(struct.Struct("<3xffii"), 1, column=8),
    b"CM2 ": _Layout(struct.Struct("<4xffii"), 2),
    b"CM3 ": _Layout(struct.Struct("<4xffii"), 1),
}


def extent(data: Buffer, position: int, kinds: Collection[bytes], what: str) -> int:
    """Where the binary object ends whose kind stands at `position`, right behind any `\\0B`.

    Raise Broken if it is none of `kinds` (`what` names them), or does not fit into the buffer.
    """
    found = bytes(data[position : position + 4])
    kind = next((kind for kind in kinds if found.startswith(kind)), None)
    if kind is None:
        raise Broken(f"{found[:3]!r} instead of a {what}")
    layout = _LAYOUTS[kind]
    start = position + layout.header.size
    if start > len(data):
        raise Broken("truncated: the file ends too early, inside a header")
    shape = _shape(kind, layout.header.unpack_from(data, position))
    count = math.prod(shape)
    stop = start + count * layout.value + shape[-1] * layout.column
    if stop > len(data):
        raise Broken(f"truncated: {count} values announced, but the file ends too early")
    if kind in INT_VECTOR and (np.frombuffer(data, np.uint8, 5 * count, start)[::5] != 4).any():
        raise Broken("corrupt values, not 4 bytes each")
    return stop


def _shape(kind: bytes, fields: tuple) -> list[int]:
    if kind in COMPRESSED_MATRIX:
        least, width, *shape = fields
        if not (math.isfinite(least) and 0 < width < math.inf):
            raise Broken(f"a corrupt header (values from {least:g} on, a range of {width:g})")
    else:
        shape = list(fields[1::2])
        if set(fields[::2]) != {4}:
            raise Broken(f"a corrupt header (a size of {shape[0]})")
    if min(shape) <= 0:
        raise Broken(f"a size of {min(shape)}")
    return shape


def decoded(data: Buffer, position: int, stop: int) -> NDArray:
    """The numbers of a binary object whose `extent` is known, in the precision it is stored in."""
    from kaldiio import matio

    stream = io.BytesIO(b"\0B" + data[position:stop])
    with np.errstate(over="ignore"):  # the caller refuses what is not finite
        if data[position : position + 1] in INT_VECTOR:
            return np.asarray(matio.read_int32vector(stream))
        return np.asarray(matio.read_matrix_or_vector(stream))


def parse_rows(text: bytes) -> list[NDArray[np.float64]]:
    """The rows between the brackets of a text object; raise Broken if one is not all numbers."""
    return [parse_numbers(line) for line in text.split(b"\n") if line.strip()]


def as_matrix(rows: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Rows of equal length, at least one."""
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise Broken("a matrix without rows or with rows of unequal length")
    return np.array(rows)


def locate_vector(data: Buffer, position: int) -> Span:
    """Find a vector of floats or of int32 in an archive."""
    if data[position : position + 2] != b"\0B":
        return locate(data, position)
    kinds = FLOAT_VECTOR + INT_VECTOR
    return Span(position + 2, extent(data, position + 2, kinds, "vector"), OBJECT)


def locate_matrix(data: Buffer, position: int) -> Span:
    """Find a matrix in an archive: plain, compressed or text."""
    if data[position : position + 2] == b"\0B":
        kinds = PLAIN_MATRIX + COMPRESSED_MATRIX
        return Span(position + 2, extent(data, position + 2, kinds, "matrix"), OBJECT)
    bracket = _BRACKET.match(data, position)
    if bracket is None:
        found = bytes(data[position : position + 20])
        raise Broken(f"neither a binary matrix nor '[' at byte {position}, found {found!r}")
    stop = data.find(b"]", bracket.end())
    if stop < 0:
        raise Broken(f"no ']' after byte {position}")
    if not _AFTER_TEXT.match(data, stop + 1):
        raise Broken(f"data behind the ']' at byte {stop}")
    return Span(bracket.end(), stop, TEXT)
