"""Tables of vectors written as Kaldi does: `ark:`, `ark,t:`, `ark,scp:`."""

import contextlib
import struct
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import Wspecifier, check_output, parse_wspecifier, writing


def check_wspecifier(text: str) -> Wspecifier:
    """Understand a wspecifier and make sure that its files can be written."""
    target = parse_wspecifier(text)
    check_output(target.ark)
    if target.scp:
        check_output(target.scp)
        if target.ark.endswith(".gz"):
            raise TableError(f"'{text}': an scp cannot point into a gzipped archive")
    return target


def write_vectors(wspecifier: str, ids: Iterable[str], matrix: NDArray[np.float32]) -> None:
    """Write row i of `matrix` (N, D) as float32 under the i-th id; whole files or none.

    Text (`ark,t:`) uses the shortest decimals that read back as the same float32.
    """
    target = check_wspecifier(wspecifier)
    rows = np.ascontiguousarray(matrix, dtype="<f4")
    header = b"\0BFV " + struct.pack("<Bi", 4, rows.shape[1])
    with contextlib.ExitStack() as stack:
        archive = stack.enter_context(writing(target.ark))
        script = stack.enter_context(writing(target.scp)) if target.scp else None
        offset = 0
        for key, row in zip(ids, rows, strict=True):
            name = key.encode("utf-8") + b" "
            if target.as_text:
                body = (" [ " + " ".join(map(str, row)) + " ]\n").encode("ascii")
            else:
                body = header + row.tobytes()
            archive.write(name + body)
            if script is not None:
                script.write(name + f"{target.ark}:{offset + len(name)}\n".encode())
            offset += len(name) + len(body)
