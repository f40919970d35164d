"""Checks of arrays that callers hand over; each error names the place, the value and the way out.

Embeddings, voiceprints, seconds of speech, groups and row numbers come in here, and LLRs go out:
none that is not finite. Single values are in `values`.
"""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.values import LEAST_SECONDS, MOST, MOST_SECONDS, SECONDS

Float32 = NDArray[np.float32]
Floats = TypeVar("Floats", NDArray[np.float32], NDArray[np.float64])
_KINDS = {"U": "text", "S": "text", "c": "complex numbers", "b": "truth values"}
# A sum of squares below this has no term that is not finite.
_HARMLESS = 1e30


class Limit(NamedTuple):
    """How long a row may be, and what to do about a longer one."""

    longest: float
    way_out: str


EMBEDDING = Limit(1e15, "too large to be scored in float32; scale the embeddings as in training")
"""The products of an embedding with a model's weights, squared, still fit in float32."""
VOICEPRINT = Limit(1e5, "and no voiceprint of a model is so long; make it again with this model")
"""An LLR multiplies up to three forms of two voiceprints, each of the square of their length; those
of trained models are 3 to 30 long."""


def label(row: int, ids: Sequence[str] | None) -> str:
    """How a message calls a row: by its id where there is one."""
    return f"'{ids[row]}'" if ids is not None else f"row {row}"


def numbers(values: Any, what: str, dtype: type[np.floating]) -> NDArray[np.floating]:
    """Real numbers as a contiguous array of `dtype`.

    What numpy would quietly make numbers of is refused: text, truth values, the real part of
    complex numbers, what lies under a mask.
    """
    if type(values) is np.ndarray and values.dtype == dtype and values.flags.c_contiguous:
        return values
    parts = values if isinstance(values, list | tuple) else [values]
    if any(map(_hides_values, parts)):
        raise InputError(f"{what}: some values are masked; fill them in or leave the rows out")
    try:
        found = np.asarray(values)
        plain = found.dtype.kind in "fiu" or found.size == 0
        if not plain and found.dtype.kind == "O":
            plain = not any(isinstance(it, str | bytes | bool | complex) for it in found.flat)
        if not plain:
            kind = _KINDS.get(found.dtype.kind, str(found.dtype))
            raise InputError(f"{what}: holds {kind}; expected real numbers")
        with np.errstate(over="ignore"):  # infinite in float32: refused as such
            return np.ascontiguousarray(found, dtype=dtype).reshape(found.shape)
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever the class of a caller's object raises
        reason = (str(error).splitlines() or [""])[0][:120]
        raise InputError(f"{what}: not an array of numbers ({reason})") from None


def _hides_values(values: Any) -> bool:
    """Whether an array has values under a mask."""
    # Who has not imported it has no such array, and importing it takes time.
    masked = sys.modules.get("numpy.ma")
    return (
        masked is not None
        and isinstance(values, masked.MaskedArray)
        and bool(masked.is_masked(values))
    )


def as_matrix(
    values: Any,
    what: str,
    width: int,
    ids: Sequence[str] | None = None,
    limit: Limit = EMBEDDING,
) -> Float32:
    """A contiguous float32 matrix of `width` columns; a single vector becomes one row."""
    matrix = numbers(values, what, np.float32)
    if matrix.ndim == 1:
        matrix = matrix.reshape(1, -1)
    if matrix.ndim != 2:
        raise InputError(f"{what}: expected a matrix (n, {width}), found shape {matrix.shape}")
    if len(matrix) == 0:
        raise InputError(f"{what}: empty; there is nothing to score")
    if matrix.shape[1] != width:
        raise InputError(f"{what}: {matrix.shape[1]} values per row, the model takes {width}")
    bad = long_row(matrix, limit.longest)
    if bad is not None:
        _refuse_row(matrix, bad, what, ids, limit)
    return matrix


