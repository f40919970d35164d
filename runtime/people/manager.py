"""SpeakerManager: add, search, verify, score, remove, with a prior in place of a raw threshold."""

import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime.decision import bayes_threshold, check_costs, check_prior, log_odds
from dcaplda.runtime.errors import GalleryError, InputError
from dcaplda.runtime.values import number, shown, speaker_id

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.speakers import Gallery
    from dcaplda.runtime.verification import Speaker, Verification


class SpeakerManager:
    """Named speakers of one model, in memory or in a gallery; from any number of threads.

    `prior` is the probability that an utterance is of somebody who is here (search) or of the one
    who is asked about (verify); the costs are those of missing somebody and of a wrong name.

    >>> manager = SpeakerManager(backend, prior=0.5)
    >>> manager.add("Ann Lee", calls, seconds)
    True
    >>> manager.search(call, seconds=21.0)
    'Ann Lee'
    """

    def __init__(
        self,
        backend: "Backend",
        gallery: "Gallery | None" = None,
        *,
        prior: float = 0.5,
        cost_miss: float = 1.0,
        cost_fa: float = 1.0,
    ) -> None:
        check_prior(prior)
        self._cost_miss, self._cost_fa = check_costs(cost_miss, cost_fa)
        if gallery is not None and gallery.backend.info.fingerprint != backend.info.fingerprint:
            raise InputError("gallery: of another model; open it with this one")
        self.backend, self.gallery, self.prior = backend, gallery, float(prior)
        self._people: dict[str, Speaker] = {}
        self._lock = threading.Lock()

    @property
    def dim(self) -> int:
        """Values of an embedding."""
        return self.backend.info.embedding_dim

    @property
    def num_speakers(self) -> int:
        """How many there are."""
        return len(self._people) if self.gallery is None else len(self.gallery)

    @property
    def all_speakers(self) -> list[str]:
        """Names in the order in which they came."""
        return list(self)

    def __len__(self) -> int:
        return self.num_speakers

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            names = list(self._people)
        return iter(names) if self.gallery is None else iter(self.gallery)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._get(name) is not None

    def add(
        self,
        name: str,
        embeddings: ArrayLike | Sequence[ArrayLike],
        seconds: ArrayLike | None = None,
    ) -> bool:
        """Enrol a speaker from one embedding or a list of them; False if the name is taken."""
        made = self.backend.enroll(_one_array(embeddings), seconds)
        key = speaker_id(name)
        if self.gallery is not None:
            if key in self.gallery:
                return False
            try:
                self.gallery.add(key, made)
            except GalleryError:
                if key in self.gallery:  # somebody else was quicker
                    return False
                raise
            return True
        with self._lock:
            return self._people.setdefault(name, made) is made

    def remove(self, name: str) -> bool:
        """Forget a speaker; False if there is none of that name."""
        if self.gallery is not None:
            if name not in self:
                return False
            self.gallery.remove(name)
            return True
        with self._lock:
            return self._people.pop(name, None) is not None

    def score(self, name: str, embedding: ArrayLike, seconds: float | None = None) -> float:
        """LLR of an utterance and a speaker."""
        return self._verified(name, embedding, seconds).llr

    def verify(
        self,
        name: str,
        embedding: ArrayLike,
        threshold: float | None = None,
        seconds: float | None = None,
    ) -> bool:
        """Is it this speaker? A `threshold` of the LLR stands in for that of prior and costs."""
        if threshold is None:
            return self._verified(name, embedding, seconds).accept
        least = number(threshold, "threshold")
        return self.score(name, embedding, seconds) >= least

    def search(
        self,
        embedding: ArrayLike,
        threshold: float | None = None,
        seconds: float | None = None,
    ) -> str:
        """The speaker that it is, or "" for nobody.

        By the prior each of N speakers has prior / N, and the best is named if its probability
        against all others and nobody is worth it; by a `threshold`, if its LLR reaches it.
        """
        least = None if threshold is None else number(threshold, "threshold")
        embedding = _one_array(embedding)
        # A joint model would take several together, and not find them everywhere.
        if embedding.ndim == 2 and len(embedding) > 1:
            raise InputError("search: one embedding at a time")
        probe = self.backend.enroll(embedding, seconds)
        names, llrs = self._llrs(probe) if self.gallery is None else self._best(probe)
        if not names:
            return ""
        best = int(np.argmax(llrs))
        if least is not None:
            return names[best] if llrs[best] >= least else ""
        if self.gallery is not None:
            miss, fa = self._cost_miss, self._cost_fa
            found = self.gallery.identify(
                probe, prior=self.prior, cost_miss=miss, cost_fa=fa
            ).speaker
            return "" if found is None else found
        # Nobody has LLR 0, and all others share the prior.
        logits = np.append(llrs + log_odds(self.prior) - np.log(len(llrs)), 0.0)
        top = logits.max()
        others = top + np.log(np.exp(np.delete(logits, best) - top).sum())
        enough = logits[best] - others >= bayes_threshold(0.5, self._cost_miss, self._cost_fa)
        return names[best] if enough else ""

    def _best(self, probe: "Speaker") -> tuple[list[str], NDArray[np.float64]]:
        assert self.gallery is not None
        found = self.gallery.search(probe, 1)
        return [it.speaker for it in found], np.array([it.llr for it in found])

    def _llrs(self, probe: "Speaker") -> tuple[list[str], NDArray[np.float64]]:
        """Everybody in memory, and the LLR with each."""
        with self._lock:
            people = dict(self._people)
        if not people:
            return [], np.empty(0)
        rows = [speaker.voiceprints for speaker in people.values()]
        llrs = self.backend.compare(np.concatenate(rows), probe.voiceprints)[:, 0]
        counts = np.array([len(one) for one in rows])
        sums = np.add.reduceat(llrs.astype(np.float64), np.cumsum(counts) - counts)
        return list(people), sums / counts

    def _get(self, name: str) -> "Speaker | None":
        return self._people.get(name) if self.gallery is None else self.gallery.get(name)

    def _verified(self, name: str, embedding: ArrayLike, seconds: float | None) -> "Verification":
        speaker = self._get(name)
        if speaker is None:
            raise InputError(f"no speaker {shown(name)} here; add it first")
        costs = {"cost_miss": self._cost_miss, "cost_fa": self._cost_fa}
        return self.backend.verify(speaker, embedding, seconds, prior=self.prior, **costs)


def _one_array(embeddings: ArrayLike | Sequence[ArrayLike]) -> NDArray[np.generic]:
    try:
        return np.asarray(embeddings)
    except ValueError:
        raise InputError(
            "embeddings: of different sizes; give an array, or a list of equal ones"
        ) from None
