"""`.npz` files: arrays `ids` and `vectors` (or `data`), or one array per id.

The zip file is opened by zipfile, its arrays by `npy`: the sizes in the directory, in the array's
header and of what is stored must agree before memory is taken, and checksums are always compared.
"""

import os
import zipfile
from collections.abc import Collection, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.files import note_input, replacing
from dcaplda.runtime.tables.formats import npy
from dcaplda.runtime.tables.formats.arrays import (
    IDS,
    VECTORS,
    Broken,
    as_vector,
    check_floats,
    check_size,
    id_texts,
    paired,
    refused,
    stacked,
    which_vectors,
)
from dcaplda.runtime.tables.formats.registry import Rows, VectorFormat, register

# Bytes unpacked at once.
_PIECE = 1 << 20


def read(name: str, only: Collection[str] | None) -> Rows:
    """Ids and vectors of a file in either layout."""
    try:
        with open(name, "rb") as stream:
            note_input(os.fstat(stream.fileno()))
            if stream.read(len(npy.MAGIC)) == npy.MAGIC:
                raise Broken("one array without ids (npy), not npz; save it with numpy.savez")
            stream.seek(0)
            with zipfile.ZipFile(stream) as content:
                return _read(content, only)
    except Broken as error:
        raise refused(name, error) from None
    except FileNotFoundError:
        raise TableError(f"'{name}': no such file; check the name and the directory") from None
    except MemoryError:
        raise
    # Damaged zip files make zipfile and the codecs below it raise nearly anything.
    except Exception as error:
        raise TableError(f"'{name}': cannot be read as npz ({error}); make it again") from None


def members_of(content: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The arrays of a file by their names."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in content.infolist():
        key = info.filename.removesuffix(npy.ENDING)
        if not info.filename.endswith(npy.ENDING):
            raise Broken(f"holds '{info.filename}', which is no array; not made by numpy")
        if key in members:
            raise Broken(f"'{key}' occurs twice; ids must be unique")
        members[key] = info
    return members


def _read(content: zipfile.ZipFile, only: Collection[str] | None) -> Rows:
    members = members_of(content)
    if not members:
        raise Broken("the table is empty")
    if IDS not in members:
        chosen = {key: info for key, info in members.items() if only is None or key in only}
        return stacked(_single(content, chosen), len(chosen))
    what = which_vectors(members, "arrays")
    texts = stored_array(content, members[IDS], IDS, "USiu")
    if texts.ndim != 1:
        raise Broken(f"expected n ids and n rows, found '{IDS}' of the shape {texts.shape}")
    return paired(id_texts(texts.tolist()), stored_array(content, members[what], what, "f"), what)


def _single(
    content: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]
) -> Iterator[tuple[str, NDArray[np.floating]]]:
    for key, info in members.items():
        array = stored_array(content, info, key, "f")
        try:
            as_vector(array.shape)
        except Broken as error:
            raise Broken(f"'{key}': {error}") from None
        yield key, array.reshape(-1)


def stored_array(content: zipfile.ZipFile, info: zipfile.ZipInfo, key: str, kinds: str) -> NDArray:
    """One array, if its values are of one of the kinds (numpy's letters)."""
    with content.open(info) as stream:
        top = stream.read(npy.LONGEST_HEADER)
        try:
            header = npy.read_header(top)
        except Broken as error:
            raise Broken(f"'{key}': {error}") from None
        if kinds == "f" or header.dtype.kind == "O":
            check_floats(f"'{key}'", header.dtype)
        elif header.dtype.kind not in kinds:
            expected = "text" if "U" in kinds else "numbers"
            raise Broken(f"'{key}' holds {header.dtype}; expected {expected}")
        if header.start + header.nbytes != info.file_size:
            raise Broken(
                f"'{key}': {header.nbytes} bytes announced, {info.file_size - header.start} there"
            )
        check_size(f"'{key}'", info.file_size, info.compress_size)
        raw = np.empty(header.nbytes, np.uint8)
        _fill(raw, top[header.start :], stream)
    order = "F" if header.fortran else "C"
    return raw.view(header.dtype).reshape(header.shape, order=order)  # type: ignore[call-overload]


def _fill(raw: NDArray[np.uint8], start: bytes, stream: IO[bytes]) -> None:
    """Read to the very end of the stream, where zipfile compares the checksum."""
    done = min(len(start), len(raw))
    raw[:done] = np.frombuffer(start, np.uint8, done)
    while part := stream.read(_PIECE):
        if done + len(part) > len(raw):
            raise Broken("more bytes than announced")
        raw[done : done + len(part)] = np.frombuffer(part, np.uint8)
        done += len(part)
    if done != len(raw):
        raise Broken(f"truncated: {len(raw)} bytes announced, {done} there")


def write(name: str, ids: list[str], matrix: NDArray[np.float32]) -> None:
    """Arrays `ids` and `vectors`, as numpy.savez writes them."""
    arrays = {IDS: np.array(ids, np.str_), VECTORS[0]: matrix}
    with replacing(name) as beside, open(beside, "wb") as stream:
        np.savez(stream, **arrays)  # type: ignore[arg-type]


register(VectorFormat(names=("npz",), endings=(".npz",), read=read, write=write))
