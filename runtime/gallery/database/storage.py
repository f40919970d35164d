"""What a gallery asks of a database, and which database a name means.

Another kind of storage is a class with the methods of `Store` and an entry in `SERVERS`; the tests
of tests/runtime/gallery/test_behaviour.py run on each.
"""

import importlib
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from dcaplda.runtime.errors import GalleryError
from dcaplda.runtime.extractors.note import ExtractorNote
from dcaplda.runtime.gallery.database.address import parse_address
from dcaplda.runtime.gallery.database.schema import Changes, Decision, Entry, Position
from dcaplda.runtime.gallery.database.tables import Tables

Result = TypeVar("Result")
_POSTGRES = ("dcaplda.runtime.gallery.postgres.store", "PostgresStore")
SERVERS = {"postgresql": _POSTGRES, "postgres": _POSTGRES}
"""Module and class of the storage that a URL names: loaded when the first is opened."""
_OTHER_SERVER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
Gone = Sequence[tuple[str, int | None]]
"""Speakers to take out; with a number, only if they still have it (else `tables.Moved`)."""
Put = Sequence[tuple[str, Entry]]
"""Speakers to put in."""


class Wanted(NamedTuple):
    """What is asked of a gallery that is opened or made."""

    fingerprint: str
    storage: str = "float32"
    create: bool = True
    parent: str = ""
    """The model that this one was adapted from, for what is said of its gallery."""
    keep_embeddings: bool | None = None
    """None: as the gallery has it; a new one keeps none."""


class Store(Protocol):
    """A gallery in a database; safe to use from many threads and around a fork.

    Changes are acknowledged when they will survive a crash, and happen wholly or not at all.
    """

    path: str
    """What messages call it."""
    lock: threading.RLock  # type: ignore[valid-type]
    """Held while the database is used; whoever keeps a copy in memory guards it with this."""
    storage: str
    """float32 or float16."""
    keep_embeddings: bool

    def change(self, gone: Gone, put: Put) -> None:
        """Take speakers out and put others in; nobody ever sees a part of it."""

    def write_tags(self, name: str, tags: Mapping[str, str | None]) -> None:
        """Set tags of a speaker; None takes one away."""

    def note(self, decisions: Sequence[Decision]) -> None:
        """Add to the audit log."""

    def forget_decisions(self, names: Sequence[str]) -> None:
        """Take what was decided on speakers out of the audit log."""

    def agree_on_extractor(self, told: ExtractorNote | None) -> ExtractorNote | None:
        """The extractor of the speakers here: the first that was told; another one is refused."""

    def data_version(self) -> object:
        """Something that changes when another process has changed the gallery."""

    def read_changes(self, since: Position, take: Callable[[Changes], Result]) -> Result:
        """Hand over what happened after `since`, as of one moment; returns what comes back."""

    def scrub(self, wait: bool) -> None:
        """See that nothing of what was removed is left in files; `wait` for those who read."""

    def backup(self, target: str) -> None:
        """A copy as of one moment, while others write; whole or not at all."""

    def look(self, look: Callable[[Tables], Result]) -> Result:
        """What is found in the tables at one moment."""

    def finish(self, name: str | Path) -> None:
        """Give a gallery that a migration made its name; it is closed afterwards."""

    def forget_origins(self) -> None:
        """Nothing is brought here any more."""

    def retire(self, target: str, last: Callable[[Position], bool]) -> bool:
        """Refuse further changes, if `last(position)`, called while nobody can write, says so."""

    def beside(self) -> str:
        """How the names of files that go with the gallery on this machine begin."""

    def grant(self, role: str, kind: str) -> None:
        """Let an account of the server `search`, or `enrol` too."""

    def close(self) -> None:
        """Let go of it for good."""


def is_server(path: Any) -> bool:
    """Whether this names a database on a server."""
    return isinstance(path, str) and path.partition("://")[0] in SERVERS and "://" in path


def shown_path(path: str | Path) -> str:
    """A path, or an address without its password."""
    if not is_server(path):
        return str(path)
    return parse_address(str(path)).shown


def open_store(path: str | Path, wanted: Wanted) -> Store:
    """The gallery of a name, or a new one."""
    if is_server(path):
        module, kind = SERVERS[str(path).partition("://")[0]]
        return getattr(importlib.import_module(module), kind)(str(path), wanted)  # type: ignore[no-any-return]
    if isinstance(path, str) and _OTHER_SERVER.match(path):
        kind = path.partition("://")[0]
        raise GalleryError(
            f"gallery '{kind}://...': of servers only postgresql:// is known; a file needs its name"
        )
    from dcaplda.runtime.gallery.database.store import GalleryStore

    return GalleryStore(path, wanted)


def stands(names: Iterable[str]) -> Gone:
    """Speakers to take out, whatever happened to them since."""
    return [(name, None) for name in names]
