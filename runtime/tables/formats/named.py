"""Files that hold a few arrays under names, as programs keep their models: `.npz` and HDF5.

The same care as for tables of vectors: nothing is unpickled, sizes are checked before memory is
taken, and HDF5 is decoded by a process that may die of it.
"""

import os
import zipfile
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.formats import hdf5, npz
from dcaplda.runtime.tables.formats.arrays import Broken, refused
from dcaplda.runtime.tables.formats.child import decode_in_child
from dcaplda.runtime.tables.formats.registry import Rows

Arrays = dict[str, NDArray[np.float64]]
NUMBERS = "fiub"
"""Kinds of values, as numpy calls them; flags are numbers."""
OTHER = "?"
"""In a label: what follows is the type of values that are no numbers."""


def read_named(name: str, wanted: Iterable[str]) -> Arrays:
    """The arrays with these names that a file has, as float64; others are not looked at."""
    # What is called .npz and is no zip file is damaged, and HDF5 only by chance.
    if zipfile.is_zipfile(name) or (name.endswith(".npz") and os.path.isfile(name)):
        return _read_npz(name, set(wanted))
    try:
        import h5py  # noqa: F401  (whoever has none is told so by this very process)
    except ImportError:
        raise TableError(f"'{name}': HDF5 takes h5py; pip install 'dcaplda[hdf5]'") from None
    return dict(_unpacked(name, set(wanted)))


def _read_npz(name: str, wanted: set[str]) -> Arrays:
    try:
        with zipfile.ZipFile(name) as content:
            members = npz.members_of(content)
            return {
                key: npz.stored_array(content, members[key], key, NUMBERS).astype(np.float64)
                for key in members
                if key in wanted
            }
    except Broken as error:
        raise refused(name, error) from None
    except MemoryError:
        raise
    # Damaged zip files make zipfile and the codecs below it raise nearly anything.
    except Exception as error:
        raise TableError(f"'{name}': cannot be read as npz ({error}); make it again") from None


def _unpacked(name: str, wanted: set[str]) -> Iterable[tuple[str, NDArray[np.float64]]]:
    """The arrays of an HDF5 file, from the one row in which the child sends them."""
    labels, row = decode_in_child(__name__, name, "HDF5")
    start = 0
    for label in labels:
        key, *shape = label.split("/")
        if shape and shape[0].startswith(OTHER):
            if key in wanted:
                raise TableError(f"'{name}': '{key}' holds {shape[0][1:]}; expected numbers")
            continue
        sizes = [int(size) for size in shape]
        count = int(np.prod(sizes, dtype=np.int64))
        if key in wanted:
            yield key, row.reshape(-1)[start : start + count].reshape(sizes).astype(np.float64)
        start += count


def decode(path: str) -> Rows:
    """All arrays of numbers at the top of an HDF5 file, flat; labels tell names and shapes."""
    import h5py

    labels: list[str] = []
    values: list[NDArray[np.float64]] = []
    stored = os.path.getsize(path)
    with h5py.File(path, "r") as content:
        for key in content:
            dataset = hdf5.checked_dataset(content, key, stored)
            if dataset.dtype.kind in NUMBERS:
                labels.append("/".join([key, *map(str, dataset.shape)]))
                values.append(np.asarray(dataset[()], np.float64).reshape(-1))
            else:
                labels.append(f"{key}/{OTHER}{dataset.dtype.name}")
    return labels, np.concatenate(values or [np.empty(0)])[None]
