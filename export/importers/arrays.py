"""Arrays of foreign models, by name: there, of the right shape, finite; else one clear line."""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.tables.formats.named import read_named

Array = NDArray[np.float64]


class Arrays:
    """What a file holds, asked for piece by piece."""

    def __init__(self, path: str, names: Iterable[str], program: str) -> None:
        """`program` is who writes such files, for messages."""
        self.path, self._program = path, program
        self._found: Mapping[str, Array] = read_named(path, names)

    def array(self, name: str, shape: tuple[int | None, ...]) -> Array:
        """One array; None in `shape` is a size that may be any."""
        if name not in self._found:
            raise ModelError(
                f"{self.path}: has no array '{name}'; is it a file of {self._program}?"
            )
        found = self._found[name]
        fits = found.ndim == len(shape) and found.size > 0
        if not fits or any(b not in (None, a) for a, b in zip(found.shape, shape, strict=True)):
            sizes = " x ".join("any" if size is None else str(size) for size in shape)
            if sizes == "any":
                sizes = "one dimension"
            raise ModelError(f"{self.path}: '{name}' has the shape {found.shape}, expected {sizes}")
        if not np.isfinite(found).all():
            raise ModelError(f"{self.path}: '{name}' holds NaN or infinite values; train again")
        return found

    def flag(self, name: str, default: bool) -> bool:
        """A switch, stored as a number; `default` where the file has none."""
        if name not in self._found:
            return default
        found = self._found[name]
        if found.size != 1 or float(found.reshape(-1)[0]) not in (0.0, 1.0):
            raise ModelError(f"{self.path}: '{name}' is no switch; expected 0 or 1")
        return bool(found.reshape(-1)[0])
