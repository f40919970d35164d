"""Constants inside a serialized ONNX graph, replaced by name without the onnx package.

A model is a message of fields; the graph is its field 7, an initializer the graph's field 5, and of
an initializer field 8 is the name and field 9 the raw bytes. Only bytes of the same number are
put in the place of others, so that every length in the file stays right.
"""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import BundleError

GRAPH, INITIALIZER, NAME, RAW = 7, 5, 8, 9
_BYTES = 2
"""Kind of a field that holds a message, text or bytes."""


def with_constants(content: bytes, values: Mapping[str, NDArray[np.float32]], place: str) -> bytes:
    """The graph with these constants in place of those of the same names, which it must have."""
    changed = bytearray(content)
    found = set()
    for name, begin, end in _initializers(content, place):
        if name in values:
            raw = np.ascontiguousarray(values[name], "<f4").tobytes()
            if len(raw) != end - begin:
                raise BundleError(f"{place}: constant '{name}' has another size; export again")
            changed[begin:end] = raw
            found.add(name)
    missing = sorted(set(values) - found)
    if missing:
        raise BundleError(f"{place}: has no constant '{missing[0]}'; export again")
    return bytes(changed)


def _initializers(content: bytes, place: str) -> Iterator[tuple[str, int, int]]:
    """Name of each initializer, and where its raw bytes begin and end."""
    for _, begin, end in _fields(content, 0, len(content), GRAPH, place):
        for _, first, last in _fields(content, begin, end, INITIALIZER, place):
            names = list(_fields(content, first, last, NAME, place))
            raws = list(_fields(content, first, last, RAW, place))
            if names and raws:
                _, start, stop = names[0]
                yield content[start:stop].decode("utf-8", "replace"), raws[0][1], raws[0][2]


def _fields(
    content: bytes, begin: int, end: int, wanted: int, place: str
) -> Iterator[tuple[int, int, int]]:
    """Fields of one number that hold bytes: the number, and where the bytes begin and end."""
    position = begin
    while position < end:
        key, position = _varint(content, position, end, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            _, position = _varint(content, position, end, place)
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
        elif kind == _BYTES:
            length, position = _varint(content, position, end, place)
            if position + length > end:
                raise _damaged(place)
            if number == wanted:
                yield number, position, position + length
            position += length
        else:
            raise _damaged(place)


def _varint(content: bytes, position: int, end: int, place: str) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 64:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise _damaged(place)


def _damaged(place: str) -> BundleError:
    return BundleError(f"{place}: not an ONNX graph as export-onnx writes it; export again")
