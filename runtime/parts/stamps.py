"""The stamp beside a part: what it was made of, and that it is whole.

A part is written beside its place and renamed, then its stamp is. A stamp holds the size and the
hash of its part, so whatever is killed between the two leaves a part that counts as not done. It is
hidden (`.scores.3.stamp`): `cat scores.*` stays the whole.
"""

import functools
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dcaplda.runtime.errors import PartError
from dcaplda.runtime.fields import Table, parse_json
from dcaplda.runtime.files import replacing
from dcaplda.runtime.parts.digests import of_text

FORMAT = 1
AGAIN = "remove it, and run that part again"
_CLAIM = "work"


@dataclass(frozen=True)
class Work:
    """A job as a whole: which tool does what to which inputs, into how many parts."""

    tool: str
    num_parts: int
    inputs: Mapping[str, str]
    """Digest of each input by its role (`model`, `trials`, ...); see `digests`."""
    settings: Mapping[str, str]
    """Everything else that changes the result."""

    @functools.cached_property
    def fingerprint(self) -> str:
        """Equal for equal jobs."""
        told = {"inputs": dict(self.inputs), "settings": dict(self.settings)}
        return of_text(self.tool, str(self.num_parts), json.dumps(told, sort_keys=True))

    def difference(self, other: "Work") -> str:
        """What differs in another job, in a few words; empty if nothing does."""
        if self.tool != other.tool:
            return f"made by {other.tool}, not by {self.tool}"
        if self.num_parts != other.num_parts:
            return f"of {other.num_parts} parts, not of {self.num_parts}"
        for what in ("inputs", "settings"):
            mine, theirs = getattr(self, what), getattr(other, what)
            names = [n for n in {**mine, **theirs} if mine.get(n) != theirs.get(n)]
            if names and what == "inputs":
                return f"made of other {', '.join(names)}"
            if names:
                name = names[0]
                return f"made with {_shown(name, theirs)}, not with {_shown(name, mine)}"
        return ""


def _shown(name: str, settings: Mapping[str, str]) -> str:
    return f"--{name.replace('_', '-')}={settings.get(name, '')}"


@dataclass(frozen=True)
class Stamp:
    """What is known of a finished part."""

    part: int
    """From 1."""
    work: Work
    size: int
    sha256: str


def stamp_path(path: str | Path) -> Path:
    """Where the stamp of a part lies."""
    path = Path(path)
    return path.with_name(f".{path.name}.stamp")


def write_stamp(path: str | Path, work: Work, part: int) -> None:
    """Say of a part that was just written that it is whole."""
    size, digest = _content(Path(path))
    _write(stamp_path(path), {"part": part, "size": size, "sha256": digest}, work)


def claim(folder: Path, work: Work) -> None:
    """Say before long work begins in a folder what it is; PartError if other work was begun there.

    For what goes on where it was stopped, and whose own last file says that it is finished.
    """
    known = claimed(folder)
    difference = work.difference(known) if known is not None else ""
    if difference:
        raise PartError(f"{folder}: is {difference}; name another directory, or remove this one")
    folder.mkdir(parents=True, exist_ok=True)
    _write(stamp_path(folder / _CLAIM), {}, work)


def claimed(folder: Path) -> Work | None:
    """What was begun in a folder; None if nothing says so."""
    table = _read(stamp_path(folder / _CLAIM))
    return None if table is None else _work_of(table)


def _write(place: Path, more: Mapping[str, Any], work: Work) -> None:
    told = {"format": FORMAT, **more, **asdict(work)}
    with replacing(place) as beside:
        beside.write_text(json.dumps(told) + "\n", encoding="utf-8")


def read_stamp(path: str | Path) -> Stamp | None:
    """The stamp of a part; None if there is none. One that cannot be read raises PartError."""
    table = _read(stamp_path(path))
    if table is None:
        return None
    work = _work_of(table)
    part = table.whole("part", 1, work.num_parts)
    return Stamp(part, work, table.whole("size", 0, 1 << 62), table.text("sha256"))


def _read(place: Path) -> Table | None:
    try:
        told = parse_json(place.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PartError(f"{place}: cannot be read ({error}); {AGAIN}") from None
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise PartError(f"{place}: is not the stamp of a part; {AGAIN}")
    return Table(told, str(place), PartError, AGAIN)


def _work_of(table: Table) -> Work:
    inputs, settings = (table.get(name, dict[str, str]) for name in ("inputs", "settings"))
    return Work(table.text("tool"), table.whole("num_parts", 1, 1 << 31), inputs, settings)


def is_done(path: str | Path, work: Work, part: int) -> bool:
    """Whether a part is there, whole, and of this very job."""
    try:
        stamp = read_stamp(path)
    except PartError:
        return False
    if stamp is None or stamp.part != part or stamp.work.fingerprint != work.fingerprint:
        return False
    return is_whole(path, stamp)


def is_whole(path: str | Path, stamp: Stamp) -> bool:
    """Whether a part has the bytes that its stamp says."""
    try:
        same_size = os.path.getsize(path) == stamp.size
        return same_size and _content(Path(path)) == (stamp.size, stamp.sha256)
    except OSError:
        return False


def _content(path: Path) -> tuple[int, str]:
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return stream.tell(), digest
