"""The best speakers for each probe: exact, over blocks of voiceprints, by several threads."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.gallery.blocks import Block, widen
from dcaplda.runtime.trials.tiles import run_jobs

Float32 = NDArray[np.float32]
Index = NDArray[np.int64]

PROBES_AT_ONCE = 128
"""Probes compared with a block at once: their LLRs take 1 MB."""
WIDENED_ROWS = 2048
"""Rows of float16 turned into float32 at once."""
FEW_BLOCKS = 4
"""Starting threads costs more than they gain for so few blocks."""


@dataclass(frozen=True)
class TopMatches:
    """Per probe: LLRs from the best downwards, and where the speakers stand in the blocks.

    `mean_likelihood_ratio` is the logarithm of the mean of exp(LLR) over all speakers, and None
    if it was not asked for.
    """

    llrs: list[Float32]
    places: list[Index]
    mean_likelihood_ratio: NDArray[np.float64] | None


@dataclass(frozen=True)
class _Found:
    """What one block gave: candidates as (probe, speaker, llr), and sums of exp(LLR - top)."""

    probes: Index
    speakers: Index
    llrs: Float32
    top: NDArray[np.float64] | None = None
    total: NDArray[np.float64] | None = None


def search_blocks(
    tile: Callable[[Float32, Float32], Float32],
    blocks: Sequence[Block],
    probes: Float32,
    top_k: int,
    threads: int,
    evidence: bool = False,
) -> TopMatches:
    """The top_k best speakers for each probe (T, K); equal LLRs in the order of the blocks.

    Workers drop at once what is below the k-th best LLR met so far, so that almost nothing has
    to be sorted. `tile(probes, rows)` gives the LLRs (probes, rows).
    """
    best = _Best(len(probes), top_k)
    scratch = _Scratch(probes.shape[1])

    def work(block: Block) -> _Found:
        return _search_block(tile, block, probes, top_k, best.least, evidence, scratch)

    first, sums = 0, _LogSum(len(probes))
    jobs = run_jobs(work, blocks, 1 if len(blocks) <= FEW_BLOCKS else threads)
    for block, found in zip(blocks, jobs, strict=True):
        best.merge(found.probes, first + found.speakers, found.llrs)
        if evidence:
            sums.add(found.top, found.total)
        first += len(block.numbers)
    llrs, places = best.lists()
    return TopMatches(llrs, places, sums.value - np.log(first) if evidence and first else None)


def _search_block(
    tile: Callable[[Float32, Float32], Float32],
    block: Block,
    probes: Float32,
    top_k: int,
    least: Float32,
    evidence: bool,
    scratch: "_Scratch",
) -> _Found:
    parts: list[_Found] = []
    for begin in range(0, len(probes), PROBES_AT_ONCE):
        chosen = slice(begin, begin + PROBES_AT_ONCE)
        llrs = _llrs(tile, probes[chosen], block.rows[: block.used], scratch)
        if not block.single:
            sizes = np.diff(block.offsets).astype(np.float32)
            llrs = np.add.reduceat(llrs, block.offsets[:-1], axis=1)
            llrs /= sizes
        probe, speaker = _candidates(llrs, top_k, least[chosen])
        top = total = None
        if evidence:
            top = llrs.max(axis=1).astype(np.float64)
            total = np.exp(llrs - top[:, None].astype(np.float32)).sum(axis=1, dtype=np.float64)
        parts.append(_Found(begin + probe, speaker, llrs[probe, speaker], top, total))
    return parts[0] if len(parts) == 1 else _joined(parts, evidence)


class _Scratch(threading.local):
    """Room for widened rows, one per thread, so that memory is asked for once per search."""

    def __init__(self, width: int) -> None:
        self.rows = np.empty((WIDENED_ROWS, width), np.float32)


def _llrs(
    tile: Callable[[Float32, Float32], Float32],
    probes: Float32,
    rows: NDArray[np.floating],
    scratch: _Scratch,
) -> Float32:
    if rows.dtype == np.float32:
        return tile(probes, rows)  # type: ignore[arg-type]
    llrs = np.empty((len(probes), len(rows)), np.float32)
    for begin in range(0, len(rows), WIDENED_ROWS):
        part = rows[begin : begin + WIDENED_ROWS]
        widen(part, scratch.rows[: len(part)])
        llrs[:, begin : begin + len(part)] = tile(probes, scratch.rows[: len(part)])
    return llrs


def _joined(parts: list[_Found], evidence: bool) -> _Found:
    found = _Found(
        np.concatenate([part.probes for part in parts]),
        np.concatenate([part.speakers for part in parts]),
        np.concatenate([part.llrs for part in parts]),
    )
    if not evidence:
        return found
    tops = [part.top for part in parts if part.top is not None]
    totals = [part.total for part in parts if part.total is not None]
    return _Found(
        found.probes, found.speakers, found.llrs, np.concatenate(tops), np.concatenate(totals)
    )


def _candidates(llrs: Float32, top_k: int, least: Float32) -> tuple[Index, Index]:
    """Probe and speaker of every LLR that can still be among the best."""
    if llrs.shape[1] > top_k and np.isneginf(least).any():
        # The first blocks: what is below a block's own k-th best is out as well.
        own = np.partition(llrs, llrs.shape[1] - top_k, axis=1)[:, llrs.shape[1] - top_k]
        least = np.maximum(least, own)
    # Flat positions: far faster than np.nonzero on a matrix that is almost all false.
    flat = np.flatnonzero(llrs >= least[:, None])
    probe, speaker = np.divmod(flat, llrs.shape[1])
    return probe, speaker


class _Best:
    """The best LLRs of each probe so far."""

    def __init__(self, probes: int, top_k: int) -> None:
        self.top_k = top_k
        self.least = np.full(probes, -np.inf, np.float32)
        """The k-th best LLR of each probe. Replaced, never written to: workers read it."""
        none = np.empty(0, np.int64)
        self._kept = none, none, np.empty(0, np.float32)

    def merge(self, probes: Index, places: Index, llrs: Float32) -> None:
        if not len(probes):
            return
        probes = np.concatenate([self._kept[0], probes])
        places = np.concatenate([self._kept[1], places])
        llrs = np.concatenate([self._kept[2], llrs])
        order = np.lexsort((places, -llrs, probes))
        probes, places, llrs = probes[order], places[order], llrs[order]
        starts = np.searchsorted(probes, np.arange(len(self.least)))
        rank = np.arange(len(probes)) - starts[probes]
        keep = rank < self.top_k
        last = rank == self.top_k - 1
        least = self.least.copy()
        least[probes[last]] = llrs[last]
        self._kept = probes[keep], places[keep], llrs[keep]
        self.least = least

    def lists(self) -> tuple[list[Float32], list[Index]]:
        probes, places, llrs = self._kept
        edges = np.searchsorted(probes, np.arange(len(self.least) + 1))
        cut = list(zip(edges[:-1], edges[1:], strict=True))
        return [llrs[a:b] for a, b in cut], [places[a:b] for a, b in cut]


class _LogSum:
    """Running logarithm of a sum of exponentials, one per probe."""

    def __init__(self, probes: int) -> None:
        self.value = np.full(probes, -np.inf)

    def add(self, top: NDArray[np.float64] | None, total: NDArray[np.float64] | None) -> None:
        assert top is not None and total is not None
        self.value = np.logaddexp(self.value, top + np.log(total))


class Erased(GalleryError):
    """Somebody removed a speaker, and erased it from the file that is searched."""


def place_lookup(blocks: Sequence[Block]) -> Callable[[Index], Iterator[str]]:
    """Turn places in the blocks into ids; raises Erased if one of them is no more."""
    edges = np.cumsum([0] + [len(block.numbers) for block in blocks])

    def ids(places: Index) -> Iterator[str]:
        owners = np.searchsorted(edges, places, side="right") - 1
        for owner, place in zip(owners.tolist(), places.tolist(), strict=True):
            name = blocks[owner].ids[place - int(edges[owner])]
            if not name:
                raise Erased("a speaker was removed while it was compared; search again")
            yield name

    return ids
