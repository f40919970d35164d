"""The registry of formats, and which one a specifier means: `npz:x.npz`, `x.npz`, a folder.

A module of this folder that calls `register` is a format of every tool that reads embeddings.
"""

import functools
import importlib
import os
import pkgutil
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:  # tools that read no vector do not wait for numpy
    import numpy as np
    from numpy.typing import NDArray

Rows: TypeAlias = "tuple[list[str], NDArray[np.floating]]"
"""Ids and the matrix (N, D) whose rows belong to them."""


@dataclass(frozen=True, kw_only=True)
class VectorFormat:
    """How ids and vectors are read from a file, or a folder, and written to one.

    `read(name, only)` gives unique, valid ids and rows of equal width in the precision of the
    file; `only` are the ids that are wanted (None: all), and a reader that gains nothing by
    it may give more. `write(name, ids, matrix)` leaves the whole or nothing.
    """

    names: tuple[str, ...]
    """What stands before the colon; the first is the one that messages use."""
    endings: tuple[str, ...]
    """By which a bare name is recognised."""
    read: Callable[[str, Collection[str] | None], Rows]
    write: "Callable[[str, list[str], NDArray[np.float32]], None]"
    is_folder: bool = False


_KALDI = re.compile(r"([a-z]+,)*(ark|scp)(,[a-z]+)*:")
_FORMATS: dict[str, VectorFormat] = {}


def register(made: VectorFormat) -> VectorFormat:
    """Make a format known by its names."""
    for name in made.names:
        assert name not in _FORMATS, name
        _FORMATS[name] = made
    return made


@functools.cache
def known_formats() -> dict[str, VectorFormat]:
    """Every format by its names; a module that lies in this folder is found without a list."""
    package = __name__.rpartition(".")[0]
    folder = os.path.dirname(__file__)
    for module in sorted(found.name for found in pkgutil.iter_modules([folder])):
        importlib.import_module(f"{package}.{module}")
    return _FORMATS


def has_kaldi_prefix(text: str) -> bool:
    """Whether a name starts as an rspecifier or a wspecifier of Kaldi's does."""
    return _KALDI.match(text) is not None


def split_prefix(text: str) -> tuple[str, str]:
    """`npz:x` as ("npz", "x"); the prefix is empty where it names no format of this room."""
    head, colon, name = text.partition(":")
    return (head, name) if colon and head in known_formats() else ("", text)


def find_format(text: str) -> tuple[VectorFormat, str] | None:
    """The format and file that a specifier names; None if it can only be a table of Kaldi's."""
    prefix, name = split_prefix(text.strip())
    name = name.strip()
    if prefix:
        if name in ("", "-") or "|" in (name[:1], name[-1:]):
            raise UsageError(f"'{text}': '{prefix}:' takes a file name, no pipe and no '-'")
        return known_formats()[prefix], name
    if has_kaldi_prefix(name):
        return None
    for made in known_formats().values():
        is_folder = name.endswith("/") or os.path.isdir(name)
        if (made.is_folder and is_folder) or name.endswith(made.endings):
            return made, name
    return None
