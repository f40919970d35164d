"""Gallery: enrolled speakers that survive a crash, searched at the speed of a matrix product."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime.decision import check_prior
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.gallery.blocks import Block, Part, Shape, unpacked
from dcaplda.runtime.gallery.memory import CodedMemory, Memory
from dcaplda.runtime.gallery.mirror import Mirror
from dcaplda.runtime.gallery.schema import Entry
from dcaplda.runtime.gallery.search import Matches, Ranking, needed_posterior, rank
from dcaplda.runtime.gallery.side import check_index, side_file
from dcaplda.runtime.gallery.store import GalleryStore
from dcaplda.runtime.gallery.top_matches import Erased
from dcaplda.runtime.values import is_word, word
from dcaplda.runtime.verification import Speaker

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.places import Places

Float32 = NDArray[np.float32]

TRIES = 10
"""Of a search in whose middle speakers are removed."""
MODEL_ITSELF = "(the model itself)"
"""Name of the place of which a gallery's own model knows nothing."""


@dataclass(frozen=True)
class Identification:
    """The answer to "who is this?"."""

    speaker: str | None
    """The one speaker of the gallery that it is, or None."""
    llr: float
    """LLR of the best speaker, chosen or not; minus infinity in an empty gallery."""
    posterior: float
    """Probability that it is the best speaker, against all others and nobody."""
    warnings: tuple[str, ...] = ()
    """What the probe and the best speaker had to say when they were enrolled."""
    posterior_error: float = 0.0
    """How far off the probability may be, where not everybody was compared (index="codes")."""
    exact: bool = True
    """Whether it is proved that nobody is more like the probe."""


