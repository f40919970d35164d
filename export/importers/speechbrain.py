"""SpeechBrain's PLDA: the arrays `mean`, `F` and `Sigma` of its PLDA object, in an `.npz` file.

The object itself is a pickle of a class, which is never loaded; `numpy.savez` of the three arrays
is what the user writes. Between-speaker covariance is F F', within-speaker covariance is Sigma.
"""

import numpy as np

from dcaplda.export.importers.arrays import Arrays
from dcaplda.export.importers.kaldi import KaldiBackend
from dcaplda.export.importers.two_covariance import plda_of


def read_speechbrain(path: str) -> KaldiBackend:
    """The backend of vectors as its fast_PLDA_scoring takes them."""
    found = Arrays(path, ("mean", "F", "Sigma"), "SpeechBrain (numpy.savez of mean, F, Sigma)")
    mean = found.array("mean", (None,))
    size = len(mean)
    voices, within = found.array("F", (size, None)), found.array("Sigma", (size, size))
    plda = plda_of(path, mean, within, voices @ voices.T)
    return KaldiBackend(np.eye(size), np.zeros(size), plda, False, "none")
