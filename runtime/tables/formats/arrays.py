"""What all formats check alike: ids that every table can carry, shapes, sizes, kinds of numbers."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.formats.registry import Rows
from dcaplda.runtime.values import is_word

IDS = "ids"
VECTORS = ("vectors", "data")
"""Names of the arrays, datasets or columns of a file that has one of each; the first is written."""
# Of a packed part to its contents. Deflate cannot reach it, so more is a damaged or forged size.
_MOST_UNPACKED = 1100
_SLACK = 1 << 16


class Broken(Exception):
    """What is wrong at one place of a file; the caller adds the file and the id."""


def check_size(what: str, announced: int, stored: int) -> None:
    """Refuse an array whose announced bytes cannot come out of those that are stored."""
    if announced > stored * _MOST_UNPACKED + _SLACK:
        raise Broken(f"{what} announces {announced} bytes, but {stored} are stored; make it again")


def check_floats(what: str, dtype: np.dtype) -> None:
    """Refuse what is not float16, float32 or float64."""
    if dtype.kind == "O":
        raise Broken(f"{what} holds Python objects, which are never loaded; save plain arrays")
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise Broken(f"{what} holds {dtype}; expected float32 or float64")


def id_texts(values: Iterable[object]) -> list[str]:
    """Ids as text: strings, bytes of UTF-8, or whole numbers."""
    names = []
    for value in values:
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                raise Broken(f"the id {value[:40]!r} is not UTF-8; rename it") from None
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise Broken(f"the id {str(value)[:40]!r} is no text; write ids as strings")
        names.append(str(value))
    return names


def check_ids(names: Sequence[str]) -> None:
    """Refuse ids that occur twice or that no text table could hold."""
    for name in names:
        if not is_word(name):
            raise Broken(f"the id {name[:40]!r} is not one word of text; rename it")
    if len(set(names)) != len(names):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise Broken(f"'{name}' occurs twice; ids must be unique")
            seen.add(name)


def paired(names: list[str], matrix: NDArray[np.floating], what: str) -> Rows:
    """Ids and rows of one matrix called `what`, once they are known to belong together."""
    if matrix.ndim != 2 or len(names) != len(matrix) or not matrix.shape[1]:
        raise Broken(
            f"expected n ids and n rows, found {len(names)} ids and '{what}' of the shape "
            f"{matrix.shape}"
        )
    if not names:
        raise Broken("the table is empty")
    check_ids(names)
    return names, matrix


def stacked(found: Iterable[tuple[str, NDArray[np.floating]]], count: int) -> Rows:
    """The rows of up to `count` single vectors; the first decides how wide they are."""
    names: list[str] = []
    matrix = np.empty((0, 0), np.float32)
    for name, vector in found:
        if not names:
            matrix = np.empty((count, len(vector)), np.float32)
        elif len(vector) != matrix.shape[1]:
            raise Broken(
                f"'{name}' has {len(vector)} values, '{names[0]}' has {matrix.shape[1]}; all "
                "must have the same number"
            )
        # A double beyond float32 becomes infinite, which whoever asked refuses.
        with np.errstate(over="ignore"):
            matrix[len(names)] = vector
        names.append(name)
    check_ids(names)
    return names, matrix[: len(names)]


def as_vector(shape: tuple[int, ...]) -> int:
    """The number of values of one vector: (D,), or D among ones."""
    values = [size for size in shape if size != 1] or [1]
    if not shape or len(values) > 1 or not values[0]:
        raise Broken(f"an array of the shape {shape}; expected one vector")
    return values[0]


def which_vectors(names: Iterable[str], kind: str) -> str:
    """Under which of its names a file that has `ids` keeps the vectors."""
    there = [name for name in VECTORS if name in names]
    if len(there) != 1:
        raise Broken(f"needs the {kind} '{IDS}' and '{VECTORS[0]}' (or '{VECTORS[1]}')")
    return there[0]


def refused(place: str, error: Exception) -> TableError:
    """The line for the user."""
    return TableError(f"'{place}': {' '.join(str(error).split()) or type(error).__name__}")
