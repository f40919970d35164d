"""Speakers who live in a gallery: utterances come and go, ids are renamed, joined and parted.

Every change of a speaker is one transaction that takes the old one out and puts the new one in, if
nobody else was faster; then it is looked at again and tried again.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.runtime import several
from dcaplda.runtime.errors import GalleryError, InputError
from dcaplda.runtime.gallery.blocks import Shape
from dcaplda.runtime.gallery.database.connection import checked_path
from dcaplda.runtime.gallery.database.schema import Entry, Kept
from dcaplda.runtime.gallery.database.storage import Gone, Store, stands
from dcaplda.runtime.gallery.database.tables import Moved
from dcaplda.runtime.gallery.memory import Memory
from dcaplda.runtime.gallery.mirror import Mirror
from dcaplda.runtime.gallery.packing import Packing, counted, moment_of, text
from dcaplda.runtime.gallery.side import side_file
from dcaplda.runtime.records.speaker import Float32, Speaker, Utterance
from dcaplda.runtime.utterances import (
    chosen,
    coherence,
    in_sessions,
    kept_apart,
    new_utterances,
    speaker_of,
)
from dcaplda.runtime.values import is_speaker_id, speaker_id

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.places import Places

TRIES = 50
"""Of a change of a speaker whom others change all the time."""


class Agreement(NamedTuple):
    """An utterance and its LLR against the others of its speaker."""

    utterance: Utterance
    llr: float


class LivingSpeakers:
    """What a gallery does with its speakers, but for searching them."""

    def __init__(
        self, store: Store, backend: "Backend", backends: "Mapping[str, Backend] | None" = None
    ) -> None:
        """`backends` are those of the places, by their names."""
        self.backend = backend
        self.path = store.path
        """The file, or the address without its password."""
        self.place_backends = dict(backends or {})
        """Models of the places whose speakers may be here, as the gallery was opened with."""
        self.places: Places | None = None
        """Places whose speakers may be here, the model's own last; None: it has no others."""
        self.storage = store.storage
        """float32 or float16."""
        self.keep_embeddings = store.keep_embeddings
        """Whether the embeddings of utterances are stored, for another model."""
        self._store = store
        models = (*self.place_backends.values(), backend)
        self._backends = {it.info.fingerprint: it for it in models}
        self._shape = Shape(backend.info.voiceprint_dim, np.dtype(store.storage), backend.ones)
        self._packing = Packing(store.path, self._shape, store.keep_embeddings)

    def _reflect(self, known: Sequence[str], index: str | None = None) -> None:
        """Read all speakers into memory."""
        memory = Memory(self._store.path, self._shape, known)
        self._mirror = Mirror(self._store, memory, side_file(self._store, self.backend, index))

    def add(
        self,
        name: str,
        speaker: Speaker | ArrayLike,
        *,
        source: str = "",
        time: datetime | float | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add a speaker under a new id; when this returns, it will survive a crash.

        `source` (any line of yours) and `time` (default: now) are kept with its utterances; `tags`
        are what a search may ask for.
        """
        entry = self._packed(name, speaker, moment_of(time), text(source, "source"))
        if tags is not None:
            entry = entry._replace(tags=checked_tags(tags))
        self._mirror.change(lambda: self._store.change((), [(name, entry)]))

    def add_many(
        self,
        speakers: Iterable[tuple[str, Speaker | ArrayLike]],
        tags: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Add speakers, all or none; far faster than one by one. `tags` by speaker."""
        # Before anything is locked: what makes the speakers may take its time.
        packed = [(name, self._packed(name, it)) for name, it in speakers]
        if tags:
            given = {name: checked_tags(it) for name, it in tags.items()}
            packed = [(name, it._replace(tags=given.get(name))) for name, it in packed]
        self._mirror.change(lambda: self._store.change((), packed))

    def remove(self, *names: str) -> None:
        """Remove speakers, all or none, with all that is kept of their utterances.

        What was decided about them stays in the audit log; see `erase`.
        """
        asked = [speaker_id(name) for name in names]
        self._mirror.change(lambda: self._store.change(stands(asked), ()))

    def erase(self, *names: str, decisions: bool = False) -> None:
        """Remove speakers, and wait until nothing of them is left in file and log.

        With `decisions`, what the audit log says of them goes too. Copies and backups that you made
        are yours to erase; so are logs and archives of a PostgreSQL server (docs/galleries.md).
        """
        self.remove(*names)
        if decisions:
            self._store.forget_decisions(names)
        self._store.scrub(wait=True)

    def replace(self, name: str, speaker: Speaker | ArrayLike) -> None:
        """Give a speaker that is there new voiceprints; its tags stay."""
        entry = self._packed(name, speaker)
        self._mirror.change(lambda: self._store.change(stands([name]), [(name, entry)]))

    def get(self, name: str) -> Speaker | None:
        """A speaker as it was added (rounded, if the storage is float16); None if not there."""
        kept = self._store.look(lambda it: it.life(name)) if is_speaker_id(name) else None
        return None if kept is None else self._speaker(name, kept)

    def living(self, name: str) -> tuple[Speaker, dict[str, str]] | None:
        """A speaker with numbers of all its utterances, and its tags; None if it is not there."""
        kept = self._store.look(lambda it: it.life(name)) if is_speaker_id(name) else None
        return None if kept is None else (self._counted(name, kept), dict(kept.entry.tags or {}))

    def utterances(self, name: str) -> list[Utterance]:
        """What a speaker was enrolled with: when, how long, whence; each with its number.

        Utterances of speakers that came as voiceprints alone have numbers below 0 until the
        speaker is changed.
        """
        return list(self._living(name)[1].utterances)

    def add_utterance(
        self,
        name: str,
        embedding: ArrayLike,
        seconds: ArrayLike | None = None,
        *,
        sessions: ArrayLike | None = None,
        source: str = "",
        time: datetime | float | None = None,
    ) -> Speaker:
        """Add one utterance (D,), or several (n, D), to a speaker; returns what it is now.

        `sessions` are as in Backend.add_utterances.
        """

        def more(speaker: Speaker, backend: "Backend") -> Sequence[Utterance]:
            new = new_utterances(backend, embedding, seconds)
            numbers = several.session_numbers(backend, sessions, len(new))
            new = in_sessions(speaker.utterances, new, numbers)
            return [*speaker.utterances, *(noted(it, source, time) for it in new)]

        return self._remade(name, more)

    def remove_utterance(self, name: str, *numbers: int) -> Speaker:
        """Take utterances, by their numbers, out of a speaker; returns what is left of it."""

        def fewer(speaker: Speaker, backend: "Backend") -> Sequence[Utterance]:
            gone = chosen(speaker.utterances, numbers, f"speaker '{name}'")
            if len(gone) == len(speaker.utterances):
                raise InputError(
                    f"speaker '{name}': has {len(gone)} utterances; at least one must stay, or "
                    "remove the speaker"
                )
            return [it for place, it in enumerate(speaker.utterances) if place not in gone]

        return self._remade(name, fewer)

    def rename(self, name: str, new: str) -> None:
        """Give a speaker another id."""
        speaker_id(new)

        def renamed() -> None:
            kept, _ = self._living(name)
            self._exchange([(name, kept.number)], [(new, kept.entry)])

        self._retried(name, renamed)

    def merge(self, name: str, other: str) -> Speaker:
        """Two ids were one person: `name` gets the utterances of `other`, which goes.

        Tags of `name` stay; those that only `other` has are added.
        """
        if name == other:
            raise InputError(f"speaker '{name}': cannot be merged with itself")

        def merged() -> None:
            (one, speaker), (two, second) = self._living(name), self._living(other)
            if speaker.model != second.model:
                raise InputError(f"speakers '{name}' and '{other}': are of two places; enrol again")
            shift = 1 + max((it.session or 0 for it in speaker.utterances), default=0)
            moved = [
                it if it.session is None else replace(it, session=it.session + shift)
                for it in second.utterances
            ]
            both = sorted([*speaker.utterances, *moved], key=_arrival)
            entry = self._made(name, speaker, both)
            tags = {**(two.entry.tags or {}), **(one.entry.tags or {})}
            gone = [(name, one.number), (other, two.number)]
            self._exchange(gone, [(name, entry._replace(tags=tags))])

        self._retried(name, merged)
        return self._living(name)[1]

    def split(self, name: str, new: str, numbers: Sequence[int]) -> Speaker:
        """One id was two people: the utterances of these numbers become the speaker `new`.

        Both have the tags that `name` has.
        """
        speaker_id(new)

        def parted() -> None:
            kept, speaker = self._living(name)
            gone = chosen(speaker.utterances, list(numbers), f"speaker '{name}'")
            if not 0 < len(gone) < len(speaker.utterances):
                raise InputError(
                    f"speaker '{name}': {len(gone)} of {len(speaker.utterances)} utterances cannot "
                    "be parted from it; both must have one"
                )
            parts: tuple[list[Utterance], list[Utterance]] = ([], [])
            for place, it in enumerate(speaker.utterances):
                parts[place in gone].append(it)
            stays, leaves = (self._made(name, speaker, part) for part in parts)
            put = [(name, stays), (new, leaves._replace(tags=kept.entry.tags))]
            self._exchange([(name, kept.number)], put)

        self._retried(name, parted)
        return self._living(new)[1]

    def coherence(self, name: str) -> list[Agreement]:
        """Each utterance of a speaker with its LLR against the others: which one is a stranger?

        An LLR far below 0 says that the recording is somebody else's. Empty for one utterance.
        """
        _, speaker = self._living(name)
        backend = self._backend_of(speaker)
        llrs = coherence(backend, speaker.utterances, way_of(speaker, backend))
        return [Agreement(*pair) for pair in zip(speaker.utterances, llrs, strict=bool(llrs))]

    def tag(self, name: str, tags: Mapping[str, str | None]) -> None:
        """Set tags of a speaker, such as {"tenant": "acme"}; None takes one away."""
        asked, checked = speaker_id(name), checked_tags(tags)
        self._mirror.change(lambda: self._store.write_tags(asked, checked))

    def tags(self, name: str) -> dict[str, str]:
        """The tags of a speaker."""
        return dict(self._living(name)[0].entry.tags or {})

    def scrub(self) -> None:
        """Wait until nothing of removed speakers is left in the log; `erase` does it itself."""
        self._store.scrub(wait=True)

    def backup(self, target: str | Path) -> None:
        """Copy the gallery to a new SQLite file as of one moment, while others write."""
        name = checked_path(target)
        if os.path.lexists(name):
            raise GalleryError(f"{name}: is there already; name a new file")
        if not os.path.isdir(os.path.dirname(os.path.abspath(name))):
            raise GalleryError(f"{name}: there is no folder for it; make it first")
        self._store.backup(name)

    def numbered(self) -> list[tuple[str, int]]:
        """Ids and numbers in the order of arrival; every change of a speaker gives another."""
        blocks = [block for part in self._mirror.now().parts().values() for block in part]
        pairs = [pair for b in blocks for pair in zip(b.numbers.tolist(), b.ids, strict=False)]
        return [(name, number) for number, name in sorted(pairs)]

    def as_speaker(self, name: str, kept: Kept) -> Speaker:
        """A speaker of what is stored of it."""
        return self._speaker(name, kept)

    def as_entry(self, name: str, speaker: Speaker) -> Entry:
        """What is to be stored of a speaker, the numbers of its utterances too."""
        return self._packing.entry(name, speaker, self._place_of(speaker, f"speaker '{name}'"))

    def _living(self, name: str) -> tuple[Kept, Speaker]:
        """A speaker who must be there, with utterances that have numbers."""
        asked = speaker_id(name)
        kept = self._store.look(lambda it: it.life(asked))
        if kept is None:
            raise GalleryError(f"{self._store.path}: there is no speaker '{name}'")
        return kept, self._counted(name, kept)

    def _counted(self, name: str, kept: Kept) -> Speaker:
        speaker = self._speaker(name, kept)
        utterances = counted(kept_apart(self._backend_of(speaker), speaker))
        return replace(speaker, utterances=utterances)

    def _light(self, name: str) -> Entry | None:
        """What is kept of a speaker, but for utterances and tags; None if it is not there."""
        return self._store.look(lambda it: it.get(name))

    def _speaker(self, name: str, kept: Kept) -> Speaker:
        info = self.backend.info
        if kept.entry.place:
            return self._packing.speaker(name, kept, kept.entry.place, info.fingerprint)
        return self._packing.speaker(name, kept, info.fingerprint, info.parent)

    def _backend_of(self, speaker: Speaker) -> "Backend":
        """The model that made a speaker's voiceprints."""
        found = self._backends.get(speaker.model)
        if found is None:
            raise GalleryError(
                f"{self._store.path}: '{speaker.name}' was enrolled with the model "
                f"{speaker.model[:12]}; open the gallery with it as one of its places"
            )
        return found

    def _remade(
        self, name: str, change: Callable[[Speaker, "Backend"], Sequence[Utterance]]
    ) -> Speaker:
        """A speaker of other utterances than before."""

        def remade() -> None:
            kept, speaker = self._living(name)
            utterances = change(speaker, self._backend_of(speaker))
            self._exchange([(name, kept.number)], [(name, self._made(name, speaker, utterances))])

        self._retried(name, remade)
        return self._living(name)[1]

    def _made(self, name: str, before: Speaker, utterances: Sequence[Utterance]) -> Entry:
        backend = self._backend_of(before)
        made = speaker_of(backend, utterances, way_of(before, backend), name)
        # float16 rounds once: what is kept of an utterance is what its row says.
        return self._packing.entry(name, made, self._place_of(made, "speaker"))

    def _exchange(self, gone: Gone, put: Sequence[tuple[str, Entry]]) -> None:
        self._mirror.change(lambda: self._store.change(gone, put))

    def _retried(self, name: str, change: Callable[[], None]) -> None:
        """Again, as long as others are faster."""
        for _ in range(TRIES):
            try:
                change()
                return
            except Moved:
                continue
        raise self._too_busy(name)

    def _too_busy(self, name: str) -> GalleryError:
        return GalleryError(
            f"{self._store.path}: others change '{name}' all the time; try again later"
        )

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

    def _matrix(self, speaker: Speaker | ArrayLike, what: str) -> Float32:
        self._place_of(speaker, what)
        rows = speaker.voiceprints if isinstance(speaker, Speaker) else speaker
        return self.backend.checked_voiceprints(rows, what)

    def _packed(
        self,
        name: str,
        speaker: Speaker | ArrayLike,
        moment: float | None = None,
        source: str = "",
    ) -> Entry:
        what = f"speaker '{speaker_id(name)}'"
        matrix = self._matrix(speaker, what)
        if not isinstance(speaker, Speaker):
            return Entry(self._packing.data(name, matrix), ())
        known = speaker
        # Numbers of another gallery, or of another life here, are not those of this one.
        if any(it.number is not None for it in known.utterances):
            fresh = tuple(replace(it, number=None) for it in known.utterances)
            known = replace(known, utterances=fresh)
        if known.voiceprints is not matrix:
            known = replace(known, voiceprints=matrix)
        return self._packing.entry(name, known, self._place_of(speaker, what), moment, source)


def way_of(speaker: Speaker, backend: "Backend") -> str:
    """How a speaker's utterances are taken together."""
    if speaker.way:
        return speaker.way
    return "scores" if backend.joint is None or len(speaker.voiceprints) > 1 else "joint"


def noted(it: Utterance, source: str, time: datetime | float | None) -> Utterance:
    """An utterance with what the caller says of it."""
    moment = moment_of(time)
    when = None if moment is None else datetime.fromtimestamp(moment, UTC)
    return replace(it, source=text(source, "source"), time=when)


def _arrival(it: Utterance) -> tuple[bool, int]:
    """Order of utterances that come together: by number, then those that will get one."""
    number = max(it.number or 0, 0)
    return number == 0, number


def checked_tags(tags: Any) -> dict[str, Any]:
    """Tags that a caller gives: lines of text."""
    if not isinstance(tags, Mapping):
        raise InputError('tags: expected names and values, such as {"tenant": "acme"}')
    found = {}
    for name, value in tags.items():
        text(name, "name of a tag")
        found[name] = None if value is None else text(value, f"tag '{name}'")
    return found
