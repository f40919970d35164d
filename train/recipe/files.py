"""Recipes on disk: TOML to TrainingConfig and back, `--set=section.key=value`, clear errors."""

import dataclasses
import difflib
import json
import os
import re
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.fields import parse_toml, shown, typed
from dcaplda.runtime.tables.formats.registry import has_kaldi_prefix, split_prefix
from dcaplda.train.recipe.auto import AUTO, everything_auto, take_auto
from dcaplda.train.recipe.problems import Problems, gathering
from dcaplda.train.recipe.sections import DevSection, StageSection, TrainingConfig

# Keys of [[dev]] that name files; a relative one starts at the recipe's directory.
_DEV_PATHS = ("xvectors", "durations", "trials", "spk2utt", "utt2dom", "scp_root")


def load_recipe(path: str, settings: Iterable[str] = (), auto: bool = False) -> TrainingConfig:
    """Read a recipe, then apply `section.key=value` settings.

    Without a file all values are the defaults, or with `auto` left to the data.
    """
    values: dict[str, Any] = everything_auto() if auto and not path else {}
    if path:
        try:
            values = parse_toml(Path(path).read_bytes())
        except OSError as error:
            raise UsageError(f"--config={path}: cannot be read ({error.strerror})") from None
        except ValueError as error:
            raise UsageError(f"{path}: not valid TOML ({error})") from None
        _anchor_paths(values, Path(path).parent)
    problems = Problems()
    for setting in settings:
        with problems.catching():
            _apply_setting(values, setting)
    config = _checked_config(values, problems)
    problems.refuse(path or "--set")
    return config


def config_from_dict(values: Mapping[str, Any], place: str) -> TrainingConfig:
    """Build a checked configuration; one error names the place and everything that is wrong."""
    problems = Problems()
    config = _checked_config(values, problems)
    problems.refuse(place)
    return config


def _checked_config(values: Mapping[str, Any], problems: Problems) -> TrainingConfig:
    """The configuration, without the values that are noted as problems."""
    fields = {field.name: field for field in dataclasses.fields(TrainingConfig)}
    del fields[AUTO]  # made of the values, no section
    values, auto = take_auto(values, problems)
    sections: dict[str, Any] = {AUTO: auto}
    for name, value in _known(values, list(fields), "the recipe", problems).items():
        if name == "dev":
            if not isinstance(value, (list, tuple)):
                problems.add("write [[dev]], with two brackets")
                continue
            sections[name] = tuple(
                _dev_section(section, number, problems) for number, section in enumerate(value, 1)
            )
            continue
        default = fields[name].default
        if not isinstance(value, Mapping):
            problems.add(f"'{name}' is a section; write [{name}]")
            continue
        start = dataclasses.asdict(default)  # type: ignore[arg-type]
        sections[name] = _section(type(default), start, value, f"[{name}]", problems)
    with gathering() as found:
        config = TrainingConfig(**sections)
    for problem in found:
        problems.add(problem)
    return config


def _dev_section(value: Any, number: int, problems: Problems) -> DevSection:
    """A development set; messages call it by its name, or by its number if it has none."""
    name = value.get("name") if isinstance(value, Mapping) else None
    shown = f"[[dev]] '{name}'" if isinstance(name, str) and name else f"[[dev]] number {number}"
    # Stand-ins for what a problem is told about, so that the other keys are checked as well.
    start = {"name": f"number {number}", "xvectors": "-", "trials": "-"}
    if not isinstance(value, Mapping):
        problems.add(f"{shown}: is not a section; write [[dev]], with two brackets")
        return DevSection(name=start["name"], xvectors="-", trials="-")
    for key in start:
        if key not in value:
            problems.add(f"{shown} needs the key '{key}'")
    return _section(DevSection, start, value, shown, problems)


def _section(
    cls: type[Any], start: dict[str, Any], values: Mapping[str, Any], shown: str, problems: Problems
) -> Any:
    """A section made of what is right; every key that is not is noted."""
    hints = typing.get_type_hints(cls)
    checked = {}
    for key, value in _known(values, list(hints), shown, problems).items():
        with problems.catching():
            checked[key] = typed(value, hints[key], f"{shown} {key}")
    with gathering() as found:
        section = cls(**{**start, **checked})
    # The keys of these do not say which section they are of.
    prefix = f"{shown} " if cls in (StageSection, DevSection) else ""
    for problem in found:
        problems.add(prefix + problem)
    return section


