"""Single Kaldi objects in a file of their own: a vector, a PLDA model, and what reads them.

Binary (float or double) and text forms are told apart by the leading `\\0B`. kaldiio decodes the
binary vectors and matrices (see `object_format`); it knows no `<Plda>`, so the steps from one
object to the next are taken here.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.object_format import (
    COMPRESSED_MATRIX,
    FLOAT_VECTOR,
    PLAIN_MATRIX,
    as_matrix,
    decoded,
    extent,
    parse_rows,
)
from dcaplda.runtime.tables.specifiers import Buffer, read_input
from dcaplda.runtime.tables.vector_format import Broken

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
    reader = ObjectReader(name)
    vector = reader.vector()
    reader.finish()
    return vector


def read_plda_file(name: str) -> KaldiPlda:
    """A PLDA model: `<Plda>`, mean, transform, psi, `</Plda>`."""
    reader = ObjectReader(name)
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


class ObjectReader:
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

    def _binary(self, kinds: Collection[bytes], what: str) -> NDArray:
        try:
            stop = extent(self.data, self.position, kinds, what)
        except Broken as error:
            raise self._fail(str(error)) from None
        numbers = decoded(self.data, self.position, stop)
        self.position = stop
        return numbers

    def _text_rows(self) -> list[NDArray[np.float64]]:
        self.expect(b"[")
        stop = self.data.find(b"]", self.position)
        if stop < 0:
            raise self._fail("no closing ']'")
        try:
            rows = parse_rows(bytes(self.data[self.position : stop]))
        except Broken as error:
            raise self._fail(f"an object with {error}") from None
        self.position = stop + 1
        return rows

    def vector(self) -> NDArray[np.float64]:
        """The next object, a vector."""
        if self.binary:
            return self._finite(self._binary(FLOAT_VECTOR, "vector"))
        rows = self._text_rows()
        if len(rows) != 1:
            raise self._fail(f"{len(rows)} rows instead of a vector")
        return self._finite(rows[0])

    def matrix(self, compressed: bool = False) -> NDArray[np.float64]:
        """The next object, a matrix, which may also be a compressed one if `compressed`."""
        if self.binary:
            kinds = PLAIN_MATRIX + (COMPRESSED_MATRIX if compressed else ())
            return self._finite(self._binary(kinds, "matrix"))
        try:
            return self._finite(as_matrix(self._text_rows()))
        except Broken as error:
            raise self._fail(str(error)) from None

    def _finite(self, numbers: NDArray) -> NDArray[np.float64]:
        if not np.isfinite(numbers).all():
            raise self._fail("a NaN or infinite value before the object's end")
        return numbers.astype(np.float64)