def long_row(matrix: NDArray[np.floating], longest: float) -> int | None:
    """The first row that is not finite or longer than `longest`; None if there is none."""
    # One sum of all squares is much faster than a look at each value or row; only where it is
    # too large for one row, or met NaN, are the rows looked at.
    if np.vdot(matrix, matrix) <= longest**2:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        lengths = np.linalg.norm(matrix.astype(np.float64), axis=1)
        bad = np.flatnonzero(~(lengths <= longest))
    return int(bad[0]) if len(bad) else None


def _refuse_row(
    matrix: NDArray[np.floating], row: int, what: str, ids: Sequence[str] | None, limit: Limit
) -> None:
    strange = ~np.isfinite(matrix)
    if strange.any():
        rows = np.flatnonzero(strange.any(axis=1))
        row = int(rows[0])
        raise InputError(
            f"{what}: {label(row, ids)} holds {matrix[row][strange[row]][0]} ({len(rows)} such "
            "rows); remove or extract it again"
        )
    length = np.linalg.norm(matrix[row].astype(np.float64))
    raise InputError(f"{what}: {label(row, ids)} has length {length:.3g}, {limit.way_out}")


def embeddings(values: Any, what: str, width: int, ids: Sequence[str] | None = None) -> Float32:
    """Embeddings fit to be projected: finite, and not all zero."""
    matrix = as_matrix(values, what, width, ids)
    if not matrix.any(axis=1).all():
        zero = np.flatnonzero(~matrix.any(axis=1))
        raise InputError(
            f"{what}: {label(int(zero[0]), ids)} is all zero ({len(zero)} such rows); it says "
            "nothing of a speaker: remove it or extract it again"
        )
    return matrix


def voiceprints(
    values: Any,
    what: str,
    width: int,
    ones: NDArray[np.int64],
    ids: Sequence[str] | None = None,
    embedding_dim: int = 0,
) -> Float32:
    """Voiceprints fit to be compared: finite, no longer than models make them, with their ones."""
    try:
        matrix = as_matrix(values, what, width, ids, VOICEPRINT)
    except InputError:
        if width != embedding_dim == _width(values):
            raise InputError(
                f"{what}: {embedding_dim} values per row, as an embedding has; a voiceprint of "
                f"this model has {width}: make it by backend.enroll(embedding, seconds)"
            ) from None
        raise
    row = row_without_ones(matrix, ones)
    if row is not None:
        found = matrix[row, ones]
        raise InputError(
            f"{what}: {label(row, ids)} is no voiceprint of this model, or was scaled: where it "
            f"has 1 is {found[found != 1.0][0]:g}; make it again with it"
        )
    return matrix


def _width(values: Any) -> int | None:
    """Values per row of something that may be a matrix."""
    try:
        return int(np.shape(values)[-1])
    except Exception:  # whatever the class of a caller's object raises
        return None


def row_without_ones(matrix: NDArray[np.floating], ones: NDArray[np.int64]) -> int | None:
    """The first row that has not 1 in all of these columns; None if there is none."""
    if len(matrix) == 1:  # part of every verification, so without numpy's overhead
        return None if set(matrix[0].take(ones).tolist()) <= {1.0} else 0
    fine = matrix.take(ones, axis=1) == 1.0
    return None if fine.all() else int(np.argmin(fine.all(axis=1)))


def made_voiceprints(made: Float32, ids: Sequence[str] | None = None) -> Float32:
    """Voiceprints that a model made of embeddings, if they can be compared."""
    row = long_row(made, VOICEPRINT.longest)
    if row is not None:
        how = "too long to be compared" if np.isfinite(made[row]).all() else "not finite"
        raise InputError(
            f"embeddings: the voiceprint of {label(row, ids)} is {how}; is it an embedding of the "
            "kind that the model was trained on?"
        )
    return made


