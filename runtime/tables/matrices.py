"""Kaldi matrices, single and in tables: read strictly, written whole, by kaldiio.

Binary matrices of floats or doubles, compressed ones (CM, CM2, CM3) and text. Files, pipes and
offsets are ours (`entries`, `writing`), and so is the check of what a header announces
(`object_format`); kaldiio turns bytes into numbers and back.
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError, UsageError
from dcaplda.runtime.tables.entries import entries
from dcaplda.runtime.tables.kaldi_objects import ObjectReader
from dcaplda.runtime.tables.object_format import (
    OBJECT,
    as_matrix,
    decoded,
    locate_matrix,
    parse_rows,
)
from dcaplda.runtime.tables.specifiers import Buffer, parse_rspecifier, writing
from dcaplda.runtime.tables.vector_format import Broken, Span
from dcaplda.runtime.tables.vector_writer import Put, check_wspecifier, write_entries

# Kaldi's numbers of the methods whose range is taken from the values. The others have a fixed one,
# and kaldiio lets values outside of it wrap around.
COMPRESSION = {
    0: "none",
    1: "CM, or CM2 up to 8 rows (Kaldi's default)",
    2: "CM: one byte a value, its scale by column",
    3: "CM2: two bytes a value",
    5: "CM3: one byte a value",
}


def read_matrix_file(name: str) -> NDArray[np.float64]:
    """Read one matrix from a file of its own, as transform.mat, with the same strictness."""
    reader = ObjectReader(name)
    matrix = reader.matrix(compressed=True)
    reader.finish()
    return matrix


def iterate_matrices(
    rspecifier: str, scp_root: str = "", skipped: list[str] | None = None
) -> Iterator[tuple[str, NDArray[np.floating]]]:
    """Read the matrices (rows, columns) of a table one by one, whatever their sizes.

    Compressed ones become float32, text float64. Damage, NaN or infinite values, repeated ids and
    an empty table raise TableError; what a permissive (`p`) specifier lets pass is added to
    `skipped`.
    """
    specifier = parse_rspecifier(rspecifier)
    skipped = [] if skipped is None else skipped
    _, found = entries(specifier, scp_root, skipped, find=locate_matrix)
    for key, data, span in found:
        try:
            matrix = _values(data, span)
        except Broken as error:
            raise TableError(f"'{rspecifier}': '{key}': {error}; make the table again") from None
        _check_finite(f"'{rspecifier}': '{key}'", matrix)
        yield key, matrix


def write_matrices(
    wspecifier: str, matrices: Iterable[tuple[str, NDArray[np.floating]]], compression: int = 0
) -> None:
    """Write (id, matrix) pairs as a table, in their precision; whole files or none.

    `compression` is one of COMPRESSION. Text has as many digits as bring the same numbers back.
    """
    target = check_wspecifier(wspecifier)
    put = _put(compression, target.as_text)
    checked = ((key, _writable(f"'{key}'", matrix, compression)) for key, matrix in matrices)
    write_entries(target, checked, put)


def write_matrix_file(
    name: str, matrix: NDArray[np.floating], compression: int = 0, as_text: bool = False
) -> None:
    """Write one matrix to a file of its own (as transform.mat), stdout or a pipe."""
    put = _put(compression, as_text)
    checked = _writable(f"'{name}'", matrix, compression)
    with writing(name) as stream:
        put(stream, checked)


def _values(data: Buffer, span: Span) -> NDArray[np.floating]:
    if span.dtype == OBJECT:
        return decoded(data, span.start, span.stop)
    return as_matrix(parse_rows(bytes(data[span.start : span.stop])))


def _check_finite(place: str, matrix: NDArray) -> None:
    finite = np.isfinite(matrix)
    if not finite.all():
        row, column = (int(x) for x in np.argwhere(~finite)[0])
        raise TableError(
            f"{place} holds {matrix[row, column]} in row {row + 1}, column {column + 1}; "
            "compute that matrix again or take it out"
        )


def _put(compression: int, as_text: bool) -> Put:
    from kaldiio import matio

    if compression not in COMPRESSION:
        known = ", ".join(f"{number} ({what})" for number, what in COMPRESSION.items())
        raise UsageError(f"compression method {compression} is not offered; known: {known}")
    if as_text and compression:
        raise UsageError("a text table cannot be compressed; leave out the 't' or the compression")
    if as_text:
        # 9 and 17 digits carry a float32 and a float64 exactly.
        return lambda stream, matrix: int(
            matio.write_array_ascii(stream, matrix, f".{17 if matrix.itemsize == 8 else 9}g")
        )
    method = compression or None
    return lambda stream, matrix: int(matio.write_array(stream, matrix, compression_method=method))


def _writable(place: str, matrix: NDArray, compression: int) -> NDArray:
    """The matrix in a type that Kaldi has, once it is known to be whole and finite."""
    if matrix.ndim != 2 or not matrix.size:
        raise TableError(f"{place} has the shape {matrix.shape}; expected rows and columns")
    double = matrix.dtype == np.float64 and not compression
    with np.errstate(over="ignore"):
        numbers = np.ascontiguousarray(matrix, "<f8" if double else "<f4")
        _check_finite(place, numbers)
        if compression and not np.isfinite(numbers.max() - numbers.min()):
            raise TableError(f"{place}: the range of the values is too large to be compressed")
    return numbers
