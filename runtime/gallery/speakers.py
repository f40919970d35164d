"""Gallery: enrolled speakers that survive a crash, searched at the speed of a matrix product."""

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.runtime import values
from dcaplda.runtime.decision import check_prior
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.gallery.audit import Identification, Update, decision_of, probe_warnings
from dcaplda.runtime.gallery.blocks import Block, Part
from dcaplda.runtime.gallery.database.schema import Decision
from dcaplda.runtime.gallery.database.storage import Store, Wanted, open_store
from dcaplda.runtime.gallery.database.tables import Moved
from dcaplda.runtime.gallery.life import TRIES, LivingSpeakers, checked_tags, noted, way_of
from dcaplda.runtime.gallery.memory import CodedMemory, Memory
from dcaplda.runtime.gallery.packing import moment_of
from dcaplda.runtime.gallery.search import Matches, Ranking, needed_posterior, rank
from dcaplda.runtime.gallery.side import check_index
from dcaplda.runtime.gallery.top_matches import Erased
from dcaplda.runtime.records.speaker import Float32, Speaker, short
from dcaplda.runtime.utterances import coherence, in_sessions, new_utterances
from dcaplda.runtime.verification import Verification

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.migration import Migration
    from dcaplda.runtime.places import Places

MODEL_ITSELF = "(the model itself)"
"""Name of the place of which a gallery's own model knows nothing."""


