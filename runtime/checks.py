"""Checks of what callers hand over; each error names the place, the value and the way out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError

Float32 = NDArray[np.float32]

LONGEST = 1e15
"""Longest row whose products with a model's weights, squared, still fit in float32."""


def label(row: int, ids: Sequence[str] | None) -> str:
    """How a message calls a row: by its id where there is one."""
    return f"'{ids[row]}'" if ids is not None else f"row {row}"


def as_matrix(values: Any, what: str, width: int, ids: Sequence[str] | None = None) -> Float32:
    """A contiguous float32 matrix of `width` columns; a single vector becomes one row."""
    try:
        matrix = np.ascontiguousarray(values, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}: not an array of numbers ({error})") from None
    if np.ndim(values) == 1 or matrix.ndim == 1:
        matrix = matrix.reshape(1, -1)
    if matrix.ndim != 2:
        raise InputError(f"{what}: expected a matrix (n, {width}), found shape {matrix.shape}")
    if len(matrix) == 0:
        raise InputError(f"{what}: empty; there is nothing to score")
    if matrix.shape[1] != width:
        raise InputError(f"{what}: {matrix.shape[1]} values per row, the model takes {width}")
    # A sum of squares is much faster than isfinite; only one that overflowed or met NaN is
    # looked into.
    if not math.isfinite(np.vdot(matrix, matrix)):
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(bad):
            row = int(bad[0])
            value = matrix[row][~np.isfinite(matrix[row])][0]
            raise InputError(
                f"{what}: {label(row, ids)} holds {value} ({len(bad)} such rows); remove or "
                "extract it again"
            )
        lengths = np.linalg.norm(matrix.astype(np.float64), axis=1)
        if lengths.max() > LONGEST:
            row = int(lengths.argmax())
            raise InputError(
                f"{what}: {label(row, ids)} has length {lengths[row]:.3g}, too large to be scored "
                "in float32; scale the embeddings as in training"
            )
    return matrix


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


def seconds(
    values: Any, what: str, count: int, needed: bool, ids: Sequence[str] | None = None
) -> Float32:
    """Durations in seconds, one per row; ones where the model does not use them."""
    if values is None:
        if needed:
            raise InputError(f"{what}: missing; this model needs the seconds of speech of each row")
        return np.ones(count, dtype=np.float32)
    try:
        vector = np.ascontiguousarray(values, dtype=np.float32).reshape(-1)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}: not numbers ({error})") from None
    if len(vector) != count:
        raise InputError(f"{what}: {len(vector)} durations for {count} embeddings")
    if not (vector.min() > 0 and vector.max() < math.inf):  # also false for NaN
        bad = np.flatnonzero(~((vector > 0) & (vector < np.inf)))
        row = int(bad[0])
        raise InputError(
            f"{what}: {label(row, ids)} has {vector[row]} seconds ({len(bad)} such rows); "
            "expected a positive number of seconds of speech"
        )
    return vector


def group_numbers(values: Any, count: int) -> NDArray[np.int64]:
    """Numbers 0 to G-1, each at least once, one per row."""
    numbers = np.asarray(values)
    if numbers.shape != (count,) or numbers.dtype.kind not in "iu":
        raise InputError(f"groups: expected {count} whole numbers, one per embedding")
    numbers = numbers.astype(np.int64)
    if numbers.min() < 0:
        raise InputError(f"groups: found {numbers.min()}; groups are numbered from 0")
    sizes = np.bincount(numbers)
    if not sizes.all():
        raise InputError(f"groups: no row has number {int(np.flatnonzero(sizes == 0)[0])}")
    return numbers


def indices(values: Any, what: str, limit: int) -> NDArray[np.int64]:
    """Row numbers below `limit`."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.dtype.kind not in "iu" and len(numbers)):
        raise InputError(f"{what}: expected a vector of whole numbers")
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= limit):
        bad = numbers[(numbers < 0) | (numbers >= limit)][0]
        raise InputError(f"{what}: {bad} is outside 0 to {limit - 1}")
    return numbers.astype(np.int64, copy=False)
