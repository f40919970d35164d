"""Tables of embeddings and other vectors, read strictly: whole and finite, or an error.

`read_vectors` gives one matrix for a table whose vectors all have the same size;
`iterate_vectors` gives vectors of any size one by one.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.scp import read_scp, scp_entries
from dcaplda.runtime.tables.specifiers import Buffer, Rspecifier, parse_rspecifier, read_input
from dcaplda.runtime.tables.vector_format import Broken, Span, scan_archive, values

# Rows checked for NaN at once; bounds the memory of the check.
_CHECK_ROWS = 8192


@dataclass(frozen=True)
class VectorTable:
    """Ids and their vectors, row i of `matrix` (N, D) belonging to `ids[i]`.

    `skipped` names what a permissive (`p`) reader left out, and why.
    """

    place: str
    ids: list[str]
    matrix: NDArray[np.float32]
    skipped: list[str] = field(default_factory=list)

    def rows(self) -> dict[str, int]:
        """The row of each id."""
        return {name: row for row, name in enumerate(self.ids)}


def read_vectors(
    rspecifier: str, scp_root: str = "", only: Collection[str] | None = None
) -> VectorTable:
    """Read a table of equally long vectors into one float32 matrix.

    Relative file names in an scp start at the working directory, or at `scp_root`. `only`
    restricts what is loaded to these ids. Duplicate ids, vectors of unequal size, NaN or
    infinite values, damaged data and an empty table raise TableError.
    """
    specifier = parse_rspecifier(rspecifier)
    skipped: list[str] = []
    count, entries = _entries(specifier, scp_root, skipped, only)
    rows = _Rows(rspecifier, count)
    # A double beyond float32 becomes infinite, which `finished` refuses.
    with np.errstate(over="ignore"):
        for key, data, span in entries:
            rows.add(key, data, span)
    if skipped and not rows.ids:
        raise TableError(f"'{rspecifier}': no entry can be read; the first: {skipped[0]}")
    return VectorTable(rspecifier, rows.ids, rows.finished(), skipped)


def iterate_vectors(
    rspecifier: str, scp_root: str = "", skipped: list[str] | None = None
) -> Iterator[tuple[str, NDArray[np.floating]]]:
    """Read the vectors of a table one by one, whatever their sizes, with the same strictness.

    What a permissive (`p`) specifier lets pass is added to `skipped`.
    """
    specifier = parse_rspecifier(rspecifier)
    _, entries = _entries(specifier, scp_root, [] if skipped is None else skipped, None)
    for key, data, span in entries:
        numbers = _values(rspecifier, key, data, span)
        _check_finite(rspecifier, [key], numbers[None, :])
        yield key, numbers


class _Rows:
    """A matrix under construction; the first vector decides how wide it is."""

    def __init__(self, place: str, count: int) -> None:
        self.place = place
        self.count = count
        self.ids: list[str] = []
        self.matrix = np.empty((0, 0), np.float32)

    def add(self, key: str, data: Buffer, span: Span) -> None:
        """Append one vector."""
        numbers = _values(self.place, key, data, span)
        row = len(self.ids)
        if row == 0:
            self.matrix = np.empty((self.count, len(numbers)), np.float32)
        elif len(numbers) != self.matrix.shape[1]:
            raise TableError(
                f"'{self.place}': '{key}' has {len(numbers)} values, "
                f"'{self.ids[0]}' has {self.matrix.shape[1]}; all must have the same number"
            )
        self.matrix[row] = numbers
        self.ids.append(key)

    def finished(self) -> NDArray[np.float32]:
        """The matrix, once it is known to be finite."""
        matrix = self.matrix[: len(self.ids)]
        _check_finite(self.place, self.ids, matrix)
        return matrix


def _values(place: str, key: str, data: Buffer, span: Span) -> NDArray[np.floating]:
    try:
        return values(data, span)
    except Broken as error:
        raise TableError(f"'{place}': '{key}': {error}") from None


def _check_finite(place: str, ids: list[str], matrix: NDArray[np.floating]) -> None:
    for first in range(0, len(ids), _CHECK_ROWS):
        finite = np.isfinite(matrix[first : first + _CHECK_ROWS])
        if not finite.all():
            row, column = (int(x) for x in np.argwhere(~finite)[0])
            value = matrix[first + row, column]
            raise TableError(
                f"'{place}': '{ids[first + row]}' holds {value} as value {column + 1}; "
                "extract that vector again or take it out"
            )


_Entry = tuple[str, Buffer, Span]


def _entries(
    specifier: Rspecifier, scp_root: str, skipped: list[str], only: Collection[str] | None
) -> tuple[int, Iterator[_Entry]]:
    """At most how many entries there are, and an iterator over them."""
    if specifier.kind == "scp":
        lines = read_scp(specifier)
        if not lines:
            raise TableError(f"'{specifier.text}': the table is empty")
        if only is not None:
            lines = {key: source for key, source in lines.items() if key in only}
        return len(lines), scp_entries(specifier, lines.items(), scp_root, skipped)
    data = read_input(specifier.source)
    spans = [
        (key, span)
        for key, span in _archive_spans(specifier, data, skipped)
        if only is None or key in only
    ]
    return len(spans), ((key, data, span) for key, span in spans)


def _archive_spans(
    specifier: Rspecifier, data: Buffer, skipped: list[str]
) -> Iterator[tuple[str, Span]]:
    place = f"'{specifier.text}'"
    seen: set[str] = set()
    scan = scan_archive(data, place)
    while True:
        try:
            key, span = next(scan)
        except StopIteration:
            break
        except TableError as error:
            if not specifier.permissive:
                raise
            # Kaldi's meaning of `p` for an archive: what follows the damage does not exist.
            skipped.append(str(error))
            return
        if key in seen:
            raise TableError(f"{place}: '{key}' occurs twice; ids must be unique")
        seen.add(key)
        yield key, span
    if not seen:
        raise TableError(f"{place}: the table is empty")
