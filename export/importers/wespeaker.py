"""WeSpeaker's two-covariance PLDA (`plda.h5`).

Datasets mu, transform, psi, offset and two switches. With `normalize_length` a vector is scaled to
length sqrt(D), transformed, and scaled to sqrt(D) again; without, only transformed. Files of before
the switches always normalized. The mean that `subtract_train_set_mean` took from the training
vectors is not in the file: scoring takes that of in-domain vectors, which the caller gives.
"""

import numpy as np

from dcaplda.export.importers.arrays import Array, Arrays
from dcaplda.export.importers.kaldi import KaldiBackend
from dcaplda.export.importers.two_covariance import checked_plda
from dcaplda.runtime.errors import ModelError

NAMES = ("mu", "transform", "psi", "offset", "normalize_length", "subtract_train_set_mean")
ROUNDING = 1e-4
"""Of the offset, relative to its largest value: the program works in float64, files may not."""


def read_wespeaker(path: str, mean: Array | None = None) -> tuple[KaldiBackend, bool]:
    """The backend, and whether a mean was taken from its training vectors."""
    found = Arrays(path, NAMES, "WeSpeaker")
    mu = found.array("mu", (None,))
    size = len(mu)
    transform, psi = found.array("transform", (size, size)), found.array("psi", (size,))
    offset = found.array("offset", (size,))
    plda = checked_plda(path, mu, transform, psi)
    difference = np.abs(offset + transform @ mu).max()
    if difference > ROUNDING * max(1.0, np.abs(offset).max()):
        raise ModelError(
            f"{path}: 'offset' is not -transform mu (it differs by {difference:.3g}); the arrays "
            "are not of one model"
        )
    if mean is not None and len(mean) != size:
        raise ModelError(f"{path}: takes {size} values, the mean has {len(mean)}")
    bias = np.zeros(size) if mean is None else -mean
    normalize = found.flag("normalize_length", True)
    normalization = "simple" if normalize else "none"
    backend = KaldiBackend(np.eye(size), bias, plda, normalize, normalization)
    return backend, found.flag("subtract_train_set_mean", False)
