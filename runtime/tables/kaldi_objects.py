"""Single Kaldi objects in a file of their own: a vector, a matrix, a PLDA model.

Binary (float or double) and text forms are told apart by the leading `\\0B`. Sizes in a header
are checked against the size of the file before anything is allocated.
"""

import re
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import Buffer, read_input
from dcaplda.runtime.tables.vector_format import Broken, parse_numbers

_TOKEN = re.compile(rb"\s*(\S+)")


@dataclass(frozen=True)
class KaldiPlda:
    """A PLDA model in the space where within-class covariance is I and between-class diag(psi).

    `transform` (D, D) brings a vector, minus `mean` (D,), into that space.
    """

    mean: NDArray[np.float64]
    transform: NDArray[np.float64]
    psi: NDArray[np.float64]


def read_vector_file(name: str) -> NDArray[np.float64]:
    """A vector, as in mean.vec."""
    reader = _Reader(name)
    vector = reader.vector()
    reader.finish()
    return vector


def read_matrix_file(name: str) -> NDArray[np.float64]:
    """A matrix, as in transform.mat."""
    reader = _Reader(name)
    matrix = reader.matrix()
    reader.finish()
    return matrix


def read_plda_file(name: str) -> KaldiPlda:
    """A PLDA model: `<Plda>`, mean, transform, psi, `</Plda>`."""
    reader = _Reader(name)
    reader.expect(b"<Plda>")
    plda = KaldiPlda(reader.vector(), reader.matrix(), reader.vector())
    reader.expect(b"</Plda>")
    reader.finish()
    size = len(plda.mean)
    if plda.transform.shape != (size, size) or len(plda.psi) != size:
        rows, columns = plda.transform.shape
        raise TableError(
            f"'{name}': mean of {size} values, transform of {rows} x {columns} and psi of "
            f"{len(plda.psi)} do not belong together"
        )
    if (plda.psi < 0).any():
        raise TableError(f"'{name}': psi has a negative value; this is no valid PLDA model")
    return plda


class _Reader:
    """Takes one object after the other from a file."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.data: Buffer = read_input(name)
        if not len(self.data):
            raise TableError(f"'{name}': the file is empty")
        self.binary = self.data[:2] == b"\0B"
        self.position = 2 if self.binary else 0

    def _fail(self, found: str) -> TableError:
        return TableError(f"'{self.name}': {found} at byte {self.position}; is it the right file?")

    def _token(self) -> bytes:
        match = _TOKEN.match(self.data, self.position)
        if match is None:
            raise self._fail("the file ends too early")
        # Behind a binary token stands exactly one blank, which is not data.
        self.position = match.end() + (1 if self.binary else 0)
        return bytes(match[1])

    def expect(self, token: bytes) -> None:
        """Step over a token."""
        found = self._token()
        if found != token:
            raise self._fail(f"{found[:20]!r} instead of {token.decode()}")

    def finish(self) -> None:
        """Make sure that nothing follows."""
        if bytes(self.data[self.position :]).strip():
            raise self._fail("unexpected data after the object")

    def _binary_values(self, kind: bytes, sizes: int) -> tuple[list[int], NDArray[np.float64]]:
        head = bytes(self.data[self.position : self.position + 3])
        dtype = {b"F" + kind + b" ": "<f4", b"D" + kind + b" ": "<f8"}.get(head)
        if dtype is None:
            what = "vector" if kind == b"V" else "matrix"
            raise self._fail(f"{head!r} instead of a {what}")
        shape = []
        position = self.position + 3
        for _ in range(sizes):
            if position + 5 > len(self.data):
                raise self._fail("the file ends too early")
            width, size = struct.unpack_from("<Bi", self.data, position)
            if width != 4 or size <= 0:
                raise self._fail(f"a size of {size}")
            shape.append(size)
            position += 5
        count = int(np.prod(np.array(shape, dtype=object)))
        stop = position + count * np.dtype(dtype).itemsize
        if stop > len(self.data):
            raise self._fail(f"{count} values announced, but the file ends too early")
        numbers = np.frombuffer(self.data, dtype, count, position).astype(np.float64)
        self.position = stop
        return shape, numbers

    def _text_rows(self) -> list[NDArray[np.float64]]:
        self.expect(b"[")
        stop = self.data.find(b"]", self.position)
        if stop < 0:
            raise self._fail("no closing ']'")
        rows = []
        for line in bytes(self.data[self.position : stop]).split(b"\n"):
            if line.strip():
                try:
                    rows.append(parse_numbers(line))
                except Broken as error:
                    raise self._fail(f"an object with {error}") from None
        self.position = stop + 1
        return rows

    def vector(self) -> NDArray[np.float64]:
        """The next object, a vector."""
        if self.binary:
            numbers = self._binary_values(b"V", 1)[1]
        else:
            rows = self._text_rows()
            if len(rows) != 1:
                raise self._fail(f"{len(rows)} rows instead of a vector")
            numbers = rows[0]
        return self._finite(numbers)

    def matrix(self) -> NDArray[np.float64]:
        """The next object, a matrix."""
        if self.binary:
            shape, numbers = self._binary_values(b"M", 2)
            return self._finite(numbers.reshape(shape))
        rows = self._text_rows()
        if not rows or any(len(row) != len(rows[0]) for row in rows):
            raise self._fail("a matrix without rows or with rows of unequal length")
        return self._finite(np.array(rows))

    def _finite(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        if not np.isfinite(numbers).all():
            raise self._fail("a NaN or infinite value before the object's end")
        return numbers
