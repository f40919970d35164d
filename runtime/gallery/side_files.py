"""Which files lie beside a gallery's database, by the kind of search that it is opened for."""

from typing import TYPE_CHECKING

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.gallery.side import SideFile
from dcaplda.runtime.gallery.store import GalleryStore
from dcaplda.runtime.gallery.stored.layout import Kind
from dcaplda.runtime.values import shown

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

CODES = "codes"


def check_index(index: str | None, places: bool) -> None:
    """Refuse an index that there is not, or not for several places."""
    if index not in (None, CODES):
        raise InputError(f"index = {shown(index)}: expected '{CODES}', or None for exact searches")
    if index == CODES and places:
        raise InputError(
            f"index='{CODES}' is for speakers of one place; open the gallery without it, or "
            "without places"
        )


def side_file(store: GalleryStore, backend: "Backend", index: str | None) -> SideFile:
    """The files beside a gallery."""
    info = backend.info
    kind = Kind(info.fingerprint, store.storage, info.voiceprint_dim)
    if index is None:
        return SideFile(store, kind)
    from dcaplda.runtime.gallery.coded_side import CodedSide

    return CodedSide(store, kind, backend)
