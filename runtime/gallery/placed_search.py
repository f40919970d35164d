"""Search among speakers of several places of one model: each with its own offset.

Speakers of the probe's place are compared by the graphs, those of other places by the closed form
in float64, block by block: exact as Places.llrs, and slower (docs/embedding.md).
"""

import math
import weakref
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.blocks import Block, FileIds, Part
from dcaplda.runtime.gallery.search import (
    Match,
    Ranking,
    Tile,
    best_posterior,
    check_search,
    graph_tile,
)
from dcaplda.runtime.gallery.top_matches import place_lookup, search_blocks
from dcaplda.runtime.places import Places
from dcaplda.runtime.several import both_several

Float32 = NDArray[np.float32]


def rank_placed(
    places: Places,
    parts: Sequence[Part],
    probes: Float32,
    place: int,
    top_k: int,
    prior: float | None = None,
) -> list[Ranking]:
    """As search.rank, for probes (n, K) of one place; equal LLRs in the order of arrival."""
    check_search(top_k, prior)
    parts = [part for part in parts if len(part)]
    found = []
    for part in parts:
        tile, blocks = comparison(places, part, probes, place)
        threads = places.backend.threads
        found.append(search_blocks(tile, blocks, probes, top_k, threads, prior is not None))
    count = sum(len(part) for part in parts)
    numbers = [np.concatenate([block.numbers for block in part.blocks]) for part in parts]
    ids = [place_lookup(part.blocks) for part in parts]
    rankings = []
    for probe in range(len(probes)):
        best: list[tuple[float, int, str]] = []
        mean = -math.inf
        for part, tops, number, names in zip(parts, found, numbers, ids, strict=True):
            llrs, where = tops.llrs[probe].tolist(), tops.places[probe]
            arrival = number[where].tolist()
            best += zip((-llr for llr in llrs), arrival, names(where), strict=True)
            if tops.mean_likelihood_ratio is not None:
                own = float(tops.mean_likelihood_ratio[probe]) + math.log(len(part) / count)
                mean = float(np.logaddexp(mean, own))
        matches = [Match(name, -negative) for negative, _, name in sorted(best)[:top_k]]
        probability = None
        if prior is not None:
            probability = best_posterior(matches[0].llr, mean, count, prior) if matches else 0.0
        rankings.append(Ranking(matches, probability))
    return rankings


def comparison(
    places: Places, part: Part, probes: Float32, place: int
) -> tuple[Tile, Sequence[Block]]:
    """What compares probes of a place with a part, and the part's blocks as it takes them."""
    backend = places.backend
    if part.place == place and not any(
        both_several(backend, block.rows[: block.used], probes) for block in part.blocks
    ):
        return graph_tile(backend, len(probes)), part.blocks

    def exact(left: Float32, right: Float32) -> Float32:
        return places.told_llrs(right, part.place, left, place).T

    def read(left: Float32, right: Float32) -> Float32:
        return exact(left, places.told(right, part.place))

    if any(isinstance(block.ids, FileIds) for block in part.blocks):
        return read, part.blocks  # rows of a file, which need not fit into memory once more
    return exact, [_told(block, places, part.place) for block in part.blocks]


_kept: "weakref.WeakKeyDictionary[Block, Block]" = weakref.WeakKeyDictionary()


def _told(block: Block, places: Places, place: int) -> Block:
    """The block with what its voiceprints tell as rows, kept as long as the block is.

    Reading it out of voiceprints takes longer than comparing.
    """
    found = _kept.get(block)
    if found is None:
        found = replace(block, rows=places.told(block.rows[: block.used], place))
        _kept[block] = found
    return found
