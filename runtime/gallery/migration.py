"""A gallery taken over by a new model, or moved to another storage.

The new gallery is made beside its place, some speakers at a time, each with the number that it had,
so that a migration that was killed goes on where it was, and changes that others made meanwhile are
followed. When nothing is left to bring, and nobody can write, it gets its name in one step, and the
old one takes no more changes.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcaplda.runtime.errors import GalleryError, InputError
from dcaplda.runtime.gallery.database.address import parse_address
from dcaplda.runtime.gallery.database.schema import Entry, Position
from dcaplda.runtime.gallery.database.storage import is_server, shown_path, stands
from dcaplda.runtime.records.speaker import Speaker
from dcaplda.runtime.utterances import session_column

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.speakers import Gallery

AT_ONCE = 64
"""Speakers per transaction."""
BESIDE = "__new"
"""What the name of a gallery that is not complete ends with, on a server."""
WAYS = ("refuse", "leave")

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Migration:
    """What a migration did."""

    gallery: "Gallery"
    """The new one, open."""
    moved: int
    """Speakers that it has."""
    left: tuple[str, ...]
    """Speakers that must be enrolled again: not all their embeddings were kept."""


def migrate(
    gallery: "Gallery",
    backend: "Backend",
    path: str | Path,
    missing: str = "refuse",
    progress: Progress | None = None,
) -> Migration:
    """Make a gallery of a model at `path` of what another one keeps; see Gallery.migrate."""
    from dcaplda.runtime.gallery.speakers import Gallery

    if missing not in WAYS:
        raise InputError(f"missing = '{missing}': expected {' or '.join(WAYS)}")
    check_free(path, backend)
    _check_extractors(gallery, backend)
    left = lacking(gallery, backend)
    if left and missing == "refuse":
        raise GalleryError(
            f"{gallery.path}: {len(left)} of {len(gallery)} speakers cannot be taken over, since "
            f"their embeddings or seconds were not kept: {named(left)}; enrol these again, or "
            "leave them behind (missing='leave')"
        )
    made = _begun(gallery, backend, path)
    try:
        mover = Mover(gallery, made, backend, progress)
        while not mover.finished(path):
            pass
    finally:
        made.close()
    found = Gallery.open(path, backend, create=False, places=_places(gallery, backend))
    found._store.forget_origins()
    return Migration(found, len(found), tuple(lacking(gallery, backend)))


def lacking(gallery: "Gallery", backend: "Backend") -> list[str]:
    """Speakers whom a model cannot take over."""
    if _same(gallery, backend):
        return []
    return gallery._store.look(lambda it: it.lacking(backend.info.uses_durations))


def named(names: Sequence[str], most: int = 5) -> str:
    """Some names, and how many more."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def check_free(path: str | Path, backend: "Backend") -> None:
    """Refuse a name that a gallery has already."""
    from dcaplda.runtime.gallery.database.storage import Wanted, open_store

    if not is_server(path):
        if os.path.lexists(path):
            raise GalleryError(f"{path}: is there already; name a new file")
        return
    try:
        open_store(path, Wanted(backend.info.fingerprint, create=False)).close()
    except GalleryError as error:
        if "no such gallery" in str(error):
            return
        if "model" not in str(error):
            raise
    raise GalleryError(f"{shown_path(path)}: is there already; name a new gallery")


def _same(gallery: "Gallery", backend: "Backend") -> bool:
    return backend.info.fingerprint == gallery.backend.info.fingerprint


def _check_extractors(gallery: "Gallery", backend: "Backend") -> None:
    old, new = gallery.backend.extractor, backend.extractor
    if old is not None and new is not None and old.fingerprint != new.fingerprint:
        raise GalleryError(
            f"{gallery.path}: its embeddings are of extractor {old.fingerprint[:12]}, the new "
            f"model takes those of {new.fingerprint[:12]}; enrol again from recordings"
        )


def _beside(path: str | Path) -> str:
    """Where a gallery is made that is to be at `path`."""
    if not is_server(path):
        target = Path(path)
        return str(target.with_name(f".{target.name}.migrating"))
    address = parse_address(str(path))
    joint = "&" if "?" in address.server else "?"
    return f"{address.server}{joint}gallery={address.gallery}{BESIDE}"


