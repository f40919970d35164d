"""Codes on the disk, beside the file of rows that they are of."""

import io
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from dcaplda.runtime.files import replacing
from dcaplda.runtime.gallery.codes.bounds import Bounds
from dcaplda.runtime.gallery.codes.ladder import LEVELS, Ladder
from dcaplda.runtime.gallery.codes.making import Codes
from dcaplda.runtime.gallery.codes.quantizer import (
    ERROR_COPIES,
    OWN_COPIES,
    PAIR,
    WIDE,
    Quantizer,
)
from dcaplda.runtime.gallery.stored.layout import aligned, row_sums
from dcaplda.runtime.gallery.stored.rows_file import RowsFile, blank

MAGIC = b"dcaplda codes 2\n"
_LINE = 64
"""Bytes of the line behind the magic: size and checksum of the part that tells, and both counts."""


def write_codes(path: Path, codes: Codes, like: Path) -> None:
    """Write codes, whole or not at all, for those who may read `like`."""
    quantizer, bounds = codes.quantizer, codes.bounds
    told = io.BytesIO()
    np.savez(
        told,
        token=np.array(codes.token),
        columns=quantizer.columns,
        factors=quantizer.factors,
        pairs=quantizer.pairs,
        tens=quantizer.tens,
        balance=quantizer.balance,
        ladders=np.array([[it.bottom, it.step] for it in (quantizer.own, quantizer.errors)]),
        lengths=np.array([quantizer.usual, quantizer.spread]),
        wrong=np.array([bounds.beyond, bounds.own]),
        low=bounds.low,
        high=bounds.high,
    )
    text = told.getvalue()
    rows, width = codes.codes.shape
    line = f"{len(text)} {zlib.crc32(text)} {rows} {width}".encode().ljust(_LINE)
    with replacing(path, like=like) as beside, open(beside, "wb") as out:
        out.write(MAGIC + line + text)
        out.write(b"\0" * (_codes_begin(len(text)) - out.tell()))
        out.write(codes.codes.data)
        out.write(b"\0" * (aligned(out.tell()) - out.tell()))
        out.write(row_sums(codes.codes).data)


def read_codes(path: Path, found: RowsFile) -> Codes | None:
    """The codes of a file of rows; None if there are none, or other ones."""
    try:
        with open(path, "rb") as file:
            size, crc, rows, width = _line(file.read(len(MAGIC) + _LINE))
            text = file.read(size)
            if zlib.crc32(text) != crc or rows != found.header.rows:
                return None
            told = np.load(io.BytesIO(text))
            if str(told["token"]) != found.header.token:
                return None
            file.seek(_codes_begin(size))
            codes = np.fromfile(file, np.uint8, rows * width).reshape(rows, width)
            file.seek(aligned(file.tell()))
            sums = np.fromfile(file, np.uint64, rows)
            told = {name: told[name] for name in told.files}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    if not _orderly(told, found.header.width, width):
        return None
    # Of speakers who were removed nothing is left but zeros.
    if len(sums) != rows or ((row_sums(codes) != sums) & codes.any(axis=1)).any():
        return None
    (bottom, step), (least, pace) = told["ladders"].tolist()
    usual, spread = told["lengths"].tolist()
    beyond, own = told["wrong"].tolist()
    quantizer = Quantizer(
        told["columns"],
        told["factors"],
        told["pairs"],
        told["tens"],
        told["balance"],
        Ladder(bottom, step, OWN_COPIES),
        Ladder(least, pace, ERROR_COPIES),
        usual,
        spread,
    )
    bounds = Bounds(beyond, own, told["low"], told["high"])
    return Codes(found.header.token, quantizer, bounds, codes)


def _orderly(told: dict[str, np.ndarray], columns: int, code_bytes: int) -> bool:
    """Whether sizes and numbers go together, whoever made the file."""
    try:
        cross = told["columns"]
        tens = -(-len(cross) // WIDE)
        pairs = tens * WIDE // PAIR
        codes = pairs + tens + OWN_COPIES + 1 + ERROR_COPIES + 1
        sizes = {
            "columns": (len(cross),),
            "factors": (len(cross),),
            "pairs": (pairs, LEVELS, PAIR),
            "tens": (tens, LEVELS, WIDE),
            "balance": (tens * WIDE,),
            "ladders": (2, 2),
            "lengths": (2,),
            "wrong": (2,),
            "high": told["low"].shape,
        }
        numbers = all(told[name].shape == size for name, size in sizes.items())
        finite = all(np.isfinite(told[name]).all() for name in (*sizes, "low"))
        inside = cross.dtype == np.int64 and ((cross >= 0) & (cross < columns)).all()
        return bool(numbers and finite and inside and code_bytes == (codes + 1) // 2)
    except (KeyError, TypeError):
        return False


def erase_codes(path: Path, rows: Iterable[int], token: str) -> None:
    """Overwrite the codes of rows of the file with that token."""
    try:
        with open(path, "r+b", buffering=0) as file:
            size, _, _, width = _line(file.read(len(MAGIC) + _LINE))
            if str(np.load(io.BytesIO(file.read(size)))["token"]) != token:
                return
            for row in rows:
                blank(file, _codes_begin(size) + row * width, width, b"\0")
            os.fsync(file.fileno())
    except FileNotFoundError:
        return
    except ValueError:  # not whole: nobody will read it
        path.unlink(missing_ok=True)


def _codes_begin(size: int) -> int:
    return aligned(len(MAGIC) + _LINE + size)


def _line(head: bytes) -> tuple[int, ...]:
    if not head.startswith(MAGIC):
        raise ValueError
    size, crc, rows, width = map(int, head[len(MAGIC) :].split())
    return size, crc, rows, width
