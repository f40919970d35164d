"""Kaldi's backend (mean, LDA, length normalization, PLDA), read from its files.

`llrs` writes Kaldi's arithmetic out in float64, with the densities as they are defined; the
graphs of a bundle are checked against it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda, read_plda_file, read_vector_file
from dcaplda.runtime.tables.matrices import read_matrix_file

Array = NDArray[np.float64]
NORMALIZATIONS = ("plda", "simple", "none")


@dataclass(frozen=True)
class KaldiBackend:
    """What turns a vector x into a PLDA space, and the PLDA there.

    Where there is a `centre`, x is first replaced by x - centre, scaled to length sqrt(D).
    w = `weight` x + `bias`, scaled to length sqrt(R) if `normalize_input`
    (ivector-normalize-length); u = transform (w - mean) of the PLDA, then scaled as
    `normalization` says: `plda` (by psi and the number of utterances), `simple` (to length
    sqrt(R)) or `none`.
    """

    weight: Array
    bias: Array
    plda: KaldiPlda
    normalize_input: bool
    normalization: str
    centre: Array | None = None

    @property
    def dim(self) -> int:
        """Dimension of the PLDA (R)."""
        return len(self.plda.psi)

    def transform(self, vectors: Array, num_utts: Array) -> Array:
        """u (n, R) of vectors (n, D) that stand for `num_utts` (n,) utterances each."""
        if self.centre is not None:
            vectors = vectors - self.centre
            size = np.sqrt(vectors.shape[1])
            vectors = vectors * (size / np.linalg.norm(vectors, axis=1, keepdims=True))
        w = vectors @ self.weight.T + self.bias
        if self.normalize_input:
            w *= np.sqrt(self.dim) / np.linalg.norm(w, axis=1, keepdims=True)
        u = (w - self.plda.mean) @ self.plda.transform.T
        if self.normalization == "plda":
            # The expected square of u_i is psi_i + 1 / n: between- plus within-speaker variance.
            expected = self.plda.psi + 1.0 / num_utts[:, None]
            u *= np.sqrt(self.dim / (u * u / expected).sum(axis=1, keepdims=True))
        elif self.normalization == "simple":
            u *= np.sqrt(self.dim) / np.linalg.norm(u, axis=1, keepdims=True)
        return u


def llrs(backend: KaldiBackend, enroll: Array, num_utts: Array, test: Array) -> Array:
    """log N(u2 | speaker of u1) - log N(u2), (E, T).

    With n enrolment utterances of mean u1, the speaker's mean has the posterior expectation
    n psi / (n psi + 1) u1 and variance psi / (n psi + 1); within-speaker variance is 1.
    """
    psi = backend.plda.psi
    u1 = backend.transform(enroll, num_utts)[:, None, :]
    u2 = backend.transform(test, np.ones(len(test)))[None, :, :]
    n = num_utts[:, None, None]
    mean = n * psi / (n * psi + 1.0) * u1
    return _log_normal(u2 - mean, 1.0 + psi / (n * psi + 1.0)) - _log_normal(u2, 1.0 + psi)


def _log_normal(x: Array, variance: Array) -> Array:
    """Log density of a normal distribution with diagonal covariance, over the last axis."""
    terms = np.log(2.0 * np.pi * variance) + x * x / variance
    return np.asarray(-0.5 * terms.sum(axis=-1))


def smoothed(plda: KaldiPlda, factor: float) -> KaldiPlda:
    """Add `factor` times the between-speaker covariance to the within-speaker one.

    In the space where within is I and between diag(psi), within becomes I + factor psi;
    rescaling makes it I again (ivector-copy-plda --smoothing).
    """
    within = 1.0 + factor * plda.psi
    return KaldiPlda(plda.mean, plda.transform / np.sqrt(within)[:, None], plda.psi / within)


def read_backend(
    plda: str,
    transform: str = "",
    mean: str = "",
    *,
    smoothing: float = 0.0,
    normalize_input: bool = True,
    normalization: str = "plda",
) -> KaldiBackend:
    """Read Kaldi's files; without a transform or a mean, those steps are left out."""
    model = smoothed(read_plda_file(plda), smoothing)
    center = read_vector_file(mean) if mean else None
    if transform:
        weight, bias = _affine(transform, read_matrix_file(transform), center)
    else:
        size = len(model.mean) if center is None else len(center)
        weight, bias = np.eye(size), np.zeros(size)
    if center is not None:
        if len(center) != weight.shape[1]:
            raise ModelError(
                f"{mean}: mean of {len(center)} values, but {transform} takes {weight.shape[1]}"
            )
        bias = bias - weight @ center
    if len(weight) != len(model.mean):
        what = transform or mean
        raise ModelError(
            f"{plda}: PLDA of {len(model.mean)} dimensions, but {what} gives {len(weight)}; "
            "are they from the same training?"
        )
    return KaldiBackend(weight, bias, model, normalize_input, normalization)


def _affine(name: str, matrix: Array, center: Array | None) -> tuple[Array, Array]:
    """LDA as weight and bias: with one more column than inputs, the last is the bias.

    Kaldi's transform-vec decides by the size of its input. Without a mean to tell that size,
    the extra column is taken for granted, as ivector-compute-lda always writes it.
    """
    rows, columns = matrix.shape
    if center is not None and columns == len(center):
        return matrix, np.zeros(rows)
    if columns < 2:
        raise ModelError(f"{name}: a transform of {rows} x {columns} cannot hold an LDA")
    return matrix[:, :-1], matrix[:, -1]
