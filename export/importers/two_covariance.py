"""Two covariances as a PLDA of Kaldi's form, whatever program estimated them."""

import numpy as np

from dcaplda.export.importers.arrays import Array
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda


def diagonalized(within: Array, between: Array) -> tuple[Array, Array]:
    """T and psi, largest first, with T within T' = I and T between T' = diag(psi)."""
    whiten = np.linalg.inv(np.linalg.cholesky(within))
    turned = whiten @ between @ whiten.T
    psi, vectors = np.linalg.eigh(0.5 * (turned + turned.T))
    # Rounding may leave a zero a little below.
    return vectors[:, ::-1].T @ whiten, np.maximum(psi[::-1], 0.0)


def plda_of(place: str, mean: Array, within: Array, between: Array) -> KaldiPlda:
    """The PLDA of these covariances; `place` names the file in messages."""
    try:
        transform, psi = diagonalized(0.5 * (within + within.T), 0.5 * (between + between.T))
    except np.linalg.LinAlgError:
        raise ModelError(
            f"{place}: its within-speaker covariance is not positive definite; train again, with "
            "more vectors than dimensions"
        ) from None
    return KaldiPlda(mean, transform, psi)


def checked_plda(place: str, mean: Array, transform: Array, psi: Array) -> KaldiPlda:
    """The PLDA of arrays that already are of Kaldi's form."""
    if (psi < 0).any():
        raise ModelError(f"{place}: 'psi' has a negative value; this is no valid PLDA model")
    if np.linalg.matrix_rank(transform) < len(transform):
        raise ModelError(f"{place}: its transform is singular; this is no valid PLDA model")
    return KaldiPlda(mean, transform, psi)
