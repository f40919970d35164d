"""Kaldi archives written byte by byte, independent of the code under test."""

import struct
from pathlib import Path

import numpy as np


def binary_vector(values: np.ndarray) -> bytes:
    """A vector as Kaldi writes it: FV for float32, DV for float64."""
    kind = b"FV " if values.dtype == np.float32 else b"DV "
    return b"\0B" + kind + b"\4" + struct.pack("<i", len(values)) + values.tobytes()


def binary_ark(vectors: dict[str, np.ndarray]) -> bytes:
    """An archive of binary vectors."""
    return b"".join(key.encode() + b" " + binary_vector(v) for key, v in vectors.items())


def text_ark(vectors: dict[str, np.ndarray]) -> bytes:
    """An archive of text vectors, with nine significant digits."""
    lines = (
        f"{key}  [ {' '.join(f'{x:.9g}' for x in vector)} ]\n" for key, vector in vectors.items()
    )
    return "".join(lines).encode()


def write_scp(folder: Path, vectors: dict[str, np.ndarray], name: str = "x") -> Path:
    """An archive and an scp with absolute names; the path of the scp."""
    ark = folder / f"{name}.ark"
    ark.write_bytes(binary_ark(vectors))
    lines, position = [], 0
    for key, vector in vectors.items():
        position += len(key.encode()) + 1
        lines.append(f"{key} {ark}:{position}\n")
        position += len(binary_vector(vector))
    scp = folder / f"{name}.scp"
    scp.write_text("".join(lines))
    return scp


def random_vectors(count: int, dim: int, seed: int = 0, prefix: str = "u") -> dict:
    """Vectors under the names u0, u1, ..."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((count, dim)).astype(np.float32)
    return {f"{prefix}{i}": row for i, row in enumerate(rows)}


def binary_matrix(values: np.ndarray) -> bytes:
    """A matrix as Kaldi writes it: FM for float32, DM for float64."""
    kind = b"FM " if values.dtype == np.float32 else b"DM "
    rows, columns = (b"\4" + struct.pack("<i", size) for size in values.shape)
    return b"\0B" + kind + rows + columns + np.ascontiguousarray(values).tobytes()
