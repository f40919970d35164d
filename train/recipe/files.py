"""Recipes on disk: TOML to TrainingConfig and back, `--set=section.key=value`, clear errors."""

import dataclasses
import difflib
import json
import math
import os
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from dcaplda.runtime.errors import UsageError
from dcaplda.train.recipe.auto import AUTO, everything_auto, take_auto
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
            values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"--config={path}: cannot be read ({error.strerror})") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise UsageError(f"{path}: not valid TOML ({error})") from None
        _anchor_paths(values, Path(path).parent)
    for setting in settings:
        _apply_setting(values, setting)
    return config_from_dict(values, path or "--set")


def config_from_dict(values: Mapping[str, Any], place: str) -> TrainingConfig:
    """Build a checked configuration; unknown keys and wrong types name the place."""
    fields = {f.name: f for f in dataclasses.fields(TrainingConfig) if f.name != AUTO}
    _check_keys(values, list(fields), place, "the recipe")
    values, auto = take_auto(values, place)
    sections: dict[str, Any] = {AUTO: auto}
    for name, value in values.items():
        if name == "dev":
            if not isinstance(value, (list, tuple)):
                raise UsageError(f"{place}: write [[dev]], with two brackets")
            sections[name] = tuple(_section(DevSection, {}, d, place, "[[dev]]") for d in value)
            continue
        default = fields[name].default
        if not isinstance(value, Mapping):
            raise UsageError(f"{place}: '{name}' is a section; write [{name}]")
        start = dataclasses.asdict(default)  # type: ignore[arg-type]
        sections[name] = _section(type(default), start, value, place, f"[{name}]")
    try:
        return TrainingConfig(**sections)
    except UsageError as error:
        raise UsageError(f"{place}: {error}") from None


def _section(
    cls: type[Any], start: dict[str, Any], values: Mapping[str, Any], place: str, shown: str
) -> Any:
    hints = typing.get_type_hints(cls)
    _check_keys(values, list(hints), place, shown)
    checked = {
        key: _checked(value, hints[key], f"{place}: {shown} {key}") for key, value in values.items()
    }
    required = [
        f.name
        for f in dataclasses.fields(cls)
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    for key in required:
        if key not in checked and key not in start:
            raise UsageError(f"{place}: {shown} needs the key '{key}'")
    try:
        return cls(**{**start, **checked})
    except UsageError as error:
        prefix = f"{shown} " if cls is StageSection else ""
        raise UsageError(f"{place}: {prefix}{error}") from None


def _checked(value: Any, hint: Any, place: str) -> Any:
    """The value as the type of its key; a whole number may stand for a fraction."""
    kind = typing.get_origin(hint) or hint
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)
    if kind is float and isinstance(value, float) and not math.isfinite(value):
        wrong = True
    if wrong:
        names = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
        expected = names.get(kind, "a table" if kind is dict else "a list")
        raise UsageError(f"{place} = {value!r}: expected {expected}")
    if kind is dict:
        inner = typing.get_args(hint)[1]
        if not isinstance(inner, types.UnionType):
            return {key: _checked(item, inner, f"{place}.{key}") for key, item in value.items()}
    return value


def _check_keys(values: Mapping[str, Any], known: list[str], place: str, shown: str) -> None:
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"{place}: {shown} has no key '{key}'; {hint}")


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
    head, colon, rest = name.partition(":")
    is_table = bool(colon) and {"ark", "scp"} & set(head.split(","))
    path = rest if is_table else name
    if path.endswith("|") or path in ("", "-") or os.path.isabs(path):
        return name
    moved = os.path.abspath(os.path.join(directory, path))
    return f"{head}:{moved}" if is_table else moved


def _apply_setting(values: dict[str, Any], setting: str) -> None:
    """`stage1.steps=200`; a development set is addressed as `dev.<name>.<key>`."""
    key, equals, text = setting.partition("=")
    path = key.split(".")
    if not equals or len(path) < 2:
        raise UsageError(f"--set={setting}: expected section.key=value, as stage1.steps=200")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text  # a bare word is a string, so that --set=init.balance=flat needs no quotes
    if path[0] == "dev":
        chosen = [d for d in values.get("dev", []) if d.get("name") == path[1]]
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
            return f"{name} = {a!r}, now {b!r}"
    return ""
