"""Weighted mean, between-class and within-class covariance of labelled vectors (eq. 5-7).

A class is what counts as one speaker (a speaker of one domain, see data.py); `weights` has one
number c_s per class. An integer weight is worth that many copies of the class, each taken as a
speaker of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import ModelError

Array = NDArray[np.float64]
Labels = NDArray[np.integer]

# Rows turned into float64 at a time, so that the training matrix is never copied whole.
CHUNK = 1 << 13
# A covariance whose smallest eigenvalue is below this share of its mean one cannot be inverted
# with any digit of the result left in float32.
SINGULAR = 1e-7
# What is added then, as a share of the mean variance.
RESCUE = 1e-3


class Rows(Protocol):
    """Vectors that are read a chunk at a time: a matrix, or `Mapped`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""

    def __getitem__(self, rows: slice, /) -> NDArray[np.floating]:
        """Some rows."""


@dataclass(frozen=True)
class Mapped:
    """Rows that are computed when they are asked for, so that they never are in memory all."""

    shape: tuple[int, int]
    chunk: Callable[[slice], NDArray[np.floating]]

    def __getitem__(self, rows: slice) -> NDArray[np.floating]:
        """Some rows."""
        return self.chunk(rows)


@dataclass(frozen=True)
class Covariances:
    """Sample estimates: mu_0, and the covariances whose inverses are B_0 and W_0."""

    mean: Array
    between: Array
    within: Array
    class_means: Array
    counts: Array
    weights: Array

    @property
    def total(self) -> Array:
        """Weighted covariance of the vectors themselves."""
        return self.between + self.within


def weighted_covariances(
    vectors: Rows, classes: Labels, weights: Array | None = None
) -> Covariances:
    """Eq. 5-7 before inversion, in float64; `classes` counts from 0 without holes.

    mu_0 = sum_s c_s N_s mu_s / sum_s c_s N_s, and with the same denominator
    between = sum_s c_s N_s (mu_s - mu_0)(mu_s - mu_0)', within = sum_s c_s sum_i (x_i - mu_s)(..)'.
    """
    counts = np.bincount(classes).astype(np.float64)
    if counts.min(initial=1.0) == 0:
        raise ValueError("a class without vectors")
    weights = np.ones_like(counts) if weights is None else np.asarray(weights, dtype=np.float64)
    means = class_sums(vectors, classes, counts.size)
    means /= counts[:, None]
    mass = weights * counts
    mean = mass @ means / mass.sum()
    between = np.zeros((mean.size, mean.size))
    for rows in row_chunks(len(means)):
        spread = means[rows] - mean
        between += (spread * mass[rows, None]).T @ spread
    between /= mass.sum()
    within = np.zeros_like(between)
    for rows in row_chunks(vectors.shape[0]):
        residual = vectors[rows].astype(np.float64) - means[classes[rows]]
        within += (residual * weights[classes[rows], None]).T @ residual
    return Covariances(mean, between, within / mass.sum(), means, counts, weights)


def class_sums(vectors: Rows, classes: Labels, n_classes: int) -> Array:
    """Sum of the vectors of each class, in float64; (n, D) -> (n_classes, D)."""
    from scipy.sparse import csr_matrix

    sums = np.zeros((n_classes, vectors.shape[1]))
    for rows in row_chunks(vectors.shape[0]):
        # Of many classes a chunk has few, as the rows of one are neighbours.
        found, place = np.unique(classes[rows], return_inverse=True)
        entries = np.ones(len(place)), (place, np.arange(len(place)))
        of_chunk = csr_matrix(entries, shape=(len(found), len(place)))
        sums[found] += of_chunk @ vectors[rows].astype(np.float64)
    return sums


def row_chunks(n_rows: int) -> list[slice]:
    """All rows, a chunk at a time."""
    return [slice(start, start + CHUNK) for start in range(0, n_rows, CHUNK)]


def shrunk(covariance: Array, amount: float) -> Array:
    """The covariance with `amount` of its mean variance added to every variance."""
    variance = float(np.trace(covariance)) / len(covariance)
    return covariance + amount * variance * np.eye(len(covariance))


def invertible(covariance: Array, name: str, notes: list[str]) -> Array:
    """The covariance itself, or a slightly shrunk one, with a note, where it is singular.

    Fewer speakers (or samples) than dimensions leave directions without variance; a model
    made of such a matrix would be infinite in them.
    """
    if not np.isfinite(covariance).all():
        raise ModelError(f"{name} covariance is not finite: the vectors are too large")
    eigenvalues = np.linalg.eigvalsh(covariance)
    mean = float(eigenvalues.mean())
    if not mean > 0:
        raise ModelError(f"{name} covariance is zero: all its vectors are the same")
    if eigenvalues[0] > SINGULAR * mean:
        return covariance
    empty = int(np.count_nonzero(eigenvalues <= SINGULAR * mean))
    notes.append(
        f"{name} covariance has no variance in {empty} of {len(covariance)} directions (too few "
        f"speakers or samples); added {RESCUE:g} of its mean variance to all; set a shrinkage or "
        "a smaller lda_dim to choose for yourself"
    )
    return shrunk(covariance, RESCUE)
