"""The two-covariance PLDA whose score is that of a trained model, up to a constant.

With w the length-normalized input, a PLDA with within-speaker covariance I and between-speaker
variances psi of u = T (w - mu) scores, per dimension, with l = psi / (2 (1 + 2 psi)),

    2 l u1 u2 - l r (u1^2 + u2^2) + log((1 + psi)^2 / (1 + 2 psi)) / 2,    r = psi / (1 + psi).

So S that makes Lambda = S'S and -Gamma = S' diag(r) S (eq. 9) gives psi = r / (1 - r), and
T = S / sqrt(l). Training is free to leave what a PLDA can be: r of 1 and more, which stands for no
psi, r of 0 and less, and a Lambda that is not positive. Those directions are clipped, and counted.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.export.graphs.algebra import affine_map, float64
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.quadratic import Quadratic

Array = NDArray[np.float64]
LARGEST_RATIO = 0.999
"""Of r; psi is 999 there."""
SMALLEST_RATIO = 0.001
SMALLEST_CROSS = 1e-6
"""Of Lambda's eigenvalues, relative to the largest."""


@dataclass(frozen=True)
class Equivalent:
    """w = (`weight` (x - `mean`)) of length 1, and the PLDA on w."""

    mean: Array
    weight: Array
    plda: KaldiPlda
    shift: float
    """What the model's score has over that of the PLDA."""
    above: int
    """Directions whose ratio r was LARGEST_RATIO or more."""
    below: int
    """Directions whose ratio was SMALLEST_RATIO or less, or whose Lambda was not positive."""


def equivalent_plda(model: Backend, place: str) -> Equivalent:
    """The PLDA of a model's score before any calibration.

    A calibration's alpha stays outside: it would shrink T, and diarizers take the model for one of
    how vectors are spread, not only for a score.
    """
    if not isinstance(model.plda, Quadratic):
        raise ModelError(
            f"{place}: a joint model normalizes lengths twice behind its LDA, which the files of "
            "others cannot tell; train with model.joint = false"
        )
    form = model.plda
    cross, auto = float64(form.symmetric_cross()), float64(form.symmetric_auto())
    turn, ratio, below = _joint_diagonal(cross, auto)
    above = int((ratio > LARGEST_RATIO).sum())
    below += int((ratio < SMALLEST_RATIO).sum())
    ratio = np.clip(ratio, SMALLEST_RATIO, LARGEST_RATIO)
    psi = ratio / (1.0 - ratio)
    weights = psi / (2.0 * (1.0 + 2.0 * psi))
    transform = turn / np.sqrt(weights)[:, None]
    # c = -2 (Lambda + Gamma) mu, and Lambda + Gamma = T' diag(l (1 - r)) T.
    pulled = np.linalg.solve(transform.T, -0.5 * float64(form.linear))
    pulled /= weights * (1.0 - ratio)
    mean = np.linalg.solve(transform, pulled)
    constant = 0.5 * float(np.log((1.0 + psi) ** 2 / (1.0 + 2.0 * psi)).sum())
    constant += 2.0 * float(weights * (1.0 - ratio) @ (pulled * pulled))
    layer = affine_map(model.preprocess)
    centre = -np.linalg.pinv(layer.weight) @ layer.bias
    return Equivalent(
        mean=centre,
        weight=layer.weight,
        plda=KaldiPlda(mean, transform, psi),
        shift=float(form.offset.detach().double()) - constant,
        above=above,
        below=below,
    )


def _joint_diagonal(cross: Array, auto: Array) -> tuple[Array, Array, int]:
    """S and r, largest first, with Lambda = S'S and -Gamma = S' diag(r) S; what was clipped."""
    values, vectors = np.linalg.eigh(cross)
    least = SMALLEST_CROSS * values[-1]
    if not least > 0:
        raise ModelError("its Lambda has no positive direction: it scores like no PLDA")
    clipped = int((values < least).sum())
    root = vectors * np.sqrt(np.maximum(values, least))
    inverse = (vectors / np.sqrt(np.maximum(values, least))).T
    ratio, turn = np.linalg.eigh(inverse @ -auto @ inverse.T)
    return (turn.T @ root.T)[::-1], ratio[::-1], clipped