def lengths(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    """Euclidean length of each row; also of rows whose squares are too small for float32."""
    found = np.sqrt(np.einsum("ij,ij->i", matrix, matrix)).astype(np.float64)
    odd = ~((found > 1e-15) & (found < np.inf))
    if odd.any():
        found[odd] = np.linalg.norm(matrix[odd].astype(np.float64), axis=1)
    return found


def finite_llrs(llrs: Floats) -> Floats:
    """LLRs (n,) or (E, T), once it is known that all are numbers, in float32 too."""
    if not np.vdot(llrs, llrs) <= _HARMLESS:
        fine = np.abs(llrs) <= np.finfo(np.float32).max
        if not fine.all():
            where = np.argwhere(~fine)[0].tolist()
            raise InputError(
                f"an LLR is {llrs[tuple(where)]} (of rows {' and '.join(map(str, where))}): one of "
                "the two voiceprints is like none of this model; make both again"
            )
    return llrs


def seconds(
    values: Any, what: str, count: int, needed: bool, ids: Sequence[str] | None = None
) -> Float32:
    """Seconds of speech, one per row; ones where the model does not use them."""
    if values is None:
        if needed:
            raise InputError(f"{what}: missing; this model needs the seconds of speech of each row")
        return np.ones(count, dtype=np.float32)
    vector = numbers(values, what, np.float64).reshape(-1)
    if len(vector) != count:
        raise InputError(f"{what}: {len(vector)} durations for {count} embeddings")
    if not (vector.min() >= LEAST_SECONDS and vector.max() <= MOST_SECONDS):  # false for NaN, too
        bad = np.flatnonzero(~((vector >= LEAST_SECONDS) & (vector <= MOST_SECONDS)))
        row = int(bad[0])
        raise InputError(
            f"{what}: {label(row, ids)} has {vector[row]:g} seconds ({len(bad)} such rows); "
            f"expected {SECONDS}"
        )
    return vector.astype(np.float32)


def counts(values: Any, what: str, count: int) -> Float32:
    """Numbers of utterances, one per row."""
    vector = numbers(values, what, np.float64).reshape(-1)
    if len(vector) != count:
        raise InputError(f"{what}: {len(vector)} numbers for {count} embeddings")
    fine = (vector >= 1) & (vector <= MOST) & (vector == np.floor(vector))
    if not fine.all():
        row = int(np.argmin(fine))
        raise InputError(f"{what}: row {row} has {vector[row]:g}; expected a whole number above 0")
    return vector.astype(np.float32)


def group_numbers(values: Any, count: int) -> NDArray[np.int64]:
    """Numbers 0 to G-1, each at least once, one per row."""
    found = _whole_numbers(values, "groups")
    if found.shape != (count,):
        raise InputError(f"groups: expected {count} whole numbers, one per embedding")
    if found.min() < 0:
        raise InputError(f"groups: found {found.min()}; groups are numbered from 0")
    there = np.unique(found)
    holes = there != np.arange(len(there))
    if holes.any():
        raise InputError(f"groups: no row has number {int(np.argmax(holes))}")
    return found


def indices(values: Any, what: str, limit: int) -> NDArray[np.int64]:
    """Row numbers below `limit`."""
    found = _whole_numbers(values, what)
    if found.ndim != 1:
        raise InputError(f"{what}: expected a vector of whole numbers")
    if len(found) and (found.min() < 0 or found.max() >= limit):
        bad = found[(found < 0) | (found >= limit)][0]
        raise InputError(f"{what}: {bad} is outside 0 to {limit - 1}")
    return found


def _whole_numbers(values: Any, what: str) -> NDArray[np.int64]:
    try:
        found = np.asarray(values)
    except Exception:  # as above
        found = np.empty(0, object)
    if _hides_values(values) or (
        found.dtype.kind not in "iu" and (found.size or found.dtype.kind == "O")
    ):
        raise InputError(f"{what}: expected a vector of whole numbers")
    if found.dtype == np.uint64 and found.size and found.max() > MOST:
        raise InputError(f"{what}: found {found.max()}; expected numbers of rows")
    return found.astype(np.int64, copy=False)
