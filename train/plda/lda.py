"""Linear discriminant analysis with speaker weights: start of both projections (eq. 4, 20)."""

from dataclasses import dataclass

import numpy as np

from dcaplda.runtime.errors import ModelError
from dcaplda.train.plda.covariances import Array, Covariances, invertible, shrunk


@dataclass(frozen=True)
class Lda:
    """All directions, best first, each giving unit variance; `offset` removes the mean.

    A vector x becomes `directions @ x + offset`. `ratios` are the eigenvalues: between-speaker
    over within-speaker variance along each direction.
    """

    directions: Array
    offset: Array
    ratios: Array

    def first(self, n_directions: int) -> tuple[Array, Array]:
        """The directions that separate speakers best, as (weight, bias) of eq. 4."""
        return self.directions[:n_directions], self.offset[:n_directions]

    def last(self, n_directions: int) -> tuple[Array, Array]:
        """The directions that separate speakers least, as (weight, bias) of eq. 20."""
        start = len(self.offset) - n_directions
        return self.directions[start:], self.offset[start:]


def fit_lda(
    covariances: Covariances,
    shrinkage: float = 0.0,
    notes: list[str] | None = None,
    scale: str = "total",
) -> Lda:
    """Solve between v = ratio within v, scaled to unit (weighted) variance of the data.

    That scale uses the variance as measured, without shrinkage; with `within` the rows keep
    unit variance under the within-speaker covariance, shrinkage included. A singular within-speaker
    covariance is shrunk a little and a line about it is added to `notes`.
    """
    from scipy.linalg import eigh

    within = shrunk(covariances.within, shrinkage)
    within = invertible(within, "within-speaker", [] if notes is None else notes)
    ratios, vectors = eigh(covariances.between, within)
    directions = vectors.T[::-1]
    variances = np.einsum("ij,jk,ik->i", directions, covariances.total, directions, optimize=True)
    if not variances.min() > 0:
        raise ModelError(
            f"embeddings have no variance in {int(np.sum(variances <= 0))} of "
            f"{len(variances)} directions; remove the constant or repeated values"
        )
    if scale == "total":
        directions = directions / np.sqrt(variances)[:, None]
    # An eigenvector's sign is arbitrary: make its largest value positive, so that equal data
    # give equal models whatever linear algebra library computes them.
    largest = np.abs(directions).argmax(axis=1)
    directions = directions * np.sign(directions[np.arange(len(largest)), largest])[:, None]
    return Lda(directions, -(directions @ covariances.mean), ratios[::-1].copy())
