"""Writers of the files that Kaldi, VBx and pyannote read.

All three normalize the length of w; Kaldi and pyannote to the root of its dimensions, VBx to 1.
pyannote and VBx also normalize before the LDA, which a normalization behind it undoes as long as
mean2 is zero: so the files of all three score alike.
"""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

from dcaplda.export.exporters.equivalent import Array, Equivalent
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.files import replacing
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda


def write_pyannote(found: Equivalent, folder: Path) -> None:
    """`xvec_transform.npz` and `plda.npz`."""
    plda = _of_length(found.plda, len(found.weight))
    zeros = np.zeros(len(found.weight))
    _save(folder / "xvec_transform.npz", mean1=found.mean, mean2=zeros, lda=found.weight.T)
    _save(folder / "plda.npz", mu=plda.mean, tr=plda.transform, psi=plda.psi)


def write_kaldi(found: Equivalent, folder: Path) -> None:
    """`mean.vec`, `transform.mat` and `plda`, for scoring with --normalize-length=false."""
    _write(folder / "mean.vec", b"\0B" + _vector(found.mean))
    # The mean is taken before, so that the last column, which is added, is zero.
    columns = np.concatenate([found.weight, np.zeros((len(found.weight), 1))], axis=1)
    _write(folder / "transform.mat", b"\0B" + _matrix(columns))
    _write(folder / "plda", _plda(_of_length(found.plda, len(found.weight))))


def write_vbx(found: Equivalent, folder: Path) -> None:
    """`transform.h5` and `plda`."""
    try:
        import h5py
    except ImportError:
        raise ModelError("--to=vbx takes h5py; pip install 'dcaplda[hdf5]'") from None
    with (
        replacing(folder / "transform.h5") as beside,
        h5py.File(beside, "w", locking=False) as content,
    ):
        content["mean1"], content["mean2"] = found.mean, np.zeros(len(found.weight))
        content["lda"] = found.weight.T
    _write(folder / "plda", _plda(found.plda))


TARGETS: dict[str, Callable[[Equivalent, Path], None]] = {
    "pyannote": write_pyannote,
    "kaldi": write_kaldi,
    "vbx": write_vbx,
}
"""Writers by the value of --to."""


def _of_length(plda: KaldiPlda, dim: int) -> KaldiPlda:
    """The PLDA for w of length sqrt(dim) in place of 1."""
    return KaldiPlda(np.sqrt(dim) * plda.mean, plda.transform / np.sqrt(dim), plda.psi)


def _save(path: Path, **arrays: Array) -> None:
    with replacing(path) as beside, open(beside, "wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as beside:
        beside.write_bytes(content)


def _vector(values: Array) -> bytes:
    return b"DV \4" + struct.pack("<i", len(values)) + values.astype("<f8").tobytes()


def _matrix(values: Array) -> bytes:
    sizes = b"".join(b"\4" + struct.pack("<i", size) for size in values.shape)
    return b"DM " + sizes + np.ascontiguousarray(values, "<f8").tobytes()


def _plda(plda: KaldiPlda) -> bytes:
    parts = _vector(plda.mean) + _matrix(plda.transform) + _vector(plda.psi)
    return b"\0B<Plda> " + parts + b"</Plda> "
