"""Where things lie in a file of rows: a page that tells, the rows, then tables of the speakers."""

import json
import secrets
import zlib
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"dcaplda rows 1\n"
HEADER_BYTES = 4096
"""The first page; the rows begin behind it."""
TABLES = {
    "numbers": (np.int64, 0),
    "offsets": (np.int64, 1),
    "crcs": (np.uint32, 0),
    "sums": (np.uint64, 0),
    "id_sums": (np.uint32, 0),
    "id_ends": (np.int64, 1),
}
"""Kind of number, and how many more of them than speakers."""


@dataclass(frozen=True)
class Kind:
    """Whose voiceprints: a gallery of another model, storage or size is another gallery."""

    fingerprint: str
    storage: str
    width: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a voiceprint."""
        return self.width * np.dtype(self.storage).itemsize


@dataclass(frozen=True)
class Header:
    """What the first page tells."""

    fingerprint: str
    storage: str
    width: int
    number: int
    step: int
    speakers: int
    rows: int
    id_bytes: int
    tables_crc: int
    token: str
    """Made up for each file: what belongs to it knows it by this."""

    @property
    def kind(self) -> Kind:
        """Whose voiceprints these are."""
        return Kind(self.fingerprint, self.storage, self.width)

    def tables_begin(self) -> int:
        """Byte at which the first table begins."""
        return aligned(HEADER_BYTES + self.rows * self.kind.row_bytes)

    def places(self) -> dict[str, tuple[int, int]]:
        """First byte and number of values of each table, and of the text of the ids."""
        found, at = {}, self.tables_begin()
        for name, (dtype, more) in TABLES.items():
            count = self.speakers + more
            found[name] = at, count
            at = aligned(at + count * np.dtype(dtype).itemsize)
        found["ids"] = at, self.id_bytes
        return found

    def size(self) -> int:
        """Bytes of the whole file."""
        begin, count = self.places()["ids"]
        return begin + count

    def packed(self) -> bytes:
        """The first page."""
        text = json.dumps(asdict(self)).encode()
        page = MAGIC + f"{zlib.crc32(text):08x} {len(text)}\n".encode() + text
        assert len(page) <= HEADER_BYTES
        return page.ljust(HEADER_BYTES, b"\0")


def aligned(at: int) -> int:
    """The next byte at which every kind of number may begin."""
    return -(-at // 64) * 64


def new_token() -> str:
    """A name that no other file has."""
    return secrets.token_hex(16)


def read_header(page: bytes) -> Header | None:
    """What a first page tells; None if it is none, or not as it was written."""
    try:
        magic, rest = page[: len(MAGIC)], page[len(MAGIC) :]
        line, _, text = rest.partition(b"\n")
        crc, size = line.split()
        text = text[: int(size)]
        if magic != MAGIC or len(page) != HEADER_BYTES or zlib.crc32(text) != int(crc, 16):
            return None
        found: Any = json.loads(text)
        told = {field.name: found[field.name] for field in fields(Header)}
        for field in fields(Header):
            if type(told[field.name]) is not field.type or (
                field.type is int and told[field.name] < 0
            ):
                return None
        return Header(**told)
    except (ValueError, KeyError, TypeError):
        return None


def words(rows: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    """Rows as the widest whole numbers that they consist of."""
    size = rows.shape[1] * rows.dtype.itemsize
    kind = next(
        kind for kind in (np.uint64, np.uint32, np.uint16, np.uint8) if not size % kind().itemsize
    )
    return rows.view(kind)


def row_sums(rows: NDArray[np.generic]) -> NDArray[np.uint64]:
    """A sum of each row (n, width), in which every flipped bit shows; nearly as fast as memory."""
    return np.add.reduce(words(rows), axis=1, dtype=np.uint64)


def speaker_sums(rows: NDArray[np.generic], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Sums of the rows of each speaker; offsets are counted from 0 here."""
    sums = row_sums(rows)
    return sums if len(sums) == len(offsets) - 1 else np.add.reduceat(sums, offsets[:-1])


def text_sums(text: bytes, ends: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Sums of the bytes of each id; ends are counted from 0 here."""
    return np.add.reduceat(np.frombuffer(text, np.uint8), ends[:-1], dtype=np.uint32)
