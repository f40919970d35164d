"""Search by codes: everybody in a few bytes, the likeliest exactly, and what that leaves out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.codes.bounds import expected_missed
from dcaplda.runtime.gallery.codes.evidence import Total, estimated, known, posteriors
from dcaplda.runtime.gallery.database.storage import Store
from dcaplda.runtime.gallery.database.store import GalleryStore
from dcaplda.runtime.gallery.database.sums import read_row
from dcaplda.runtime.gallery.memory import CodedMemory
from dcaplda.runtime.gallery.search import Match, Ranking, check_search, graph_tile, rank
from dcaplda.runtime.gallery.top_matches import TopMatches, place_lookup, search_blocks

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

Float32 = NDArray[np.float32]
Index = NDArray[np.int64]

CANDIDATES = 500
"""Rows that are compared exactly (bench/codes.py says how many it takes)."""
WIDER = 16
"""So many times more are ranked by their codes where probabilities are asked for."""
MIDDLE = 1024
"""Of these, so many speakers are compared."""
PROBES_AT_ONCE = 64
"""Probes whose candidates are in memory."""


def rank_coded(
    backend: "Backend",
    memory: CodedMemory,
    store: Store,
    probes: Float32,
    top_k: int,
    prior: float | None,
    prove: bool,
) -> list[Ranking]:
    """The top_k speakers of each probe (n, K), by their codes and then exactly.

    A ranking whose `exact` is false may lack somebody; with `prove`, everybody is then compared.
    """
    check_search(top_k, prior)
    assert isinstance(store, GalleryStore)  # others have no codes
    if not len(probes):
        return []
    blocks = memory.parts()[""] if prove or _several(backend, probes) else ()
    if _several(backend, probes):
        return rank(backend, blocks, probes, top_k, prior)
    found: list[Ranking] = []
    for begin in range(0, len(probes), PROBES_AT_ONCE):
        part = probes[begin : begin + PROBES_AT_ONCE]
        search = _Search(backend, memory, store, part, top_k, prior)
        found += [search.ranking(number) for number in range(len(part))]
    open_ones = [number for number, it in enumerate(found) if prove and not it.exact]
    if open_ones:
        everybody = rank(backend, blocks, probes[open_ones], top_k, prior)
        for number, ranking in zip(open_ones, everybody, strict=True):
            found[number] = ranking
    return found


def _several(backend: "Backend", probes: Float32) -> bool:
    """Whether a probe has several utterances, which only some speakers can be compared with."""
    return backend.joint is not None and bool((probes[:, backend.joint.layout.tail] > 1).any())


@dataclass(eq=False)
class _Search:
    """A search of some probes in the gallery of one moment."""

    backend: "Backend"
    memory: CodedMemory
    store: GalleryStore
    probes: Float32
    top_k: int
    prior: float | None

    def __post_init__(self) -> None:
        coded = self.memory.coded
        made = [coded.quantizer.query(coded.forms, probe) for probe in self.probes]
        self.queries = np.stack([query for query, _ in made])
        self.alone = [alone for _, alone in made]
        n_rows = len(coded.rows_file.rows)
        self.depth = min(max(CANDIDATES, 4 * self.top_k), n_rows)
        wide = self.depth if self.prior is None else min(WIDER * self.depth, n_rows)
        self.candidates = coded.candidates(self.queries, wide)

    @cached_property
    def tail(self) -> TopMatches:
        """The best of those who came since, by exact comparison."""
        tile = graph_tile(self.backend, len(self.probes))
        blocks, threads = self.memory.tail, self.backend.threads
        return search_blocks(tile, blocks, self.probes, self.top_k, threads, self.prior is not None)

    def ranking(self, number: int) -> Ranking:
        coded = self.memory.coded
        rows, scores = self.candidates.rows[number], self.candidates.scores[number]
        first = self._present(coded.speakers(rows[: self.depth]))
        kept, llrs = self._compared(number, first)
        numbers = coded.rows_file.numbers[kept]
        tail_llrs, tail_numbers, tail_names = self._tail(number)
        all_llrs = np.concatenate([llrs, tail_llrs])
        order = np.lexsort((np.concatenate([numbers, tail_numbers]), -all_llrs))[: self.top_k]
        matches = []
        for place in order.tolist():
            name = (
                self._name(int(kept[place])) if place < len(kept) else tail_names[place - len(kept)]
            )
            if name is not None:
                matches.append(Match(name, float(all_llrs[place])))
        whole = self.depth == len(coded.rows_file.rows)
        ceiling = coded.bounds.ceiling(coded.forms, self.probes[number])
        edge = float(scores[self.depth - 1]) + self.alone[number]
        error = coded.bounds.score_error(coded.quantizer, self.queries[number])
        most = -np.inf if whole else ceiling.largest_llr(edge + error)
        least = matches[-1].llr if len(matches) == min(self.top_k, len(self.memory)) else -np.inf
        exact = bool(whole or least > most)
        missed = 0.0
        if not exact:
            needed = ceiling.needed_score(least) - self.alone[number]
            usual = coded.bounds.usual_error(self.queries[number])
            missed = expected_missed(scores[: self.depth], needed, usual)
        probability, off = None, 0.0
        if self.prior is not None:
            last = ceiling.largest_llr(float(scores[-1]) + self.alone[number] + error)
            probability, off = self._posterior(number, first, llrs, all_llrs, (most, last))
        return Ranking(matches, probability, off, exact, missed)

    def _present(self, speakers: Index) -> Index:
        """Each speaker once, in the same order, without those who were removed."""
        if not self.memory.coded.rows_file.single:
            _, begins = np.unique(speakers, return_index=True)
            speakers = speakers[np.sort(begins)]
        return speakers[~np.isin(speakers, self.memory.gone)] if len(self.memory.gone) else speakers

    def _compared(self, number: int, speakers: Index) -> tuple[Index, Float32]:
        """Exact LLRs of speakers of the file, and who they are: some may just be removed."""
        rows, offsets, whole = self.memory.coded.rows_file.gathered(speakers)
        if not whole.all():
            rows, offsets, speakers = self._mended(rows, offsets, speakers, whole)
        if not len(speakers):
            return speakers, np.empty(0, np.float32)
        tile = graph_tile(self.backend, 1)
        llrs = tile(self.probes[number : number + 1], rows.astype(np.float32, copy=False))[0]
        return speakers, _means(llrs, offsets)

    def _mended(
        self, rows: NDArray, offsets: Index, speakers: Index, whole: NDArray[np.bool_]
    ) -> tuple[NDArray, Index, Index]:
        """The same with the database's word on rows that are not as they were written."""
        found = self.memory.coded.rows_file
        parts, kept = [rows[:0]], []
        for place, speaker in enumerate(speakers.tolist()):
            part = rows[offsets[place] : offsets[place + 1]]
            if not whole[place]:
                row = self._row(int(found.numbers[speaker]))
                if row is None:  # removed at this moment, and erased
                    continue
                part = np.frombuffer(row[1], rows.dtype).reshape(-1, rows.shape[1])
            parts.append(part)
            kept.append(speaker)
        ends = np.cumsum([len(part) for part in parts])
        return np.concatenate(parts), ends, np.array(kept, np.int64)

    def _drawn(self, number: int) -> Float32:
        """LLRs of the speakers who stand for all; not a number of those who were erased."""
        rows, offsets, whole = self.memory.coded.sample_rows
        llrs = graph_tile(self.backend, 1)(self.probes[number : number + 1], rows)[0]
        return np.where(whole, _means(llrs, offsets), np.float32(np.nan))

    def _row(self, number: int) -> tuple[str, bytes] | None:
        return self.store.read(lambda cursor: read_row(cursor, number, self.store.path))

    def _name(self, speaker: int) -> str | None:
        found = self.memory.coded.rows_file
        name = found.id_of(speaker)
        if name:
            return name
        row = self._row(int(found.numbers[speaker]))
        return None if row is None else row[0]

    def _tail(self, number: int) -> tuple[Float32, Index, Sequence[str]]:
        blocks = self.memory.tail
        if not blocks:
            return np.empty(0, np.float32), np.empty(0, np.int64), []
        places = self.tail.places[number]
        numbers = np.concatenate([block.numbers for block in blocks])[places]
        return self.tail.llrs[number], numbers, list(place_lookup(blocks)(places))

    def _posterior(
        self, number: int, first: Index, llrs: Float32, best: Float32, limits: tuple[float, float]
    ) -> tuple[float, float]:
        """Probability of the best speaker, and how far off it may be."""
        if not len(best):
            return 0.0, 0.0
        coded, memory = self.memory.coded, self.memory
        top = float(best.max())
        total = known(llrs, top)
        if memory.tail:
            assert self.tail.mean_likelihood_ratio is not None
            count = sum(len(block.numbers) for block in memory.tail)
            mean = float(self.tail.mean_likelihood_ratio[number])
            total = total.plus(Total(count * float(np.exp(mean - top))))
        assert self.prior is not None
        ranked = self._present(coded.speakers(self.candidates.rows[number]))
        middle = ranked[~np.isin(ranked, first)]
        drawn = np.random.default_rng(0).permutation(len(middle))[:MIDDLE]
        _, some = self._compared(number, np.sort(middle[drawn]))
        total = total.plus(estimated(some, len(middle), top, limits[0]))
        some = self._drawn(number)[~np.isin(coded.sample, np.concatenate([ranked, memory.gone]))]
        some = some[~np.isnan(some)]
        left = len(coded.rows_file) - len(memory.gone) - len(first) - len(middle)
        total = total.plus(estimated(some, left, top, limits[1]))
        return posteriors(top, top, total, len(memory), self.prior)


def _means(llrs: Float32, offsets: Index) -> Float32:
    """Mean LLR of each speaker."""
    if len(llrs) == len(offsets) - 1:
        return llrs
    sums = np.add.reduceat(llrs, offsets[:-1])
    return (sums / np.diff(offsets)).astype(np.float32)
