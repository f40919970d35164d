"""A part of a Kaldi data directory: every table of it, for some of the people."""

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from dcaplda.eval.protocol.utterances import Utterances
from dcaplda.runtime.errors import InputError, TableError, UsageError
from dcaplda.runtime.files import mode_of, working_folder
from dcaplda.runtime.tables.sessions import read_recordings
from dcaplda.runtime.tables.specifiers import is_pipe, split_offset
from dcaplda.runtime.tables.text_lines import read_lines

_TABLES = ("utt2*", "spk2*", "reco2*", "*.scp", "text", "segments")
"""Names of Kaldi's tables. Other files are of other tools, and stay where they are."""
Lines = dict[str, list[str]]
"""Lines of each file of a directory."""


def tables_of(directory: Path) -> list[Path]:
    """The tables of a data directory."""
    found = {path for pattern in _TABLES for path in directory.glob(pattern) if path.is_file()}
    return sorted(found)


def part_of(utterances: Utterances, people: frozenset[str]) -> Lines:
    """The lines of every table that belong to these people."""
    root = Path(utterances.place)
    inside = [name for name, person in utterances.speaker.items() if person in people]
    recordings = read_recordings(root / "segments")
    if recordings is None:
        heard = set(inside)
    else:
        heard = {recordings.get(name, name) for name in inside}
    members: dict[str, list[str]] = {}
    for name in inside:
        members.setdefault(utterances.speaker[name], []).append(name)
    part: Lines = {"spk2utt": [" ".join((who, *names)) for who, names in members.items()]}
    for path in tables_of(root):
        if path.name == "spk2utt":
            continue
        if path.name.startswith("spk2") or path.name == "cmvn.scp":
            keys: set[str] = set(people)
        elif path.name.startswith("reco2") or path.name == "wav.scp":
            keys = heard
        else:
            keys = set(inside)
        kept = [line for line in read_lines(str(path)) if line.partition(" ")[0] in keys]
        part[path.name] = [_placed(line, path) for line in kept] if path.suffix == ".scp" else kept
    return part


def _placed(line: str, scp: Path) -> str:
    """A line of an scp that can be moved: a file that lies beside the scp gets its whole path."""
    key, _, source = line.partition(" ")
    if is_pipe(source) or not source:
        return line
    name, offset = split_offset(source)
    beside = scp.parent / name
    if Path(name).exists() or not beside.is_file():
        return line
    place = str(beside.resolve())
    if len(place.split()) > 1:
        raise TableError(f"'{scp}': '{place}' cannot stand in an scp, since it holds blanks")
    return f"{key} {place}{'' if offset is None else f':{offset}'}"


def check_target(source: str, target: Path, part: Lines) -> None:
    """Refuse to write over the source, or between tables of an earlier split."""
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target}: is a file; give another <out-dir>")
    if target.resolve() == Path(source).resolve():
        raise UsageError(f"{target}: is the data directory itself; give another <out-dir>")
    for path in tables_of(target):
        if path.name not in part:
            raise InputError(f"{path}: is there and not of this split; remove {target} first")


@contextlib.contextmanager
def all_at_once(target: Path) -> Iterator[Path]:
    """Give an empty directory; what the block wrote there moves to `target` if it succeeds."""
    fresh = [folder for folder in (target, *target.parents) if not folder.exists()]
    target.mkdir(parents=True, exist_ok=True)
    try:
        with working_folder(target / "tables") as beside:
            yield beside
            for path in sorted(path for path in beside.rglob("*") if path.is_file()):
                place = target / path.relative_to(beside)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.chmod(mode_of(place, 0o666))
                os.replace(path, place)
    except BaseException:
        for folder in fresh:
            with contextlib.suppress(OSError):  # somebody else put something there
                folder.rmdir()
        raise


def write_part(target: Path, part: Lines) -> None:
    """A data directory of these tables."""
    target.mkdir(parents=True, exist_ok=True)
    for name, lines in part.items():
        write_lines(target / name, lines)


def write_lines(path: Path, lines: Iterable[str]) -> int:
    """A text file of these lines; returns how many there were."""
    count = 0
    with open(path, "w", encoding="utf-8") as stream:
        for line in lines:
            stream.write(f"{line}\n")
            count += 1
    return count
