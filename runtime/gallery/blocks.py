"""Voiceprints of many speakers in memory, in blocks that searches can read without a lock.

Speakers keep the order of their numbers. Blocks have a fixed size, so that growing copies
nothing and wastes little memory. A search takes the tuple of blocks as it is at that moment;
changes put new blocks in place of old ones and never touch a row that a search may read.
"""

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.checks import VOICEPRINT, long_row, row_without_ones
from dcaplda.runtime.errors import GalleryError

BLOCK_BYTES = 6 << 20
"""Size of a block: it stays in a core's share of the cache while it is searched."""
HUGE_PAGE = 2 << 20
"""Blocks consist of whole huge pages, which numpy asks for when an array is large: filling and
searching a large gallery takes a good deal less time than with small ones."""
MOST_ROWS = 8192
"""Bounds the LLRs of a block where voiceprints are small."""


class Filled:
    """How far the rows that versions of a block share are taken."""

    def __init__(self, rows: int = 0) -> None:
        self.rows = rows

    def claim(self, used: int, count: int) -> bool:
        """Take the `count` rows behind `used`, if nobody has.

        Who was interrupted behind this keeps them; so does somebody in the middle of whose work a
        handler of signals uses the gallery. Nothing is called between the look and the taking, so
        neither of them can come in there.
        """
        if self.rows != used:
            return False
        self.rows = used + count
        return True


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive speakers: speaker i has the rows offsets[i] to offsets[i + 1].

    `rows` may be longer than what is used, and `ids` longer than the speakers: what lies
    beyond belongs to later versions of the block.
    """

    rows: NDArray[np.floating]
    numbers: NDArray[np.int64]
    ids: list[str]
    offsets: NDArray[np.int64]
    filled: Filled

    @property
    def used(self) -> int:
        """Rows that hold voiceprints."""
        return int(self.offsets[-1])

    @property
    def single(self) -> bool:
        """Whether every speaker has one voiceprint."""
        return self.used == len(self.numbers)


@dataclass(frozen=True, eq=False)
class Part:
    """Speakers of one place, by its number in Places (0 where there are no places)."""

    place: int
    blocks: tuple[Block, ...]

    def __len__(self) -> int:
        return sum(len(block.numbers) for block in self.blocks)


def widen(rows: NDArray[np.float16], out: NDArray[np.float32]) -> None:
    """Write finite float16 rows as float32, many times faster than numpy's own conversion.

    Shifting puts a half's exponent and fraction in their places of a float; a factor of 2^112
    mends the bias of the exponent, also for numbers too small to be normal.
    """
    bits = out.view(np.int32)
    np.left_shift(rows.view(np.int16), 13, out=bits, dtype=np.int32)
    np.bitwise_and(bits, np.int32(0x8FFFE000 - (1 << 32)), out=bits)  # the sign was four bits wide
    np.multiply(out, np.float32(2.0**112), out=out)


@dataclass(frozen=True, eq=False)
class Shape:
    """What voiceprints of a gallery look like."""

    width: int
    dtype: np.dtype
    ones: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Columns that always are 1."""


def _long_row(values: NDArray[np.floating]) -> int | None:
    """The first row that is not finite or longer than voiceprints are; None if there is none."""
    longest = VOICEPRINT.longest
    if values.dtype == np.float16:
        # By their exponents, in a fraction of the time that numpy's conversion takes.
        exponents = np.bitwise_and(values.view(np.uint16), np.uint16(0x7C00))
        largest = 2.0 ** ((int(exponents.max()) >> 10) - 14)
        if largest * math.sqrt(values.shape[1]) <= longest:
            return None
        return long_row(values.astype(np.float32), longest)
    return long_row(values, longest)


