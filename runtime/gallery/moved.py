"""A gallery for a place, made of one of the model that was adapted to it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dcaplda.runtime.adaptation import moved_voiceprints
from dcaplda.runtime.errors import GalleryError, InputError
from dcaplda.runtime.verification import Speaker

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.speakers import Gallery


def write_moved(gallery: "Gallery", adapted: "Backend", path: str | Path) -> None:
    """Write a gallery's speakers as voiceprints of an adapted model, all or no file."""
    from dcaplda.runtime.gallery.speakers import Gallery

    parent, target = gallery.backend, Path(path)
    if adapted.info.parent != parent.info.fingerprint:
        raise InputError(
            f"{adapted.directory}: was not adapted from the model of this gallery "
            f"({parent.info.fingerprint[:12]}); adapt that one, or enrol again"
        )
    gallery.blocks()  # speakers of other places are refused before anything is written
    if target.exists():
        raise GalleryError(f"{path}: is there already; name a new file")
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with Gallery.open(beside, adapted, storage=gallery.storage) as made:
            made.add_many(_moved(gallery, adapted))
        os.rename(beside, target)
    finally:
        for leftover in beside.parent.glob(f"{beside.name}*"):
            leftover.unlink()


def _moved(gallery: "Gallery", adapted: "Backend") -> Iterator[tuple[str, Speaker]]:
    info = adapted.info
    for name in gallery:
        speaker = gallery.get(name)
        if speaker is not None:  # else removed by another process meanwhile
            rows = moved_voiceprints(gallery.backend, adapted, speaker.voiceprints)
            yield name, Speaker(rows, speaker.warnings, info.fingerprint, info.parent)
