"""Folders of `.npy` files, one vector each; and where a vector lies inside such a file.

The header is read here, without numpy's `load`: a header is text that numpy would evaluate, and an
object array is a pickle. `a/b.npy` in the folder is the vector of the id `a/b`.
"""

import math
import mmap
import os
import re
import struct
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.files import new_folder, note_input
from dcaplda.runtime.tables.formats.arrays import (
    Broken,
    as_vector,
    check_floats,
    check_ids,
    refused,
    stacked,
)
from dcaplda.runtime.tables.formats.registry import Rows, VectorFormat, register

MAGIC = b"\x93NUMPY"
ENDING = ".npy"
LONGEST_HEADER = 12 + 10_000
"""Bytes within which a header of plain numbers or text ends; numpy itself takes no longer one."""
# A Python dictionary of three plain entries, in any order.
_SIZE = "(?:0|[1-9][0-9]{0,17})L? *"
_ENTRY = "|".join(
    (
        r"""(['"])descr\1 *: *(['"])(?P<kind>[<>|=]?[a-zA-Z][0-9]{0,9})\2""",
        r"""(['"])fortran_order\4 *: *(?P<fortran>True|False)""",
        rf"""(['"])shape\6 *: *\( *(?P<shape>(?:{_SIZE}, *)*(?:{_SIZE})?)\)""",
    )
)
_HEADER = re.compile(rf"\{{ *(?:(?:{_ENTRY}) *(?:, *|(?=\}})))+\}}[ \n]*")


class Header(NamedTuple):
    """What an npy file says of itself; the values start at byte `start`."""

    dtype: np.dtype
    shape: tuple[int, ...]
    fortran: bool
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(data: bytes | mmap.mmap, position: int = 0) -> Header:
    """The header that starts at `position`; raise Broken if there is none."""
    fixed = bytes(data[position : position + 12])
    if not fixed.startswith(MAGIC):
        raise Broken("no npy data")
    width = 2 if fixed[6:7] == b"\1" else 4
    if len(fixed) < 12 or fixed[6] not in (1, 2, 3) or fixed[7]:
        raise Broken("an npy header that is cut short or of an unknown version")
    begin = position + 8 + width
    (length,) = struct.unpack_from("<H" if width == 2 else "<I", fixed, 8)
    raw = bytes(data[begin : begin + min(length, LONGEST_HEADER)])
    if len(raw) < length:
        raise Broken("an npy header that is cut short or too long")
    text = raw.decode("latin-1")
    found = _HEADER.fullmatch(text)
    if found is None or None in found.groups():
        raise Broken(f"an npy header of no plain array: {text.strip()[:60]!r}")
    try:
        dtype = np.dtype(found["kind"])
    except (TypeError, ValueError):
        raise Broken(f"an npy header with the unknown kind of values {found['kind']!r}") from None
    if found["shape"].strip() and "," not in found["shape"]:
        raise Broken(f"an npy header with the shape ({found['shape']})")
    shape = tuple(int(word.strip(" L")) for word in found["shape"].split(",") if word.strip())
    return Header(dtype, shape, found["fortran"] == "True", begin + length)


def locate_vector(data: bytes | mmap.mmap, position: int = 0) -> tuple[int, int, np.dtype]:
    """First and last byte and kind of the values of the vector whose header is at `position`."""
    header = read_header(data, position)
    check_floats("it", header.dtype)
    as_vector(header.shape)
    stop = header.start + header.nbytes
    if stop > len(data):
        raise Broken(f"truncated: {header.nbytes} bytes announced, the file ends at {len(data)}")
    return header.start, stop, header.dtype


def _read_file(path: str) -> NDArray[np.floating]:
    with open(path, "rb") as stream:
        note_input(os.fstat(stream.fileno()))
        data = stream.read()
    start, stop, dtype = locate_vector(data)
    if stop != len(data):
        raise Broken(f"{len(data) - stop} bytes behind the announced values")
    return np.frombuffer(data, dtype, (stop - start) // dtype.itemsize, start)


def _ids_of(folder: str) -> list[str]:
    """The ids of all files below a folder, sorted."""
    found = []
    for parent, _, files in os.walk(folder, followlinks=True):
        for name in files:
            if name.endswith(ENDING) and name != ENDING:
                path = os.path.relpath(os.path.join(parent, name), folder)
                found.append(path.removesuffix(ENDING).replace(os.sep, "/"))
    return sorted(found)


def read(folder: str, only: Collection[str] | None) -> Rows:
    """The vectors of a folder in the order of their sorted ids."""
    if not os.path.isdir(folder):
        if os.path.isfile(folder):
            raise TableError(
                f"'{folder}': one file has no ids; name a folder of {ENDING} files, or an npz"
            )
        raise TableError(f"'{folder}': no such folder of {ENDING} files")
    try:
        names = _ids_of(folder)
        if not names:
            raise Broken(f"no {ENDING} file in it; the table is empty")
        check_ids(names)
        chosen = [name for name in names if only is None or name in only]
        return stacked(_vectors(folder, chosen), len(chosen))
    except Broken as error:
        raise refused(folder, error) from None


def _vectors(folder: str, names: list[str]) -> Iterator[tuple[str, NDArray[np.floating]]]:
    for name in names:
        try:
            yield name, _read_file(os.path.join(folder, name + ENDING))
        except Broken as error:
            raise Broken(f"'{name}{ENDING}': {error}") from None


def write(folder: str, ids: list[str], matrix: NDArray[np.float32]) -> None:
    """One file per id in a new folder; a `/` in an id makes folders inside of it."""
    if folder.endswith(ENDING):
        raise TableError(f"'{folder}': vectors go to a folder; name it without {ENDING}")
    for name in ids:
        if not name or any(part in ("", ".", "..") for part in name.split("/")):
            raise TableError(f"'{folder}': the id '{name}' cannot be a file name; rename it")
    with new_folder(folder) as beside:
        for name, row in zip(ids, np.ascontiguousarray(matrix, "<f4"), strict=True):
            path = Path(beside, name + ENDING)
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "xb") as stream:
                np.lib.format.write_array(stream, row, version=(1, 0), allow_pickle=False)


register(VectorFormat(names=("npy",), endings=(ENDING,), read=read, write=write, is_folder=True))