def _known(
    values: Mapping[str, Any], known: list[str], shown: str, problems: Problems
) -> dict[str, Any]:
    """The values whose keys exist; the others are noted with the nearest name."""
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            problems.add(f"{shown} has no key '{key}'; {hint}")
    return {key: value for key, value in values.items() if key in known}


def _anchor_paths(values: dict[str, Any], directory: Path) -> None:
    """Make relative file names of the development sets start at the recipe's directory."""
    sets = values.get("dev", [])
    if not isinstance(sets, list):
        return
    for section in sets:
        if not isinstance(section, dict):
            continue
        for key in _DEV_PATHS:
            if isinstance(section.get(key), str) and section[key]:
                section[key] = anchored(section[key], directory)


def anchored(name: str, directory: Path) -> str:
    """A file name or rspecifier with its relative path moved to start at `directory`."""
    head, path = _parted(name)
    if not _is_plain(path) or os.path.isabs(path):
        return name
    return head + os.path.abspath(os.path.join(directory, path))


def _parted(name: str) -> tuple[str, str]:
    """`scp:`, `ark,t:`, `npz:` or nothing, and what comes after it."""
    head, _, rest = name.partition(":")
    is_table = has_kaldi_prefix(name) or bool(split_prefix(name)[0])
    return (f"{head}:", rest) if is_table else ("", name)


def _is_plain(path: str) -> bool:
    """Whether this names a file, and not a pipe, the standard input or nothing."""
    return not path.endswith("|") and path not in ("", "-")


def missing_files(section: DevSection) -> list[str]:
    """Files that a development set names and that do not exist."""
    paths = (_parted(getattr(section, key))[1] for key in _DEV_PATHS)
    # An offset (`x.ark:17`) or a range (`x.scp[0:9]`) is left to the reader of the table.
    plain = (path for path in paths if _is_plain(path) and not re.search(r":\d+$|\]$", path))
    return [path for path in plain if not os.path.exists(path)]


def _apply_setting(values: dict[str, Any], setting: str) -> None:
    """`stage1.steps=200`; a development set is addressed as `dev.<name>.<key>`."""
    key, equals, text = setting.partition("=")
    path = key.split(".")
    if not equals or len(path) < 2:
        raise UsageError(f"--set={setting}: expected section.key=value, as stage1.steps=200")
    try:
        value = parse_toml(f"value = {text}")["value"]
    except ValueError:
        value = text  # a bare word is a string, so that --set=init.balance=flat needs no quotes
    if path[0] == "dev":
        sets = values.get("dev", [])
        tables = [d for d in sets if isinstance(d, dict)] if isinstance(sets, list) else []
        chosen = [table for table in tables if table.get("name") == path[1]]
        if not chosen or len(path) != 3:
            raise UsageError(f"--set={setting}: expected dev.<name>.<key> of a set in the file")
        chosen[0][path[2]] = value
        return
    table = values
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UsageError(f"--set={setting}: '{part}' is not a section")
    table[path[-1]] = value


def config_to_dict(config: TrainingConfig) -> dict[str, Any]:
    """Plain values, for TOML and JSON."""
    values = dataclasses.asdict(config)
    values["dev"] = list(values["dev"])
    for key in values.pop(AUTO):
        section, name = key.split(".")
        values[section][name] = AUTO
    return values


def config_to_toml(config: TrainingConfig) -> str:
    """The resolved recipe as TOML; reading it gives the same configuration."""
    lines: list[str] = []
    values = config_to_dict(config)
    for name, section in values.items():
        for table in section if name == "dev" else [section]:
            lines += [f"[[{name}]]" if name == "dev" else f"[{name}]"]
            lines += [f"{key} = {_toml_value(value)}" for key, value in table.items()]
            lines += [""]
    return "\n".join(lines)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(key)} = {_toml_value(v)}" for key, v in value.items())
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return repr(value)


def first_difference(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> str:
    """The first key whose value differs, as `key = old, now new`; empty if none does."""
    for key in [*old, *(k for k in new if k not in old)]:
        name = f"{prefix}{key}"
        a, b = old.get(key), new.get(key)
        if isinstance(a, Mapping) and isinstance(b, Mapping):
            found = first_difference(a, b, f"{name}.")
            if found:
                return found
        elif a != b:
            return f"{name} = {shown(a)}, now {shown(b)}"
    return ""
