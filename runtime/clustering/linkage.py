"""Agglomerative clustering by LLRs: the two clusters that agree most become one, while they should.

It ends where the largest LLR between two clusters is no longer above the threshold, the negative
log odds of two segments being of one speaker: a number that follows from a prior, not a tuned one.
"""

from collections.abc import Callable
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.joint.rows import JointModel, Sides

Labels = NDArray[np.int64]
Matrix = NDArray[np.float64]


def average_link(llrs: NDArray[np.floating], threshold: float, count: int = 0) -> Labels:
    """Clusters by the mean LLR of their pairs; (n, n) -> the cluster of each row, from 0.

    `count` above 0: so many clusters, whatever the threshold says.
    """
    sizes = np.ones(len(llrs))

    def joined(kept: int, gone: int, matrix: Matrix) -> Matrix:
        weights = sizes[kept], sizes[gone]
        sizes[kept] += sizes[gone]
        mean: Matrix = (weights[0] * matrix[kept] + weights[1] * matrix[gone]) / sum(weights)
        return mean

    return _clustered(_symmetric(llrs), threshold, count, joined)


def by_the_book(model: JointModel, sides: Sides, threshold: float, count: int = 0) -> Labels:
    """Clusters by the LLR of all utterances of the one and all of the other; one side each."""
    clusters = Sides(*(np.array(getattr(sides, field.name)) for field in fields(Sides)))
    alive = np.ones(len(sides), np.bool_)

    def joined(kept: int, gone: int, matrix: Matrix) -> Matrix:
        one = model.merged(clusters.take([kept, gone]), np.zeros(2, np.int64), 1)
        for field in fields(Sides):
            getattr(clusters, field.name)[kept] = getattr(one, field.name)[0]
        alive[gone] = False
        # One direction: the LLR of two sides is that of the two exchanged.
        row = np.full(len(alive), -np.inf)
        row[alive] = model.llrs(one, clusters.take(alive))[0]
        return row

    return _clustered(_symmetric(model.llrs(sides, sides)), threshold, count, joined)


def _symmetric(llrs: NDArray[np.floating]) -> Matrix:
    matrix = np.asarray(llrs, np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"LLRs to cluster by: shape {matrix.shape}; expected (n, n)")
    if not np.isfinite(matrix).all():
        raise InputError("LLRs to cluster by: some are not finite")
    # What is trained is symmetric but for rounding; a cluster must not depend on the order.
    return 0.5 * (matrix + matrix.T)


def _clustered(
    matrix: Matrix, threshold: float, count: int, joined: Callable[[int, int, Matrix], Matrix]
) -> Labels:
    """Join the closest two, again and again; row maxima are kept, so that n^2 work does it.

    `joined(kept, gone, matrix)` gives the LLRs (n,) of cluster `kept`, which has taken in `gone`,
    with every cluster.
    """
    n = len(matrix)
    if count > n:
        raise InputError(f"{count} speakers of {n} utterances; each has at least one")
    owner = np.arange(n)
    np.fill_diagonal(matrix, -np.inf)
    gone = np.zeros(n, np.bool_)
    best = matrix.argmax(axis=1) if n else owner
    left = n
    while left > max(count, 1):
        heights = matrix[np.arange(n), best]
        kept = int(heights.argmax())
        other = int(best[kept])
        if not count and not heights[kept] > threshold:
            break
        kept, other = min(kept, other), max(kept, other)
        row = joined(kept, other, matrix)
        gone[other] = True
        row = np.where(gone, -np.inf, row)
        row[kept] = -np.inf
        matrix[kept], matrix[:, kept] = row, row
        matrix[other], matrix[:, other] = -np.inf, -np.inf
        owner[owner == other] = kept
        left -= 1
        # Whose best partner has changed looks again; others may have found a better one.
        stale = np.flatnonzero(((best == kept) | (best == other)) & ~gone)
        best[stale] = matrix[stale].argmax(axis=1)
        best[kept] = matrix[kept].argmax()
        closer = matrix[:, kept] > matrix[np.arange(n), best]
        best[closer] = kept
    return _numbered(owner)


def _numbered(owner: Labels) -> Labels:
    """Clusters counted from 0 in the order in which they come."""
    _, first, number = np.unique(owner, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    found: Labels = rank[number.reshape(-1)]
    return found
