"""Reads a torch checkpoint without running anything in it.

A `.pth` file is a zip of raw storages and a pickle, and a pickle can call any function it
names. The loader here knows a handful of names, answers them with numpy, and refuses all
others, so neither torch nor the program that wrote the file is needed.
"""

import io
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np

from dcaplda.runtime.errors import ModelError

MAX_PICKLE_BYTES = 64 << 20

STORAGE_TYPES: dict[str, Any] = {
    "FloatStorage": np.float32,
    "DoubleStorage": np.float64,
    "HalfStorage": np.float16,
    "LongStorage": np.int64,
    "IntStorage": np.int32,
    "ShortStorage": np.int16,
    "CharStorage": np.int8,
    "ByteStorage": np.uint8,
    "BoolStorage": np.bool_,
}


class _StorageType:
    """Stands for torch.FloatStorage and its kin: only the number type matters."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)


class _Settings(dict[str, Any]):
    """Stands for a dict subclass of a foreign program; its attributes become items."""

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, dict):
            self.update(state)


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> np.ndarray:
    """A strided view of a storage, copied out, after checking that it stays inside."""
    if not isinstance(storage, np.ndarray):
        raise pickle.UnpicklingError("a tensor without a storage")
    numbers = (offset, *size, *stride)
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
        raise pickle.UnpicklingError("a tensor with an impossible shape")
    empty = 0 in size
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if not empty and last >= len(storage):
        raise pickle.UnpicklingError("a tensor larger than its storage")
    if empty:
        return np.zeros(size, storage.dtype)
    if int(np.prod(size, dtype=object)) > len(storage):
        raise pickle.UnpicklingError("a tensor larger than its storage")
    steps = tuple(step * storage.itemsize for step in stride)
    return np.lib.stride_tricks.as_strided(storage[offset:], size, steps).copy()


def _parameter(data: Any, *_: Any) -> Any:
    return data


ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("dca_plda.utils", "AttrDict"): _Settings,
    **{("torch", name): _StorageType(dtype) for name, dtype in STORAGE_TYPES.items()},
}


class _Loader(pickle.Unpickler):
    def __init__(self, data: bytes, archive: zipfile.ZipFile, root: str) -> None:
        super().__init__(io.BytesIO(data))
        self.archive, self.root = archive, root

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(
                f"it asks for '{module}.{name}', and only tensors and plain containers are read"
            )
        return ALLOWED[module, name]

    def persistent_load(self, pid: Any) -> np.ndarray:
        if not (isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage"):
            raise pickle.UnpicklingError("a reference that is not a storage")
        kind, key, count = pid[1], pid[2], pid[4]
        if not isinstance(kind, _StorageType) or not isinstance(key, str):
            raise pickle.UnpicklingError("a storage of an unknown type")
        raw = self.archive.read(f"{self.root}data/{key}")
        if len(raw) != count * kind.dtype.itemsize:
            raise pickle.UnpicklingError(f"storage {key} has {len(raw)} bytes, not {count} values")
        return np.frombuffer(raw, kind.dtype)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The dictionary in a torch checkpoint, its tensors as numpy arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            inner = [n for n in archive.namelist() if n.rsplit("/", 1)[-1] == "data.pkl"]
            if len(inner) != 1:
                raise ModelError(f"{path}: a zip file, but not a torch checkpoint (no data.pkl)")
            if archive.getinfo(inner[0]).file_size > MAX_PICKLE_BYTES:
                raise ModelError(f"{path}: its index is larger than any checkpoint's; not read")
            root = inner[0].removesuffix("data.pkl")
            byteorder = f"{root}byteorder"
            if byteorder in archive.namelist() and archive.read(byteorder) != b"little":
                raise ModelError(f"{path}: written on a big-endian machine; save it again")
            content = _Loader(archive.read(inner[0]), archive, root).load()
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
    except zipfile.BadZipFile:
        raise ModelError(
            f"{path}: not a torch checkpoint (a zip file is expected; one written before "
            "torch 1.6 has to be saved again)"
        ) from None
    except pickle.UnpicklingError as error:
        raise ModelError(f"{path}: refused, {error}") from None
    except ModelError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise ModelError(f"{path}: damaged checkpoint ({type(error).__name__}: {error})") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: holds a {type(content).__name__}, not a checkpoint dictionary")
    return content
