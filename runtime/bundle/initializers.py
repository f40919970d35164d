"""Constants inside a serialized ONNX graph, replaced by name without the onnx package.

Only bytes of the same number are put in the place of others, so that every length in the file stays
right.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.bundle.graph_facts import read_facts
from dcaplda.runtime.errors import BundleError

Float32 = NDArray[np.float32]


def float_constants(content: bytes, names: Iterable[str], place: str) -> dict[str, Float32]:
    """Constants of a graph by name, as flat arrays."""
    constants = read_facts(content, place).constants
    found = {}
    for name in names:
        if name not in constants or (constants[name][1] - constants[name][0]) % 4:
            raise BundleError(f"{place}: has no constant '{name}'; export again")
        found[name] = np.frombuffer(content[slice(*constants[name])], "<f4")
    return found


def with_constants(content: bytes, values: Mapping[str, Float32], place: str) -> bytes:
    """The graph with these constants in place of those of the same names, which it must have."""
    changed = bytearray(content)
    constants = read_facts(content, place).constants
    for name, value in values.items():
        if name not in constants:
            raise BundleError(f"{place}: has no constant '{name}'; export again")
        begin, end = constants[name]
        raw = np.ascontiguousarray(value, "<f4").tobytes()
        if len(raw) != end - begin:
            raise BundleError(f"{place}: constant '{name}' has another size; export again")
        changed[begin:end] = raw
    return bytes(changed)
