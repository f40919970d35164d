"""Unsupervised adaptation of a Kaldi backend: what ivector-adapt-plda makes of unlabelled vectors.

Where the total covariance of new vectors exceeds that of the model, the excess is shared out
between the within- and the between-speaker covariance; where it does not, the model stays.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.export.importers.kaldi import Array, KaldiBackend
from dcaplda.export.importers.two_covariance import diagonalized
from dcaplda.runtime import checks
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda

FEWEST = 2
"""One vector has no covariance."""


@dataclass(frozen=True, kw_only=True)
class Scales:
    """The options of ivector-adapt-plda, with its defaults."""

    within: float = 0.3
    """Share of the excess that the within-speaker covariance gets (--within-covar-scale)."""
    between: float = 0.7
    """Share that the between-speaker covariance gets (--between-covar-scale)."""
    mean_diff: float = 1.0
    """What the squared difference of the means counts as covariance (--mean-diff-scale)."""


def adapted_backend(
    backend: KaldiBackend, vectors: ArrayLike, scales: Scales, ids: list[str] | None = None
) -> KaldiBackend:
    """The backend with its PLDA adapted to raw vectors (n, D), which go through its own chain."""
    matrix = checks.embeddings(vectors, "embeddings", backend.weight.shape[1], ids)
    if len(matrix) < FEWEST:
        raise InputError(
            f"{len(matrix)} vector to adapt with; a covariance needs at least {FEWEST}, better "
            f"more than the {backend.dim} dimensions of the PLDA"
        )
    return replace(backend, plda=adapted_plda(backend.plda, _chain(backend, matrix), scales))


def adapted_plda(plda: KaldiPlda, w: Array, scales: Scales) -> KaldiPlda:
    """The model for the place of the vectors w (n, R), as they come to the PLDA.

    In the model's space within is I and between diag(psi). Scaled by D = (1 + psi)^-1/2 their sum
    is I there, and eigenvalues s of the data's covariance above 1 are the excess:

        X = D^-1 P diag(max(s - 1, 0)) P' D^-1,   within I + a X,   between diag(psi) + b X
    """
    mean = w.mean(axis=0)
    centred = w - mean
    apart = mean - plda.mean
    covariance = centred.T @ centred / len(w) + scales.mean_diff * np.outer(apart, apart)
    root = np.sqrt(1.0 + plda.psi)
    seen = plda.transform @ covariance @ plda.transform.T / np.outer(root, root)
    values, vectors = np.linalg.eigh(0.5 * (seen + seen.T))
    scaled = root[:, None] * vectors * np.sqrt(np.maximum(values - 1.0, 0.0))
    excess = scaled @ scaled.T
    within = np.eye(len(root)) + scales.within * excess
    between = np.diag(plda.psi) + scales.between * excess
    turn, psi = diagonalized(within, between)
    return KaldiPlda(mean, turn @ plda.transform, psi)


def _chain(backend: KaldiBackend, vectors: ArrayLike) -> Array:
    """w (n, R) of raw vectors: the backend's own steps, with a PLDA that changes nothing."""
    rank = backend.dim
    nothing = KaldiPlda(np.zeros(rank), np.eye(rank), np.ones(rank))
    bare = replace(backend, plda=nothing, normalization="none")
    raw = np.asarray(vectors, np.float64)
    return bare.transform(raw, np.ones(len(raw)))
