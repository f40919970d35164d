"""Reads a torch checkpoint without running anything in it.

A `.pth` file is a zip of raw storages and a pickle, and a pickle can call any function it
names. The loader here knows a handful of names, answers them with numpy, and refuses all
others, so neither torch nor the program that wrote the file is needed. It takes no more memory
than a few times the size of the file.
"""

import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dcaplda.export.importers.pickles import Name, Refused, read_pickle
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.fields import shown

MAX_PICKLE_BYTES = 8 << 20
MOST_TENSORS = 4
"""Times the size of the file: what all tensors may come to, if several share a storage."""

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


class _Settings(dict[str, Any]):
    """Stands for a dict of a foreign program whose attributes are its items."""


class _Storages:
    """The names of a torch pickle, and the storages beside it, in one archive."""

    def __init__(self, archive: zipfile.ZipFile, root: str, size: int) -> None:
        self._archive, self._root, self._size = archive, root, size
        self._read: dict[tuple[str, np.dtype], np.ndarray] = {}
        self._stored = self._tensors = 0

    def call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """A tensor, a parameter, or a dictionary of either kind."""
        if name == "torch._utils._rebuild_tensor_v2":
            return self._tensor(*_first(arguments, 4))
        if name == "torch._utils._rebuild_parameter":
            return _first(arguments, 1)[0]
        if name in ("collections.OrderedDict", "dca_plda.utils.AttrDict"):
            if arguments:
                raise Refused(f"it makes a {name} of something")
            return _Settings() if name.endswith("AttrDict") else {}
        raise Refused(f"it asks for '{name}', and only tensors and plain containers are read")

    def built(self, made: Any, state: Any) -> None:
        """Attributes of a dictionary: torch's are of no use, the authors' settings are items."""
        if not isinstance(made, dict):
            raise Refused(f"it sets attributes of a {type(made).__name__}")
        if isinstance(made, _Settings) and isinstance(state, dict):
            made.update(state)

    def referenced(self, reference: Any) -> np.ndarray:
        """A storage by what torch writes of it: "storage", type, key, place, count."""
        if not (isinstance(reference, tuple) and len(reference) == 5):
            raise Refused("it has a reference that is not a storage")
        word, kind, key, _, count = reference
        types = {f"torch.{name}": np.dtype(dtype) for name, dtype in STORAGE_TYPES.items()}
        if word != "storage" or not isinstance(kind, Name) or kind not in types:
            raise Refused(f"it has a storage of an unknown type ({shown(kind)})")
        if not isinstance(key, str) or type(count) is not int:
            raise Refused("it has a storage without a name or a size")
        dtype = types[kind]
        if (key, dtype) not in self._read:
            raw = self._member(f"{self._root}data/{key}")
            if len(raw) != count * dtype.itemsize:
                raise Refused(f"storage {key[:40]} has {len(raw)} bytes, not {count} values")
            self._read[key, dtype] = np.frombuffer(raw, dtype)
        return self._read[key, dtype]

    def _member(self, name: str) -> bytes:
        """A stored member; parts of a zip file may overlap, so that many come out of few bytes."""
        try:
            info = self._archive.getinfo(name)
        except KeyError:
            raise Refused(f"it has no storage '{name[:60]}'") from None
        check_stored(info)
        self._stored += info.file_size
        if self._stored > self._size:
            raise Refused("its storages are larger than the file")
        return self._archive.read(info)

    def _tensor(self, storage: Any, offset: Any, size: Any, stride: Any) -> np.ndarray:
        """A strided view of a storage, copied out, after checking that it stays inside."""
        if not isinstance(storage, np.ndarray):
            raise Refused("it has a tensor without a storage")
        if not isinstance(size, tuple) or not isinstance(stride, tuple) or len(size) > 8:
            raise Refused("it has a tensor with an impossible shape")
        numbers = (offset, *size, *stride)
        if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in numbers):
            raise Refused("it has a tensor with an impossible shape")
        if max(numbers) >= 1 << 48:
            raise Refused("it has a tensor with an impossible shape")
        if 0 in size:
            return np.zeros(size, storage.dtype)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        count = int(np.prod(size, dtype=object)) if size else 1
        if last >= len(storage) or count > len(storage):
            raise Refused("it has a tensor larger than its storage")
        self._tensors += count * storage.itemsize
        if self._tensors > MOST_TENSORS * self._size:
            raise Refused("its tensors are larger than the file")
        steps = tuple(step * storage.itemsize for step in stride)
        return np.lib.stride_tricks.as_strided(storage[offset:], size, steps).copy()


def _first(arguments: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    if len(arguments) < count:
        raise Refused("it has a tensor with parts missing")
    return arguments[:count]


def check_stored(info: zipfile.ZipInfo) -> None:
    """Refuse what is packed: torch never packs, and out of a packed member comes any size."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
        raise Refused(f"its part '{info.filename[:60]}' is compressed; save it by torch.save")


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """The dictionary in a torch checkpoint, its tensors as numpy arrays."""
    try:
        with zipfile.ZipFile(path) as archive:
            content = _read(archive, str(path), os.path.getsize(path))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from None
    except zipfile.BadZipFile:
        raise ModelError(
            f"{path}: not a torch checkpoint (a zip file is expected; one written before "
            "torch 1.6 has to be saved again)"
        ) from None
    except Refused as error:
        raise ModelError(f"{path}: refused, {error}") from None
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # damaged pickles and zips raise nearly anything
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise ModelError(f"{path}: damaged checkpoint ({reason})") from None
    if not isinstance(content, dict):
        raise ModelError(f"{path}: holds a {type(content).__name__}, not a checkpoint dictionary")
    return content


def _read(archive: zipfile.ZipFile, path: str, size: int) -> Any:
    names = [info.filename for info in archive.infolist()]
    if len(set(names)) != len(names):
        raise Refused("two of its parts have one name")
    inner = [name for name in names if name.rsplit("/", 1)[-1] == "data.pkl"]
    if len(inner) != 1:
        raise ModelError(f"{path}: a zip file, but not a torch checkpoint (no data.pkl)")
    info = archive.getinfo(inner[0])
    check_stored(info)
    if info.file_size > MAX_PICKLE_BYTES:
        raise ModelError(f"{path}: its index is larger than any checkpoint's; not read")
    root = inner[0].removesuffix("data.pkl")
    order = f"{root}byteorder"
    if order in names:
        check_stored(archive.getinfo(order))
        if archive.read(order) != b"little":
            raise ModelError(f"{path}: written on a big-endian machine; save it again")
    return read_pickle(archive.read(info), _Storages(archive, root, size))
