"""Writes a file of rows, some speakers at a time: it need not fit into memory."""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.files import replacing
from dcaplda.runtime.gallery.stored.layout import (
    HEADER_BYTES,
    TABLES,
    Header,
    Kind,
    aligned,
    new_token,
    speaker_sums,
    text_sums,
)


class Piece(NamedTuple):
    """Some speakers, in the order of their numbers."""

    numbers: NDArray[np.int64]
    ids: list[str]
    sizes: NDArray[np.int64]
    """Rows of each."""
    rows: NDArray[np.floating]


def write_rows(
    path: Path,
    kind: Kind,
    position: tuple[int, int],
    pieces: Iterable[Piece],
    crcs: Callable[[NDArray[np.int64]], NDArray[np.uint32]],
    like: Path,
) -> None:
    """Write all speakers as of `position` (last number, last removal), whole or not at all.

    `crcs` gives what the database has as checksums of numbers, by which the file is known to be of
    it. The file may be read by those who may read `like`.
    """
    tables: dict[str, list[NDArray]] = {name: [] for name in TABLES}
    texts: list[bytes] = []
    n_rows = 0
    with replacing(path, like=like) as beside, open(beside, "wb") as out:
        out.seek(HEADER_BYTES)
        for piece in pieces:
            encoded = [name.encode("utf-8", "surrogatepass") + b"\n" for name in piece.ids]
            text, lengths = b"".join(encoded), np.fromiter(map(len, encoded), np.int64)
            rows = np.ascontiguousarray(piece.rows)
            out.write(rows.data)
            offsets, ends = _ends(piece.sizes), _ends(lengths)
            tables["numbers"].append(piece.numbers)
            tables["offsets"].append(piece.sizes)
            tables["id_ends"].append(lengths)
            tables["sums"].append(speaker_sums(rows, offsets))
            tables["id_sums"].append(text_sums(text, ends))
            texts.append(text)
            n_rows += len(rows)
        made = {name: _joined(parts, TABLES[name][0]) for name, parts in tables.items()}
        made["crcs"] = crcs(made["numbers"])
        made["offsets"], made["id_ends"] = _ends(made["offsets"]), _ends(made["id_ends"])
        header = Header(
            kind.fingerprint,
            kind.storage,
            kind.width,
            *position,
            speakers=len(made["numbers"]),
            rows=n_rows,
            id_bytes=int(made["id_ends"][-1]),
            tables_crc=0,
            token=new_token(),
        )
        for name in TABLES:
            out.write(b"\0" * (aligned(out.tell()) - out.tell()))
            out.write(made[name].data)
        out.write(b"\0" * (aligned(out.tell()) - out.tell()))
        for text in texts:
            out.write(text)
        out.seek(0)
        out.write(replace(header, tables_crc=tables_crc(made)).packed())


def tables_crc(tables: dict[str, NDArray]) -> int:
    """One checksum of all tables."""
    found = 0
    for name in TABLES:
        found = zlib.crc32(np.ascontiguousarray(tables[name]).data, found)
    return found


def _ends(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def _joined(parts: list[NDArray], dtype: type) -> NDArray:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)