def _places(gallery: "Gallery", backend: "Backend") -> "dict[str, Backend] | None":
    """A copy for the same model has speakers of the same places."""
    return gallery.place_backends if _same(gallery, backend) else None


def _begun(gallery: "Gallery", backend: "Backend", path: str | Path) -> "Gallery":
    """The gallery that a migration to this place has begun, or begins."""
    from dcaplda.runtime.gallery.speakers import Gallery

    beside = _beside(path)
    try:
        made = Gallery.open(
            beside,
            backend,
            storage=gallery.storage,
            places=_places(gallery, backend),
            keep_embeddings=gallery.keep_embeddings,
        )
    except GalleryError as error:
        if "another model" in str(error):
            raise GalleryError(
                f"{beside}: is left of a migration to another model; remove it to begin anew"
            ) from None
        raise
    made._store.agree_on_extractor(backend.extractor or gallery.backend.extractor)
    return made


class Mover:
    """Brings what one gallery has to another."""

    def __init__(
        self, old: "Gallery", new: "Gallery", backend: "Backend", progress: Progress | None
    ) -> None:
        self.old, self.new, self.backend = old, new, backend
        self.progress = progress

    def finished(self, path: str | Path) -> bool:
        """Bring what there is to bring; True when the new gallery is complete and at its place."""
        before = self.old._store.look(lambda it: it.position())
        there = dict(self.old.numbered())
        brought = self.new._store.look(lambda it: it.origins())
        gone = [name for name, number in brought.items() if there.get(name) != number]
        if gone:
            self.new._store.change(stands(gone), ())
            brought = {name: n for name, n in brought.items() if name not in set(gone)}
        unable = set(lacking(self.old, self.backend))
        todo = [name for name in there if name not in brought and name not in unable]
        total = len(todo) + len(brought)
        for begin in range(0, len(todo), AT_ONCE):
            part = todo[begin : begin + AT_ONCE]
            self.new._store.change((), list(self._entries(part)))
            if self.progress is not None:
                self.progress(len(brought) + begin + len(part), total)
        self._bring_tags()

        def last(now: Position) -> bool:
            if now != before:
                return False
            self.new._store.finish(path)
            return True

        return self.old._store.retire(shown_path(path), last)

    def _bring_tags(self) -> None:
        old, new = (it._store.look(lambda tables: tables.all_tags()) for it in (self.old, self.new))
        there = self.new._store.look(lambda it: it.origins())
        for name in there:
            if old.get(name) != new.get(name):
                empty: dict[str, str | None] = dict.fromkeys(new.get(name, {}))
                self.new._store.write_tags(name, {**empty, **old.get(name, {})})

    def _entries(self, names: Sequence[str]) -> Iterator[tuple[str, Entry]]:
        for name in names:
            kept = self.old._store.look(lambda it, name=name: it.life(name))  # type: ignore[misc]
            if kept is None:
                continue  # removed meanwhile
            entry = kept.entry
            if not _same(self.old, self.backend):
                if any(row.embedding is None for row in entry.utterances) or not entry.utterances:
                    continue  # changed meanwhile
                speaker = enrolled_again(self.backend, self.old.as_speaker(name, kept))
                entry = self.new.as_entry(name, speaker)._replace(tags=entry.tags)
            yield name, entry._replace(origin=kept.number)


def enrolled_again(backend: "Backend", old: Speaker) -> Speaker:
    """A speaker of another model, from the embeddings that were kept of it."""
    found = [it.embedding for it in old.utterances if it.embedding is not None]
    times = [it.seconds for it in old.utterances if it.seconds is not None]
    seconds = times if len(times) == len(old.utterances) else None
    way = "voiceprints" if old.way == "voiceprints" and backend.joint is None else "auto"
    sessions = session_column(old.utterances) if backend.joint is not None else None
    try:
        made = backend.enroll(np.stack(found), seconds, multi_enroll=way, sessions=sessions)
    except InputError as error:
        raise GalleryError(f"speaker '{old.name}': {error}") from None
    utterances = tuple(
        replace(new, number=it.number, time=it.time, source=it.source, session=it.session)
        for new, it in zip(made.utterances, old.utterances, strict=True)
    )
    return replace(made, utterances=utterances, name=old.name)
