"""PLDA of diarizers: VBx's `transform.h5` and `plda`, pyannote's two `.npz` files.

Both take mean1 from a vector, normalize its length, apply an LDA (stored input x output), take
mean2, normalize again, and compare in the space of a PLDA. They differ in the lengths: 1 in
VBx, the roots of the numbers of dimensions in pyannote. Scale factors go into LDA and PLDA here.
"""

from pathlib import Path

import numpy as np

from dcaplda.export.importers.arrays import Array, Arrays
from dcaplda.export.importers.kaldi import KaldiBackend
from dcaplda.export.importers.two_covariance import checked_plda
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda, read_plda_file

TRANSFORM, PLDA = "xvec_transform.npz", "plda.npz"
"""pyannote's files."""


def read_vbx(transform: str, plda: str) -> KaldiBackend:
    """VBx's HDF5 file of means and LDA, and its PLDA in Kaldi's format."""
    mean1, mean2, lda = _transform(transform, "VBx")
    model = read_plda_file(plda)
    _check_sizes(plda, model, lda)
    inside, outside = (np.sqrt(size) for size in lda.shape)
    unit = KaldiPlda(outside * model.mean, model.transform / outside, model.psi)
    return KaldiBackend(lda.T / inside, -mean2, unit, True, "none", mean1)


def read_pyannote(directory: str) -> KaldiBackend:
    """The folder with pyannote's `xvec_transform.npz` and `plda.npz`."""
    for name in (TRANSFORM, PLDA):
        if not (Path(directory) / name).is_file():
            raise ModelError(f"{directory}: has no {name}; expected a folder as pyannote reads it")
    mean1, mean2, lda = _transform(str(Path(directory) / TRANSFORM), "pyannote")
    place = str(Path(directory) / PLDA)
    found = Arrays(place, ("mu", "tr", "psi"), "pyannote")
    size = lda.shape[1]
    mean, transform = found.array("mu", (size,)), found.array("tr", (size, size))
    plda = checked_plda(place, mean, transform, found.array("psi", (size,)))
    return KaldiBackend(lda.T, -mean2, plda, True, "none", mean1)


def _transform(path: str, program: str) -> tuple[Array, Array, Array]:
    found = Arrays(path, ("mean1", "mean2", "lda"), program)
    lda = found.array("lda", (None, None))
    rows, columns = lda.shape
    if columns > rows:
        raise ModelError(
            f"{path}: 'lda' has the shape {lda.shape}, expected no more columns than rows"
        )
    return found.array("mean1", (rows,)), found.array("mean2", (columns,)), lda


def _check_sizes(place: str, plda: KaldiPlda, lda: Array) -> None:
    if len(plda.mean) != lda.shape[1]:
        raise ModelError(
            f"{place}: PLDA of {len(plda.mean)} dimensions, but the LDA gives {lda.shape[1]}; are "
            "they from the same training?"
        )