class VoiceprintBlocks:
    """All speakers of a gallery. One thread may change it at a time; any may read `blocks`."""

    def __init__(self, place: str, shape: Shape) -> None:
        self.place = place
        self.width, self.dtype, self.ones = shape.width, shape.dtype, shape.ones
        row_bytes = self.width * self.dtype.itemsize
        self.block_rows = min(MOST_ROWS, max(1, BLOCK_BYTES // row_bytes))
        self.blocks: tuple[Block, ...] = ()

    def __len__(self) -> int:
        """Speakers."""
        return sum(len(block.numbers) for block in self.blocks)

    def append(self, speakers: Sequence[tuple[int, str, bytes]]) -> None:
        """Add speakers (number, id, bytes of their rows), all numbers above those before."""
        if not speakers:
            return
        numbers, ids, data = zip(*speakers, strict=True)
        for kind, values in ((int, numbers), (str, ids), (bytes, data)):
            if set(map(type, values)) != {kind}:
                odd = next(i for i, value in enumerate(values) if type(value) is not kind)
                raise GalleryError(
                    f"{self.place}: '{ids[odd]!s:.40}' holds something else than a voiceprint; the "
                    "file is damaged: restore a copy"
                )
        row_bytes = self.width * self.dtype.itemsize
        sizes, rest = np.divmod(np.fromiter(map(len, data), np.int64, len(data)), row_bytes)
        bad = np.flatnonzero((sizes == 0) | (rest > 0))
        if len(bad):
            raise GalleryError(
                f"{self.place}: '{ids[bad[0]]}' has {len(data[bad[0]])} bytes, no whole number of "
                f"voiceprints of {row_bytes}; the file is damaged: restore a copy"
            )
        blocks = list(self.blocks)
        begin = 0
        while begin < len(ids):
            room = len(blocks[-1].rows) - blocks[-1].used if blocks else 0
            totals = np.cumsum(sizes[begin : begin + self.block_rows])
            count = int(np.searchsorted(totals, room, side="right"))
            if count == 0:
                blocks.append(self._empty(max(self.block_rows, int(sizes[begin]))))
                continue
            part = slice(begin, begin + count)
            grown = self._extended(blocks[-1], numbers[part], ids[part], data[part], totals[:count])
            if grown is None:
                blocks[-1] = self._joined([(blocks[-1], np.ones(len(blocks[-1].numbers), bool))])
                continue
            blocks[-1] = grown
            begin += count
        self.blocks = tuple(blocks)

    def _empty(self, capacity: int) -> Block:
        none = np.empty(0, np.int64)
        size = capacity * self.width * self.dtype.itemsize
        memory = np.empty(size + HUGE_PAGE, np.uint8)
        begin = -memory.ctypes.data % HUGE_PAGE
        rows = memory[begin : begin + size].view(self.dtype).reshape(capacity, self.width)
        return Block(rows, none, [], np.zeros(1, np.int64), Filled())

    def _extended(
        self,
        block: Block,
        numbers: Sequence[int],
        ids: Sequence[str],
        data: Sequence[bytes],
        totals: NDArray[np.int64],
    ) -> Block | None:
        """The block with more speakers; None if the rows behind it are taken."""
        values = np.frombuffer(b"".join(data), self.dtype).reshape(-1, self.width)
        for row, what in (
            (_long_row(values), f"not finite, or longer than {VOICEPRINT.longest:g}"),
            (row_without_ones(values, self.ones), "none of the gallery's model"),
        ):
            if row is not None:
                name = ids[int(np.searchsorted(totals, row, side="right"))]
                raise GalleryError(
                    f"{self.place}: a voiceprint of '{name}' is {what}; the file is damaged: "
                    "restore a copy"
                )
        used = block.used
        if not block.filled.claim(used, len(values)):
            return None
        block.rows[used : used + len(values)] = values
        block.ids.extend(ids)
        return replace(
            block,
            numbers=np.concatenate([block.numbers, np.array(numbers, np.int64)]),
            offsets=np.concatenate([block.offsets, used + totals]),
        )

    def remove(self, numbers: Iterable[int]) -> None:
        """Take speakers out; numbers that are not there are passed over."""
        blocks = list(self.blocks)
        firsts = [int(block.numbers[0]) for block in blocks]
        lost: dict[int, list[int]] = {}
        for number in numbers:
            lost.setdefault(bisect.bisect_right(firsts, number) - 1, []).append(number)
        for index, gone in lost.items():
            if index >= 0:
                keep = ~np.isin(blocks[index].numbers, gone)
                blocks[index] = self._joined([(blocks[index], keep)])
        self.blocks = tuple(self._merged([block for block in blocks if len(block.numbers)]))

    def keep(self, numbers: Iterable[int]) -> None:
        """Take all speakers out but those with these numbers."""
        wanted = np.array(sorted(numbers), np.int64)
        chosen = [(block, np.isin(block.numbers, wanted)) for block in self.blocks]
        kept = [self._joined([pair]) for pair in chosen if pair[1].any()]
        self.blocks = tuple(self._merged(kept))

    def _merged(self, blocks: list[Block]) -> list[Block]:
        """Neighbours that both are less than half full become one, so that memory is freed."""
        merged: list[Block] = []
        for block in blocks:
            if merged and max(merged[-1].used, block.used) < self.block_rows // 2:
                whole = [(part, np.ones(len(part.numbers), bool)) for part in (merged[-1], block)]
                merged[-1] = self._joined(whole)
            else:
                merged.append(block)
        return merged

    def _joined(self, parts: Sequence[tuple[Block, NDArray[np.bool_]]]) -> Block:
        """A new block of the chosen speakers of some blocks."""
        sizes = np.concatenate([np.diff(block.offsets)[keep] for block, keep in parts])
        result = self._empty(max(self.block_rows, int(sizes.sum())))
        ids: list[str] = []
        begin = 0
        for block, keep in parts:
            rows = np.repeat(keep, np.diff(block.offsets))
            end = begin + int(rows.sum())
            result.rows[begin:end] = block.rows[: block.used][rows]
            ids += [block.ids[i] for i in np.flatnonzero(keep)]
            begin = end
        numbers = np.concatenate([block.numbers[keep] for block, keep in parts])
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        return Block(result.rows, numbers, ids, offsets, Filled(begin))


def unpacked(place: str, shape: Shape, name: str, data: bytes) -> NDArray[np.float32]:
    """The voiceprints (n, width) of one speaker, with the checks of all that come from a file."""
    speakers = VoiceprintBlocks(place, shape)
    speakers.block_rows = 1
    speakers.append([(0, name, data)])
    (block,) = speakers.blocks
    return block.rows[: block.used].astype(np.float32)
