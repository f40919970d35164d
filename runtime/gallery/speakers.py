"""Gallery: enrolled speakers that survive a crash, searched at the speed of a matrix product."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import checks
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.gallery.blocks import Block, VoiceprintBlocks
from dcaplda.runtime.gallery.search import Match, needed_posterior, rank
from dcaplda.runtime.gallery.store import GalleryStore, Position
from dcaplda.runtime.verification import Speaker

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

Float32 = NDArray[np.float32]


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


class Gallery:
    """Speakers of one model in a file, and in memory for searches.

    Any number of processes may have a gallery open. Each sees the changes of the others at its
    next search; only one writes at a time, the others wait. All methods may be called from
    many threads.

    >>> gallery = Gallery.open(path, backend)
    >>> gallery.add("ann", backend.enroll(calls, seconds))
    >>> gallery.search(backend.enroll(call, 21.0), top_k=3)[0].speaker
    'ann'
    """

    def __init__(self, store: GalleryStore, backend: "Backend") -> None:
        self.backend = backend
        self.storage = store.storage
        """float32 or float16."""
        self._store = store
        self._speakers = VoiceprintBlocks(
            store.path, backend.info.voiceprint_dim, np.dtype(store.storage)
        )
        self._seen = Position()
        self._seen_version: object = None
        self._refresh()

    @classmethod
    def open(
        cls,
        path: str | Path,
        backend: "Backend",
        *,
        create: bool = True,
        storage: str = "float32",
    ) -> "Gallery":
        """Open the gallery at `path`, or make one there unless `create` is false.

        A gallery that was made with another model is refused. `storage` counts for a new
        gallery: float16 halves file and memory and changes LLRs a little (docs/embedding.md).
        """
        return cls(GalleryStore(path, backend.info.fingerprint, storage, create), backend)

    def close(self) -> None:
        """Let go of file and memory."""
        self._store.close()
        self._speakers.blocks = ()

    def __enter__(self) -> "Gallery":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Speakers."""
        self._refresh()
        return len(self._speakers)

    def __contains__(self, name: str) -> bool:
        return self._store.get(name) is not None

    def __iter__(self) -> Iterator[str]:
        """Ids in the order in which the speakers came."""
        for block in self.blocks():
            yield from block.ids[: len(block.numbers)]

    def add(self, name: str, speaker: Speaker | ArrayLike) -> None:
        """Add a speaker under a new id; when this returns, it will survive a crash."""
        self.add_many([(name, speaker)])

    def add_many(self, speakers: Iterable[tuple[str, Speaker | ArrayLike]]) -> None:
        """Add speakers, all or none; far faster than one by one."""
        self._store.add((_checked_name(name), *self._packed(name, it)) for name, it in speakers)
        self._refresh(changed=True)

    def remove(self, *names: str) -> None:
        """Remove speakers, all or none."""
        self._store.remove(names)
        self._refresh(changed=True)

    def replace(self, name: str, speaker: Speaker | ArrayLike) -> None:
        """Give a speaker that is there new voiceprints."""
        self._store.replace(name, *self._packed(name, speaker))
        self._refresh(changed=True)

    def get(self, name: str) -> Speaker | None:
        """A speaker as it was added (rounded, if the storage is float16); None if not there."""
        found = self._store.get(name)
        if found is None:
            return None
        rows = np.frombuffer(found[0], self._speakers.dtype)
        matrix = rows.reshape(-1, self.backend.info.voiceprint_dim).astype(np.float32)
        return Speaker(matrix, found[1], self.backend.info.fingerprint)

    def search(self, probe: Speaker | ArrayLike, top_k: int = 10) -> list[Match]:
        """The speakers with the highest LLRs against one voiceprint, best first."""
        return self.search_many(self._probe(probe), top_k)[0]

    def search_many(
        self, probes: Sequence[Speaker] | ArrayLike, top_k: int = 10
    ) -> list[list[Match]]:
        """The same for many probes, voiceprints (n, K) or speakers, far faster than one by one."""
        if isinstance(probes, list | tuple) and probes and isinstance(probes[0], Speaker):
            probes = np.concatenate([self._probe(it) for it in probes])
        matrix = checks.as_matrix(probes, "probes", self.backend.info.voiceprint_dim)
        return [it.matches for it in rank(self.backend, self.blocks(), matrix, top_k)]

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
        needed = needed_posterior(cost_miss, cost_fa)
        (ranking,) = rank(self.backend, self.blocks(), self._probe(probe), 1, prior)
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
            warnings + (enrolled[1] if enrolled else ()),
        )

    def blocks(self) -> tuple[Block, ...]:
        """All speakers as of now; what is returned does not change any more."""
        with self._store.lock:
            self._refresh()
            return self._speakers.blocks

    def _probe(self, probe: Speaker | ArrayLike) -> Float32:
        matrix = self._matrix(probe, "probe")
        if len(matrix) != 1:
            raise InputError(
                f"probe: {len(matrix)} voiceprints; average them by multi_enroll='voiceprints', "
                "or search each by search_many"
            )
        return matrix

    def _matrix(self, speaker: Speaker | ArrayLike, what: str) -> Float32:
        info = self.backend.info
        if isinstance(speaker, Speaker):
            if speaker.model not in ("", info.fingerprint):
                raise InputError(f"{what}: enrolled with another model; enrol again with this one")
            speaker = speaker.voiceprints
        return checks.as_matrix(speaker, what, info.voiceprint_dim)

    def _packed(self, name: str, speaker: Speaker | ArrayLike) -> tuple[bytes, tuple[str, ...]]:
        matrix = self._matrix(speaker, f"speaker '{name}'")
        with np.errstate(over="ignore"):
            stored = matrix.astype(self._speakers.dtype)
        if self.storage == "float16" and not np.isfinite(stored).all():
            raise InputError(
                f"speaker '{name}': {np.abs(matrix).max():g} is more than float16 can hold; make a "
                "gallery with storage='float32'"
            )
        return stored.tobytes(), speaker.warnings if isinstance(speaker, Speaker) else ()

    def _refresh(self, changed: bool = False) -> None:
        """Bring the memory up to the file, if this or another process changed it."""
        with self._store.lock:
            version = self._store.data_version()
            if version == self._seen_version and not changed:
                return
            before = self._speakers.blocks
            try:
                with self._store.changes(self._seen) as (now, chunks, removed):
                    if removed:
                        self._speakers.remove(removed)
                    for rows in chunks:
                        self._speakers.append(rows)
            except BaseException:
                self._speakers.blocks = before
                raise
            self._seen = now
            self._seen_version = version


def _checked_name(name: str) -> str:
    """An id is one word, so that galleries and Kaldi tables can be turned into each other."""
    if not isinstance(name, str) or len(name.split()) != 1 or name != name.strip():
        raise InputError(f"speaker id {name!r}: expected one word without blanks")
    return name
