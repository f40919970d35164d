"""Which sets and systems to evaluate: one pair of files, or a table in TOML.

    [[set]]
    name = "sitw"
    trials = "data/sitw/trials"
    group = "VOX"                      # optional: its average gets a row of its own;
                                       # or several, as ["VOX", "unseen"]
    utt2dur = "data/sitw/utt2dur"      # optional, as utt2spk, utt2dom, utt2sess and spk2utt

    [[system]]
    name = "dca-plda"
    scores = "exp/dca/{set}.scores"    # {set} stands for the set's name
    reference = true                   # optional: shown, but never called the best

A relative file name starts at the directory of the table.
"""

import difflib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcaplda.eval.trials.conditions import SideFiles
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.fields import parse_toml, shown

_FILES = ("utt2spk", "utt2dur", "utt2dom", "utt2sess", "spk2utt")
_SET_KEYS = ("name", "trials", "group", *_FILES)
_SYSTEM_KEYS = ("name", "scores", "model", "reference")


@dataclass(frozen=True)
class SetSpec:
    """A set of trials and the tables about its ids."""

    name: str
    trials: str
    group: str = ""
    files: SideFiles = field(default_factory=SideFiles)
    further_groups: tuple[str, ...] = ()
    """Other averages in which the set counts."""


@dataclass(frozen=True)
class SystemSpec:
    """A system: where its scores of a set are, and its bundle if there is one."""

    name: str
    scores: str
    model: str = ""
    reference: bool = False
    """Whether it only shows what is possible, as the exact LLR of a simulated world."""

    def scores_of(self, name: str) -> str:
        """Score file of the set `name`."""
        return self.scores.replace("{set}", name)


def read_table(path: str, common: SideFiles) -> tuple[list[SetSpec], list[SystemSpec]]:
    """Read and check a table of sets and systems; `common` fills in what a set leaves out."""
    try:
        table = parse_toml(Path(path).read_bytes())
    except OSError as error:
        raise UsageError(f"--table={path}: cannot be read ({error})") from None
    except ValueError as error:
        raise UsageError(f"{path}: not valid TOML ({error})") from None
    _check_keys(table, ("set", "system"), path, "the table")
    folder = Path(path).parent
    sets = [_set(entry, folder, path, common) for entry in _entries(table, "set", path)]
    systems = [_system(entry, folder, path) for entry in _entries(table, "system", path)]
    for kind, names in (("set", [s.name for s in sets]), ("system", [s.name for s in systems])):
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"{path}: two of [[{kind}]] are named '{name}'")
    for system in systems:
        if len(sets) > 1 and "{set}" not in system.scores:
            raise UsageError(
                f"{path}: scores of system '{system.name}' name one file for {len(sets)} sets; "
                "put {set} into it"
            )
    return sets, systems


def _entries(table: dict[str, Any], kind: str, path: str) -> list[dict[str, Any]]:
    entries = table.get(kind)
    if not isinstance(entries, list) or not entries:
        raise UsageError(f"{path}: has no [[{kind}]]; it needs at least one")
    if not all(isinstance(entry, dict) for entry in entries):
        raise UsageError(f"{path}: {kind} = {shown(entries)}: write [[{kind}]], two brackets")
    return entries


def _check_keys(entry: dict[str, Any], known: tuple[str, ...], path: str, place: str) -> None:
    for key in entry:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{path}: {place} has no key '{key}'; {hint}")


def _text(entry: dict[str, Any], key: str, path: str, place: str, needed: bool = False) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str) or (needed and not value):
        raise UsageError(f"{path}: {place} needs {key} as text, found {shown(value)}")
    return value


def _anchored(name: str, folder: Path) -> str:
    """A file name with its relative path moved to start at the table's directory."""
    prefix, path = "", name
    if re.match(r"ark[a-z,]*:", name):
        head, colon, path = name.partition(":")
        prefix = head + colon
    if not path or path == "-" or path.endswith("|") or os.path.isabs(path):
        return name
    return prefix + str(folder / path)


def _set(entry: dict[str, Any], folder: Path, path: str, common: SideFiles) -> SetSpec:
    _check_keys(entry, _SET_KEYS, path, "[[set]]")
    name = _text(entry, "name", path, "[[set]]", needed=True)
    place = f"set '{name}'"
    trials = _anchored(_text(entry, "trials", path, place, needed=True), folder)
    given = {key: _anchored(_text(entry, key, path, place), folder) for key in _FILES}
    files = SideFiles(
        **{key: given[key] or getattr(common, key) for key in _FILES},
        frame_shift=common.frame_shift,
    )
    groups = entry.get("group", "")
    groups = groups if isinstance(groups, list) else [groups]
    if not groups or not all(isinstance(group, str) for group in groups):
        raise UsageError(f"{path}: {place} needs group as text or a list, found {shown(groups)}")
    return SetSpec(name, trials, groups[0], files, tuple(groups[1:]))


def _system(entry: dict[str, Any], folder: Path, path: str) -> SystemSpec:
    _check_keys(entry, _SYSTEM_KEYS, path, "[[system]]")
    name = _text(entry, "name", path, "[[system]]", needed=True)
    place = f"system '{name}'"
    scores = _anchored(_text(entry, "scores", path, place, needed=True), folder)
    model = _anchored(_text(entry, "model", path, place), folder)
    reference = entry.get("reference", False)
    if not isinstance(reference, bool):
        raise UsageError(f"{path}: {place} needs reference as true or false, found {reference!r}")
    return SystemSpec(name, scores, model, reference)


def named_systems(scores: list[str], names: list[str]) -> list[SystemSpec]:
    """Systems for score files of one set, named by `names` or by what tells the files apart."""
    if names and len(names) != len(scores):
        raise UsageError(f"--names has {len(names)} names for {len(scores)} score files")
    if len(set(names)) != len(names):
        raise UsageError(f"--names={','.join(names)}: a name occurs twice")
    if not names:
        names = _distinct_names(scores)
    return [SystemSpec(name, path) for name, path in zip(names, scores, strict=True)]


def _distinct_names(paths: list[str]) -> list[str]:
    """File names without folders where they differ, else the whole paths."""
    short = ["scores" if path in ("-", "") else Path(path).name for path in paths]
    return short if len(set(short)) == len(short) else paths
