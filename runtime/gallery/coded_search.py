"""Search by codes: everybody in a few bytes, the likeliest exactly, and what that leaves out."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.blocks import Block
from dcaplda.runtime.gallery.codes.bounds import SLACK, expected_missed
from dcaplda.runtime.gallery.codes.coded import Coded
from dcaplda.runtime.gallery.codes.evidence import Total, estimated, known, posteriors
from dcaplda.runtime.gallery.codes.quantizer import Query
from dcaplda.runtime.gallery.database.beside import read_row
from dcaplda.runtime.gallery.database.storage import Store
from dcaplda.runtime.gallery.memory import CodedMemory
from dcaplda.runtime.gallery.search import Match, Ranking, Tile, check_search, graph_tile, rank
from dcaplda.runtime.gallery.top_matches import TopMatches, place_lookup, search_blocks

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

Float32 = NDArray[np.float32]
Index = NDArray[np.int64]

CANDIDATES = 500
"""Rows that are compared exactly (bench/codes.py says how many it takes)."""
PROOF_ROWS = 8000
"""So many are compared if that proves the first of the speakers, or all that are asked for."""
PROOF_SHARE = 8
"""At most this part of all rows, though; with `prove` up to it, then everybody."""
FEW_PROBES = 8
"""More probes at once are compared with everybody in less time than one by one with a part."""
WIDER = 16
"""So many times more are ranked by their codes where probabilities are asked for."""
MIDDLE = 1024
"""Of these, so many speakers are compared."""
PROBES_AT_ONCE = 64
"""Probes whose candidates are in memory."""
Others = Callable[[Float32], Sequence[tuple[Tile, Sequence[Block]]]]
"""For probes: what compares them with speakers of another place, and these."""


def rank_coded(
    backend: "Backend",
    memory: CodedMemory,
    store: Store,
    probes: Float32,
    top_k: int,
    prior: float | None,
    prove: bool,
    others: Others = lambda probes: (),
    everybody: Callable[[Float32], list[Ranking]] | None = None,
) -> list[Ranking]:
    """The top_k speakers of each probe (n, K), by their codes and then exactly.

    A ranking whose `exact` is false may lack somebody; with `prove`, everybody is then compared.
    `others` are speakers of other places, whom every search compares, and how; `everybody` ranks
    all speakers exactly where there are such.
    """
    check_search(top_k, prior)
    if not len(probes):
        return []

    def ranked(some: Float32) -> list[Ranking]:
        if everybody is not None:
            return everybody(some)
        return rank(backend, memory.parts()[""], some, top_k, prior)

    if several(backend, probes):
        return ranked(probes)
    found: list[Ranking] = []
    open_ones = []
    share = len(memory.coded.rows_file.rows) // PROOF_SHARE if len(probes) <= FEW_PROBES else 0
    for begin in range(0, len(probes), PROBES_AT_ONCE):
        part = probes[begin : begin + PROBES_AT_ONCE]
        search = _Search(backend, memory, store, part, top_k, prior, others)
        for number, probe in enumerate(part):
            found.append(search.ranking(number))
            hope = prove and not found[-1].exact and search.width < share
            if hope and search.hopeful(number, found[-1], share):
                wider = _Search(backend, memory, store, probe[None], top_k, prior, others, share)
                found[-1] = wider.ranking(0)
            if prove and not found[-1].exact:
                open_ones.append(begin + number)
    if open_ones:
        for number, ranking in zip(open_ones, ranked(probes[open_ones]), strict=True):
            found[number] = ranking
    return found


def several(backend: "Backend", probes: Float32) -> bool:
    """Whether a probe has several utterances, which only some speakers can be compared with."""
    return backend.joint is not None and bool((probes[:, backend.joint.layout.tail] > 1).any())


@dataclass(eq=False)
class _Search:
    """A search of some probes in the gallery of one moment."""

    backend: "Backend"
    memory: CodedMemory
    store: Store
    probes: Float32
    top_k: int
    prior: float | None
    others: Others
    proof_rows: int | None = None
    """Rows that may be compared for a proof; None: as usual."""

    def __post_init__(self) -> None:
        coded = self.memory.coded
        self.queries = [coded.quantizer.query(coded.forms, probe) for probe in self.probes]
        n_rows = len(coded.rows_file.rows)
        self.depth = min(max(CANDIDATES, 4 * self.top_k), n_rows)
        usual = min(PROOF_ROWS, n_rows // PROOF_SHARE)
        wide = max(self.depth, usual if self.proof_rows is None else self.proof_rows)
        wide = wide if self.prior is None else max(wide, WIDER * self.depth)
        self.width = min(wide, n_rows)
        """Rows that are ranked by their codes."""
        values = np.stack([query.values for query in self.queries])
        self.candidates = coded.candidates(values, self.width)

    @cached_property
    def tails(self) -> list[tuple[TopMatches, Sequence[Block]]]:
        """The best of those who came since, and of other places, by exact comparison."""
        own = (graph_tile(self.backend, len(self.probes)), self.memory.tail)
        threads, evidence = self.backend.threads, self.prior is not None
        return [
            (search_blocks(tile, blocks, self.probes, self.top_k, threads, evidence), blocks)
            for tile, blocks in (own, *self.others(self.probes))
            if blocks
        ]

    def ranking(self, number: int) -> Ranking:
        coded = self.memory.coded
        rows = self.candidates.rows[number]
        first = self._present(coded.speakers(rows[: self.depth]))
        kept, llrs = self._compared(number, first)
        tail_llrs, tail_numbers, tail_names = self._tail(number)
        bound = self._bound(number)
        compared, best = self.depth, -np.sort(-np.concatenate([llrs, tail_llrs]))
        for place in (min(self.top_k, len(self.memory)), 1):
            enough = bound.rows_to_prove(float(best[place - 1])) if len(best) >= place else None
            if enough is not None:
                compared = max(enough, compared)
                break
        if compared > self.depth:
            more = self._present(coded.speakers(rows[self.depth : compared]))
            more = more[~np.isin(more, first)]
            more_kept, more_llrs = self._compared(number, more)
            first = np.concatenate([first, more])
            kept, llrs = np.concatenate([kept, more_kept]), np.concatenate([llrs, more_llrs])
        all_llrs = np.concatenate([llrs, tail_llrs])
        numbers = np.concatenate([coded.rows_file.numbers[kept], tail_numbers])
        order = np.lexsort((numbers, -all_llrs))[: self.top_k]
        matches = []
        for place in order.tolist():
            name = (
                self._name(int(kept[place])) if place < len(kept) else tail_names[place - len(kept)]
            )
            if name is not None:
                matches.append(Match(name, float(all_llrs[place])))
        most = bound.largest_llr(compared)
        proved = sum(match.llr > most for match in matches)
        exact = most == -np.inf or proved == min(self.top_k, len(self.memory))
        missed = 0.0
        if not exact:
            whole = len(matches) == min(self.top_k, len(self.memory))
            missed = bound.missed(compared, matches[-1].llr if whole else -np.inf)
        probability, off = None, 0.0
        if self.prior is not None:
            limits = most, bound.largest_llr(len(rows))
            probability, off = self._posterior(number, first, llrs, all_llrs, limits)
        return Ranking(matches, probability, off, exact, missed, proved)

    def hopeful(self, number: int, found: Ranking, rows: int) -> bool:
        """Whether comparing so many rows is likely to prove what was found."""
        drawn, _, _ = self.memory.coded.sample_rows
        if len(found.matches) < min(self.top_k, len(self.memory)):
            return False
        share = self._bound(number).share_above(drawn, found.matches[-1].llr)
        return share * len(self.memory.coded.rows_file.rows) < rows

    def _bound(self, number: int) -> "_Bound":
        return _Bound(
            self.memory.coded,
            self.probes[number],
            self.queries[number],
            self.candidates.scores[number],
        )

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
        return self.store.look(lambda tables: read_row(tables, number))

    def _name(self, speaker: int) -> str | None:
        found = self.memory.coded.rows_file
        name = found.id_of(speaker)
        if name:
            return name
        row = self._row(int(found.numbers[speaker]))
        return None if row is None else row[0]

    def _tail(self, number: int) -> tuple[Float32, Index, Sequence[str]]:
        llrs, numbers = [np.empty(0, np.float32)], [np.empty(0, np.int64)]
        names: list[str] = []
        for found, blocks in self.tails:
            places = found.places[number]
            llrs.append(found.llrs[number])
            numbers.append(np.concatenate([block.numbers for block in blocks])[places])
            names += place_lookup(blocks)(places)
        return np.concatenate(llrs), np.concatenate(numbers), names

    def _posterior(
        self, number: int, first: Index, llrs: Float32, best: Float32, limits: tuple[float, float]
    ) -> tuple[float, float]:
        """Probability of the best speaker, and how far off it may be."""
        if not len(best):
            return 0.0, 0.0
        coded, memory = self.memory.coded, self.memory
        top = float(best.max())
        total = known(llrs, top)
        for found, blocks in self.tails:
            assert found.mean_likelihood_ratio is not None
            count = sum(len(block.numbers) for block in blocks)
            mean = float(found.mean_likelihood_ratio[number])
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


class _Bound:
    """What can be said of the rows behind the best of one probe, by the scores of a scan."""

    def __init__(self, coded: Coded, probe: Float32, query: Query, scores: Float32) -> None:
        self._coded, self._probe, self._query, self._scores = coded, probe, query, scores
        self._ceiling = coded.bounds.ceiling(coded.forms, probe)
        self._error = query.alone + coded.bounds.score_error(coded.quantizer, query)

    def largest_llr(self, compared: int) -> float:
        """The largest LLR that a row behind the first `compared` ones can have."""
        if compared >= len(self._coded.rows_file.rows):
            return -math.inf
        last = self._scores[min(compared, len(self._scores) - 1)]
        return self._ceiling.largest_llr(float(last) + self._error)

    def rows_to_prove(self, llr: float) -> int | None:
        """After how many rows no other one can reach an LLR; None if more than were found."""
        # The same slack as of a ceiling, and once more for what is lost on the way back.
        needed = self._ceiling.needed_score(llr - 2 * SLACK * (1.0 + abs(llr))) - self._error
        rows = int(np.searchsorted(-self._scores, -needed, side="right"))
        return rows if self.largest_llr(rows) < llr else None

    def share_above(self, rows: Float32, llr: float) -> float:
        """The share of rows like these that have to be compared to prove an LLR."""
        needed = self._ceiling.needed_score(llr) - self._error
        side = self._coded.forms.sides(self._probe)[0]
        return float(np.mean(rows @ side.astype(np.float32) - self._query.alone >= needed))

    def missed(self, compared: int, llr: float) -> float:
        """How many behind the first `compared` rows are expected to reach an LLR."""
        needed = self._ceiling.needed_score(llr) - self._query.alone
        usual = self._coded.quantizer.usual_error(self._query)
        return expected_missed(self._scores[:compared], needed, usual)


def _means(llrs: Float32, offsets: Index) -> Float32:
    """Mean LLR of each speaker."""
    if len(llrs) == len(offsets) - 1:
        return llrs
    sums = np.add.reduceat(llrs, offsets[:-1])
    return (sums / np.diff(offsets)).astype(np.float32)
