"""HDF5 files: datasets `ids` and `vectors` (or `data`), or one dataset per id, by h5py.

Only what lies in the file itself is read: links to other places and virtual or external datasets
are refused, and so is a size that the stored bytes cannot give.
"""

import os
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.files import replacing
from dcaplda.runtime.tables.formats.arrays import (
    IDS,
    VECTORS,
    Broken,
    as_vector,
    check_floats,
    check_size,
    id_texts,
    paired,
    stacked,
    which_vectors,
)
from dcaplda.runtime.tables.formats.child import decode_in_child
from dcaplda.runtime.tables.formats.registry import Rows, VectorFormat, register


def read(name: str, only: Collection[str] | None) -> Rows:
    """Ids and vectors of a file in either layout; `only` is left to the caller."""
    import h5py  # noqa: F401  (whoever has none is told so by this very process)

    return decode_in_child(__name__, name, "hdf5")


def decode(path: str) -> Rows:
    """Ids and vectors, in a process that may die of it."""
    import h5py

    with h5py.File(path, "r") as content:
        return _read(content, os.path.getsize(path))


def _read(content: Any, stored: int) -> Rows:
    if IDS not in content:
        return _single(content, stored)
    what = which_vectors(content, "datasets")
    names = id_texts(_ids(checked_dataset(content, IDS, stored)))
    vectors = checked_dataset(content, what, stored)
    check_floats(f"'{what}'", vectors.dtype)
    return paired(names, vectors[()], what)


def checked_dataset(content: Any, name: str, stored: int) -> Any:
    """A dataset whose values lie in this file, in a plausible number."""
    import h5py

    if not isinstance(content.get(name, getlink=True), h5py.HardLink):
        raise Broken(f"'{name}' is a link to another place; copy the data into the file")
    found = content[name]
    if not isinstance(found, h5py.Dataset) or found.shape is None:
        raise Broken(f"'{name}' is no dataset; expected an array")
    if found.is_virtual or found.external:
        raise Broken(f"'{name}' has its data in another file; copy them into this one")
    check_size(f"'{name}'", found.nbytes, min(stored, found.id.get_storage_size()))
    return found


def _ids(dataset: Any) -> list[object]:
    import h5py

    is_text = h5py.check_string_dtype(dataset.dtype) is not None
    if dataset.ndim != 1 or not (is_text or dataset.dtype.kind in "Siu"):
        raise Broken(f"'{IDS}' holds {dataset.dtype} of the shape {dataset.shape}; expected text")
    # Text comes as bytes, so that what is not UTF-8 is noticed here.
    values: list[object] = dataset[()].tolist()
    return values


def _single(content: Any, stored: int) -> Rows:
    import h5py

    names: list[str] = []

    def collect(name: str, found: Any) -> None:
        if isinstance(found, h5py.Dataset):
            names.append(name)

    content.visititems(collect)
    if not names:
        raise Broken(f"needs the datasets '{IDS}' and '{VECTORS[0]}', or one dataset per id")
    return stacked(_vectors(content, names, stored), len(names))


def _vectors(
    content: Any, names: list[str], stored: int
) -> Iterator[tuple[str, NDArray[np.floating]]]:
    for name in names:
        dataset = checked_dataset(content, name, stored)
        try:
            check_floats("it", dataset.dtype)
            as_vector(dataset.shape)
        except Broken as error:
            raise Broken(f"'{name}': {error}") from None
        yield name, dataset[()].reshape(-1)


def write(name: str, ids: list[str], matrix: NDArray[np.float32]) -> None:
    """Datasets `ids` (UTF-8) and `vectors`."""
    import h5py

    # The file is locked already, by us.
    with replacing(name) as beside, h5py.File(beside, "w", locking=False) as content:
        content.create_dataset(IDS, data=ids, dtype=h5py.string_dtype())
        content.create_dataset(VECTORS[0], data=matrix, dtype="<f4")


register(VectorFormat(names=("h5", "hdf5"), endings=(".h5", ".hdf5"), read=read, write=write))