class Gallery:
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
        store: GalleryStore,
        backend: "Backend",
        places: "Places | None" = None,
        index: str | None = None,
    ) -> None:
        self.backend = backend
        self.places = places
        """Places whose speakers may be here, the model's own last; None: it has no others."""
        self.storage = store.storage
        """float32 or float16."""
        self._store = store
        known = () if places is None else places.fingerprints
        self._shape = Shape(backend.info.voiceprint_dim, np.dtype(store.storage), backend.ones)
        memory = Memory(store.path, self._shape, known)
        self._mirror = Mirror(store, memory, side_file(store, backend, index))

    @classmethod
    def open(
        cls,
        path: str | Path,
        backend: "Backend",
        *,
        create: bool = True,
        storage: str = "float32",
        places: Mapping[str, "Backend"] | None = None,
        index: str | None = None,
    ) -> "Gallery":
        """Open the gallery at `path`, or make one there unless `create` is false.

        A gallery that was made with another model is refused. `storage` counts for a new
        gallery: float16 halves file and memory and changes LLRs a little (docs/embedding.md).
        `places` are models that were adapted from this one: speakers and probes that they enrolled
        may be here too, and are compared as Places does it. `index="codes"` is for galleries that
        do not fit into memory or take too long to search: everybody is looked through in a code
        of some 80 bytes, and the likeliest are compared exactly (docs/embedding.md).
        """
        check_index(index, bool(places))
        known = None
        if places:
            from dcaplda.runtime.places import Places

            known = Places.from_backends(backend, {**places, MODEL_ITSELF: backend})
        info = backend.info
        store = GalleryStore(path, info.fingerprint, storage, create, info.parent)
        backend.extractor = store.agree_on_extractor(backend.extractor)
        return cls(store, backend, known, index)

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
        return is_word(name) and self._store.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Ids in the order in which the speakers came."""
        parts = self._snapshot()
        if len(parts) == 1:
            for block in parts[0].blocks:
                yield from filter(None, block.ids[: len(block.numbers)])
            return
        blocks = [block for part in parts for block in part.blocks]
        named = [pair for b in blocks for pair in zip(b.numbers.tolist(), b.ids, strict=False)]
        yield from (name for _, name in sorted(named))

    def add(self, name: str, speaker: Speaker | ArrayLike) -> None:
        """Add a speaker under a new id; when this returns, it will survive a crash."""
        self.add_many([(name, speaker)])

    def add_many(self, speakers: Iterable[tuple[str, Speaker | ArrayLike]]) -> None:
        """Add speakers, all or none; far faster than one by one."""
        # Before anything is locked: what makes the speakers may take its time.
        packed = [(word(name, "speaker id"), self._packed(name, it)) for name, it in speakers]
        self._mirror.change(lambda: self._store.add(packed))

    def remove(self, *names: str) -> None:
        """Remove speakers, all or none."""
        asked = [word(name, "speaker id") for name in names]
        self._mirror.change(lambda: self._store.remove(asked))

    def replace(self, name: str, speaker: Speaker | ArrayLike) -> None:
        """Give a speaker that is there new voiceprints."""
        packed = self._packed(word(name, "speaker id"), speaker)
        self._mirror.change(lambda: self._store.replace(name, packed))

    def get(self, name: str) -> Speaker | None:
        """A speaker as it was added (rounded, if the storage is float16); None if not there."""
        found = self._store.get(name) if is_word(name) else None
        if found is None:
            return None
        info = self.backend.info
        matrix = unpacked(self._store.path, self._shape, name, found.data)
        if found.place:
            return Speaker(matrix, found.warnings, found.place, info.fingerprint)
        return Speaker(matrix, found.warnings, info.fingerprint, info.parent)

    def search(
        self, probe: Speaker | ArrayLike, top_k: int = 10, *, prove: bool = False
    ) -> Matches:
        """The speakers with the highest LLRs against one voiceprint, best first.

        Of a gallery with codes, `exact` of the result tells whether that is proved; with `prove`
        everybody is compared where it is not.
        """
        (found,) = self.ranked([probe], top_k, prove=prove)
        return Matches(found.matches, found.exact, found.missed)

    def search_many(
        self, probes: Sequence[Speaker] | ArrayLike, top_k: int = 10, *, prove: bool = False
    ) -> list[Matches]:
        """The same for many probes, voiceprints (n, K) or speakers, far faster than one by one."""
        if not (isinstance(probes, list | tuple) and probes and isinstance(probes[0], Speaker)):
            probes = self.backend.checked_voiceprints(probes, "probes")
        found = self.ranked(probes, top_k, prove=prove)
        return [Matches(it.matches, it.exact, it.missed) for it in found]

    def ranked(
        self,
        probes: Sequence[Speaker | ArrayLike] | Float32,
        top_k: int,
        prior: float | None = None,
        *,
        prove: bool = False,
    ) -> list[Ranking]:
        """The best speakers of each probe, or of each row of a matrix of the gallery's model."""
        for _ in range(TRIES):
            try:
                return self._ranked(probes, top_k, prior, prove)
            except Erased:  # removed meanwhile by another process: without it, then
                continue
        return self._ranked(probes, top_k, prior, prove)

    def _ranked(
        self,
        probes: Sequence[Speaker | ArrayLike] | Float32,
        top_k: int,
        prior: float | None,
        prove: bool,
    ) -> list[Ranking]:
        if isinstance(probes, np.ndarray):
            matrix = self.backend.checked_voiceprints(probes, "probes")
            places = [""] * len(matrix)
        else:
            matrix = np.concatenate([self._probe(it) for it in probes])
            places = [self._place_of(it, "probe") for it in probes]
        memory = self._mirror.now()
        if isinstance(memory, CodedMemory):
            from dcaplda.runtime.gallery.coded_search import rank_coded

            return rank_coded(self.backend, memory, self._store, matrix, top_k, prior, prove)
        parts = self._snapshot()
        if len(parts) == 1 and not any(places):
            return rank(self.backend, parts[0].blocks, matrix, top_k, prior)
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
    ) -> Identification:
        """Which speaker of the gallery is this, if any?

        `prior` is the probability that it is one of them, shared equally: each of N speakers
        has prior / N. The best one is named if that costs less than naming nobody, given how
        probable it is against all the other speakers and against nobody at all.

        >>> gallery.identify(backend.enroll(call, 21.0), prior=0.5).speaker
        'ann'
        """
        check_prior(prior)
        needed = needed_posterior(cost_miss, cost_fa)
        (ranking,) = self.ranked([probe], 1, prior)
        warnings = probe.warnings if isinstance(probe, Speaker) else ()
        if not ranking.matches:
            return Identification(None, -math.inf, 0.0, warnings)
        (best,) = ranking.matches
        assert ranking.posterior is not None
        enrolled = self._store.get(best.speaker)
        return Identification(
            best.speaker if ranking.posterior >= needed else None,
            best.llr,
            ranking.posterior,
            warnings + (enrolled.warnings if enrolled else ()),
            ranking.posterior_error,
            ranking.exact,
        )

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

    def _snapshot(self) -> list[Part]:
        """All speakers as of now, by their place; those of the gallery's own model first."""
        parts = self._mirror.now().parts().items()
        return [Part(self._number(place), blocks) for place, blocks in parts]

    def _number(self, place: str) -> int:
        """Of a place, "" being the gallery's own, in `places`."""
        if self.places is None:
            return 0
        return self.places.fingerprints.index(place or self.backend.info.fingerprint)

    def _place_of(self, speaker: Speaker | ArrayLike, what: str) -> str:
        """Fingerprint of the place's model; empty if it is the gallery's own."""
        if not isinstance(speaker, Speaker):
            return ""
        if speaker.model in ("", self.backend.info.fingerprint):
            return ""
        if self.places is not None and speaker.model in self.places.fingerprints:
            return speaker.model
        way = "enrol again with this one"
        if speaker.parent == self.backend.info.fingerprint:
            way = "open the gallery with it as one of its places"
        raise InputError(f"{what}: enrolled with another model; {way}")

    def _probe(self, probe: Speaker | ArrayLike) -> Float32:
        matrix = self._matrix(probe, "probe")
        if len(matrix) != 1:
            raise InputError(
                f"probe: {len(matrix)} voiceprints; average them by multi_enroll='voiceprints', "
                "or search each by search_many"
            )
        return matrix

    def _matrix(self, speaker: Speaker | ArrayLike, what: str) -> Float32:
        self._place_of(speaker, what)
        rows = speaker.voiceprints if isinstance(speaker, Speaker) else speaker
        return self.backend.checked_voiceprints(rows, what)

    def _packed(self, name: str, speaker: Speaker | ArrayLike) -> Entry:
        what = f"speaker '{name}'"
        matrix = self._matrix(speaker, what)
        with np.errstate(over="ignore"):
            stored = matrix.astype(self.storage)
        if self.storage == "float16" and not np.isfinite(stored).all():
            raise InputError(
                f"speaker '{name}': {np.abs(matrix).max():g} is more than float16 can hold; make a "
                "gallery with storage='float32'"
            )
        warnings = speaker.warnings if isinstance(speaker, Speaker) else ()
        return Entry(stored.tobytes(), warnings, self._place_of(speaker, what))