class Gallery(LivingSpeakers):
    """Speakers of one model, or of several places of it, in a file, and in memory for searches.

    Any number of processes may have a gallery open. Each sees the changes of the others at its
    next search; only one writes at a time, the others wait. All methods may be called from
    many threads.

    >>> gallery = Gallery.open(path, backend)
    >>> gallery.add("ann", backend.enroll(calls, seconds))
    >>> gallery.search(backend.enroll(call, 21.0), top_k=3)[0].speaker
    'ann'
    """

    def __init__(
        self,
        store: Store,
        backend: "Backend",
        places: "Places | None" = None,
        backends: "Mapping[str, Backend] | None" = None,
        audit: bool = False,
        index: str | None = None,
    ) -> None:
        """`backends` are those of the places, by their names."""
        super().__init__(store, backend, backends)
        self.audit = audit
        """Whether verify and identify leave a line in the audit log."""
        self.places = places
        self._chosen: weakref.WeakKeyDictionary[Memory, dict] = weakref.WeakKeyDictionary()
        self._reflect(() if self.places is None else self.places.fingerprints, index)

    def __repr__(self) -> str:
        model = short(self.backend.info.fingerprint)
        return f"Gallery('{self._store.path}', {len(self._mirror.last)} speakers, {model})"

    @classmethod
    def open(
        cls,
        path: str | Path,
        backend: "Backend",
        *,
        create: bool = True,
        storage: str = "float32",
        places: Mapping[str, "Backend"] | None = None,
        keep_embeddings: bool | None = None,
        audit: bool = False,
        index: str | None = None,
    ) -> "Gallery":
        """Open the gallery at `path`, or make one there unless `create` is false.

        `path` is an SQLite file, or `postgresql://...` for one that many machines share
        (docs/galleries.md). A gallery that was made with another model is refused. `storage` counts
        for a new gallery: float16 halves file and memory and changes LLRs a little. `places` are
        models that were adapted from this one: speakers and probes that they enrolled may be here
        too, and are compared as Places does it. `keep_embeddings` stores the embeddings of
        utterances from now on, so that another model can take the gallery over (`migrate`); None
        leaves it as it is. With `audit`, verify and identify leave a line in the audit log.
        `index="codes"` is for galleries that do not fit into memory or take too long to search:
        everybody is looked through in a code of some 95 bytes, and the likeliest are compared
        exactly (docs/embedding.md).
        """
        check_index(index)
        known = None
        if places:
            from dcaplda.runtime.places import Places

            known = Places.from_backends(backend, {**places, MODEL_ITSELF: backend})
        info = backend.info
        wanted = Wanted(info.fingerprint, storage, create, info.parent, keep_embeddings)
        store = open_store(path, wanted)
        try:
            backend.extractor = store.agree_on_extractor(backend.extractor)
            return cls(store, backend, known, places, audit, index)
        except BaseException:
            store.close()
            raise

    def adapt(self, adapted: "Backend", path: str | Path) -> "Gallery":
        """A new gallery at `path` with these speakers for a model adapted from this one's.

        For speakers who were enrolled at the place, when it was not known yet. Voiceprints are
        moved, not made again: exactly for a speaker of one utterance, and closely for several,
        of which only the mean is kept (measured in egs/recordings/RESULTS.md). With the
        embeddings at hand, enrol again.
        """
        from dcaplda.runtime.gallery.moved import write_moved

        write_moved(self, adapted, path)
        return Gallery.open(path, adapted, create=False)

    def migrate(
        self,
        backend: "Backend",
        path: str | Path,
        *,
        missing: str = "refuse",
        progress: Callable[[int, int], None] | None = None,
    ) -> "Migration":
        """A new gallery at `path` with these speakers for another model, or another storage.

        Speakers are enrolled again from the embeddings that were kept (`keep_embeddings`); those of
        whom one is missing are named in an error, or left behind (`missing="leave"`). For this
        gallery's own model all are copied as they are, from file to server or back. What is killed
        goes on where it was when it is called again. This gallery can be used until the new one
        appears, by one rename; from then on it takes no more changes.
        """
        from dcaplda.runtime.gallery.migration import migrate

        return migrate(self, backend, path, missing, progress)

    def grant(self, role: str, kind: str = "search") -> None:
        """Let an account of the server `search` (and verify), or `enrol` too."""
        self._store.grant(role, kind)

    def close(self) -> None:
        """Let go of file and memory."""
        self._mirror.close()

    def __enter__(self) -> "Gallery":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Speakers."""
        return len(self._mirror.now())

    def __contains__(self, name: str) -> bool:
        return values.is_speaker_id(name) and self._light(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Ids in the order in which the speakers came."""
        parts = self._snapshot()
        if len(parts) == 1:
            for block in parts[0].blocks:
                yield from filter(None, block.ids[: len(block.numbers)])
            return
        yield from (name for name, _ in self.numbered())

    def search(
        self,
        probe: Speaker | ArrayLike,
        top_k: int = 10,
        *,
        tags: Mapping[str, str] | None = None,
        prove: bool = False,
    ) -> Matches:
        """The speakers with the highest LLRs against one voiceprint, best first.

        `tags`, such as {"tenant": "acme"}: only among speakers that have all of them. Of a gallery
        with codes, `exact` of the result tells whether that is proved; with `prove` everybody is
        compared where it is not.
        """
        (found,) = self.ranked([probe], top_k, tags=tags, prove=prove)
        return found.as_matches()

    def search_many(
        self,
        probes: Sequence[Speaker] | ArrayLike,
        top_k: int = 10,
        *,
        tags: Mapping[str, str] | None = None,
        prove: bool = False,
    ) -> list[Matches]:
        """The same for many probes, voiceprints (n, K) or speakers, far faster than one by one."""
        if not (isinstance(probes, list | tuple) and probes and isinstance(probes[0], Speaker)):
            probes = self.backend.checked_voiceprints(probes, "probes")
        found = self.ranked(probes, top_k, tags=tags, prove=prove)
        return [it.as_matches() for it in found]

    def ranked(
        self,
        probes: Sequence[Speaker | ArrayLike] | Float32,
        top_k: int,
        prior: float | None = None,
        tags: Mapping[str, str] | None = None,
        *,
        prove: bool = False,
    ) -> list[Ranking]:
        """The best speakers of each probe, or of each row of a matrix of the gallery's model."""
        return self._searched(probes, top_k, prior, tags, prove)[0]

    def _searched(
        self,
        probes: Sequence[Speaker | ArrayLike] | Float32,
        top_k: int,
        prior: float | None,
        tags: Mapping[str, str] | None,
        prove: bool = False,
    ) -> tuple[list[Ranking], int]:
        """Rankings, and among how many speakers."""
        for last in reversed(range(TRIES)):
            memory = self._mirror.now()
            parts = [] if isinstance(memory, CodedMemory) and not tags else self._snapshot(tags)
            count = sum(len(part) for part in parts) if parts else len(memory)
            try:
                return self._ranked(probes, top_k, prior, parts, memory, prove), count
            except Erased:  # removed meanwhile by another process: without it, then
                if not last:
                    raise
        raise AssertionError

    def _ranked(
        self,
        probes: Sequence[Speaker | ArrayLike] | Float32,
        top_k: int,
        prior: float | None,
        parts: list[Part],
        memory: Memory,
        prove: bool,
    ) -> list[Ranking]:
        if isinstance(probes, np.ndarray):
            matrix = self.backend.checked_voiceprints(probes, "probes")
            places = [""] * len(matrix)
        else:
            matrix = np.concatenate([self._probe(it) for it in probes])
            places = [self._place_of(it, "probe") for it in probes]
        if isinstance(memory, CodedMemory) and not parts:
            return self._by_codes(memory, matrix, places, top_k, prior, prove)
        if len(parts) == 1 and not any(places):
            return rank(self.backend, parts[0].blocks, matrix, top_k, prior)
        return self._by_places(parts, matrix, places, top_k, prior)

    def _by_codes(
        self,
        memory: CodedMemory,
        matrix: Float32,
        places: list[str],
        top_k: int,
        prior: float | None,
        prove: bool,
    ) -> list[Ranking]:
        """Probes of the gallery's own model by codes; those of other places with everybody."""
        from dcaplda.runtime.gallery.coded_search import rank_coded

        common = (self.backend, memory, self._store)
        if self.places is None or not (memory.others or any(places)):
            return rank_coded(*common, matrix, top_k, prior, prove)
        from dcaplda.runtime.gallery.placed_search import comparison

        known, own = self.places, self._number("")

        def exactly(probes: Float32, whose: Sequence[str] = ()) -> list[Ranking]:
            whose = whose or [""] * len(probes)
            return self._by_places(self._parts(memory.parts()), probes, whose, top_k, prior)

        def others(probes: Float32) -> list:
            parts = self._parts(memory.others)
            return [comparison(known, part, probes, own) for part in parts]

        rows = np.flatnonzero([not place for place in places])
        ranked = rank_coded(*common, matrix[rows], top_k, prior, prove, others, exactly)
        found = dict(zip(rows.tolist(), ranked, strict=True))
        rest = np.flatnonzero([bool(place) for place in places])
        if len(rest):
            ranked = exactly(matrix[rest], [places[row] for row in rest])
            found |= zip(rest.tolist(), ranked, strict=True)
        return [found[row] for row in range(len(matrix))]

    def _by_places(
        self,
        parts: list[Part],
        matrix: Float32,
        places: Sequence[str],
        top_k: int,
        prior: float | None,
    ) -> list[Ranking]:
        """Everybody, exactly, where speakers or probes are of several places."""
        from dcaplda.runtime.gallery.placed_search import rank_placed

        assert self.places is not None
        numbers = np.array([self._number(place) for place in places])
        found: dict[int, Ranking] = {}
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            ranked = rank_placed(self.places, parts, matrix[chosen], number, top_k, prior)
            found |= zip(chosen.tolist(), ranked, strict=True)
        return [found[row] for row in range(len(matrix))]

    def identify(
        self,
        probe: Speaker | ArrayLike,
        *,
        prior: float,
        cost_miss: float = 1.0,
        cost_fa: float = 1.0,
        tags: Mapping[str, str] | None = None,
    ) -> Identification:
        """Which speaker of the gallery is this, if any?

        `prior` is the probability that it is one of them (of those with these `tags`), shared
        equally: each of N speakers has prior / N. The best one is named if that costs less than
        naming nobody, given how probable it is against all the other speakers and against nobody
        at all.

        >>> gallery.identify(backend.enroll(call, 21.0), prior=0.5).speaker
        'ann'
        """
        prior = check_prior(prior)
        needed = needed_posterior(cost_miss, cost_fa)
        (ranking,), count = self._searched([probe], 1, prior, tags)
        best = ranking.matches[0] if ranking.matches else None
        posterior = ranking.posterior or 0.0
        enrolled = None if best is None else self._light(best.speaker)
        answer = Identification(
            best.speaker if best is not None and posterior >= needed else None,
            -math.inf if best is None else best.llr,
            posterior,
            probe_warnings(probe, enrolled.warnings if enrolled else ()),
            None if best is None else best.speaker,
            needed,
            count,
            probe.seconds if isinstance(probe, Speaker) else None,
            prior,
            float(cost_miss),
            float(cost_fa),
            self.backend.info.fingerprint,
            posterior_error=ranking.posterior_error,
            exact=ranking.exact,
        )
        if self.audit:
            self.note(answer)
        return answer

    def verify(
        self,
        name: str,
        embedding: ArrayLike,
        seconds: float | ArrayLike | None = None,
        *,
        prior: float,
        cost_miss: float = 1.0,
        cost_fa: float = 1.0,
    ) -> Verification:
        """Does this utterance come from the speaker of this id? As Backend.verify.

        >>> gallery.verify("ann", call, 21.0, prior=0.5).speaker
        'ann'
        """
        _, speaker = self._living(name)
        backend = self._backend_of(speaker)
        answer = backend.verify(
            speaker, embedding, seconds, prior=prior, cost_miss=cost_miss, cost_fa=cost_fa
        )
        if self.audit:
            self.note(answer)
        return answer

    def add_verified(
        self,
        name: str,
        embedding: ArrayLike,
        seconds: float | None = None,
        *,
        least_llr: float,
        agree: float = 0.0,
        source: str = "",
        time: datetime | float | None = None,
    ) -> Update:
        """Add an utterance that was accepted to its speaker, if that is safe.

        Its LLR with the speaker must reach `least_llr`, well above the threshold of a decision, and
        with it among them every utterance of the speaker must reach `agree` against the others: one
        that is like one recording only would pull the speaker towards somebody else.
        """
        least, floor = values.number(least_llr, "least_llr"), values.number(agree, "agree")
        for _ in range(TRIES):
            kept, speaker = self._living(name)
            backend = self._backend_of(speaker)
            llr = backend.verify(speaker, embedding, seconds, prior=0.5).llr
            if llr < least:
                return Update(False, llr, None, f"LLR {llr:.2f} is below {least:g}")
            new = in_sessions(speaker.utterances, new_utterances(backend, embedding, seconds), None)
            together = [*speaker.utterances, *(noted(it, source, time) for it in new)]
            worst = min(coherence(backend, together, way_of(speaker, backend)))
            if worst < floor:
                reason = f"with it, an utterance agrees with the others by {worst:.2f} only"
                return Update(False, llr, worst, reason)
            put = [(name, self._made(name, speaker, together))]
            try:
                self._exchange([(name, kept.number)], put)
            except Moved:
                continue
            return Update(True, llr, worst, "")
        raise self._too_busy(name)

    def note(self, answer: Verification | Identification) -> None:
        """Leave a decision, such as one of Backend.verify, in the audit log."""
        self._store.note([decision_of(answer)])

    def decisions(
        self, speaker: str | None = None, since: datetime | float = 0.0
    ) -> list[Decision]:
        """The audit log, oldest first: of a speaker, of what was decided since a time."""
        begin = moment_of(since) or 0.0
        return self._store.look(lambda it: it.decisions(speaker, begin))

    def blocks(self) -> tuple[Block, ...]:
        """All speakers as of now; what is returned does not change any more.

        Of a gallery of one place: blocks do not tell whose place is which.
        """
        parts = self._snapshot()
        if len(parts) > 1:
            raise InputError(
                f"{self._store.path}: has speakers of several places; search it by Gallery.search"
            )
        return parts[0].blocks

    def _snapshot(self, tags: Mapping[str, str] | None = None) -> list[Part]:
        """All speakers as of now, by their place; those of the gallery's own model first."""
        memory = self._mirror.now()
        return self._parts(memory.parts() if not tags else self._tagged(memory, tags))

    def _parts(self, blocks: Mapping[str, tuple[Block, ...]]) -> list[Part]:
        return [Part(self._number(place), found) for place, found in blocks.items()]

    def _tagged(self, memory: Memory, tags: Mapping[str, str]) -> dict[str, tuple[Block, ...]]:
        """Of what is in memory the speakers that have these tags, kept until something changes."""
        asked = checked_tags(tags)
        for name, value in asked.items():
            if value is None:
                raise InputError(f"tags: '{name}' has no value to look for")
        key = tuple(sorted(asked.items()))
        found = self._chosen.setdefault(memory, {})
        if key not in found:
            found[key] = memory.only(self._store.look(lambda it: it.tagged(asked)))
        return found[key]

    def _number(self, place: str) -> int:
        """Of a place, "" being the gallery's own, in `places`."""
        if self.places is None:
            return 0
        return self.places.fingerprints.index(place or self.backend.info.fingerprint)

    def _probe(self, probe: Speaker | ArrayLike) -> Float32:
        matrix = self._matrix(probe, "probe")
        if len(matrix) != 1:
            raise InputError(
                f"probe: {len(matrix)} voiceprints; average them by multi_enroll='voiceprints', "
                "or search each by search_many"
            )
        return matrix
