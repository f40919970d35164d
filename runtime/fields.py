"""Values of JSON and TOML files: each is read as one type, or refused in one line.

Whoever reads a file of settings parses it by `parse_json` or `parse_toml` and takes every value out
by `typed` or a `Table`. Then no field can be of another type, infinite, or nested without end, and
a field that is added tomorrow is as safe as those of today.
"""

import json
import math
import reprlib
import tomllib
import types
import typing
from collections.abc import Collection, Iterable
from typing import Any

from dcaplda.runtime.errors import DcapldaError, UsageError

DEEPEST = 64
"""Levels of tables and lists within each other that no file of ours reaches."""
_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a table",
}


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 60, 60, 60


class _Unfit(ValueError):
    """Why a text is not JSON or TOML that is read here."""


def parse_json(text: str | bytes) -> Any:
    """What a JSON text says; ValueError if it is damaged, ambiguous or beyond all measure.

    NaN, infinite numbers, names that occur twice and characters that no UTF-8 can hold are refused:
    other readers would see other values.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = json.loads(
            text, parse_float=_finite, parse_constant=_finite, object_pairs_hook=_unique
        )
    except RecursionError:
        raise _Unfit("nested too deeply") from None
    _check_tree(value)
    return value


def parse_toml(text: str | bytes) -> dict[str, Any]:
    """What a TOML text says; ValueError as for JSON. `inf` and `nan` are left to `typed`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    try:
        value = tomllib.loads(text)
    except RecursionError:
        raise _Unfit("nested too deeply") from None
    _check_tree(value)
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Unfit(f"{text[:40]} is not a finite number")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Unfit(f"{twice[:40]!r} occurs twice")
    return found


def _check_tree(value: Any) -> None:
    """Refuse deep nesting and text with half a character, wherever it stands."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        for item in level:
            if isinstance(item, str):
                _check_text(item)
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += [*item, *item.values()]
            elif isinstance(item, list):
                below += item
        if not below:
            return
        level = below
    raise _Unfit("nested too deeply")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Unfit(f"{text[:40]!r} holds half a character") from None
    if "\0" in text:  # no file has it in its name
        raise _Unfit(f"{text[:40]!r} holds a zero byte")


def typed(value: Any, hint: Any, place: str, error: type[DcapldaError] = UsageError) -> Any:
    """The value as the type `hint`, into lists and tables; a whole number may stand for a fraction.

    `hint` is bool, int, float, str, `list[...]`, `dict[str, ...]`, or several of them (`|`).
    Numbers are finite, and whole ones have at most 63 bits. `place` is what an error calls it.
    """
    if isinstance(hint, types.UnionType):
        return typed(value, _chosen(value, typing.get_args(hint)), place, error)
    if hint is type(None) or hint is Any:
        return value
    kind = typing.get_origin(hint) or hint
    if kind is float and type(value) is int:
        value = _as_float(value)
    if not _is(value, kind) or (kind is float and not math.isfinite(value)):
        raise error(f"{place} = {shown(value)}: expected {_NAMES[kind]}")
    if kind is int and not -(2**63) <= value < 2**63:
        raise error(f"{place} = {shown(value)}: expected a number of at most 63 bits")
    inner = typing.get_args(hint)
    if kind is dict and inner:
        return {key: typed(it, inner[1], f"{place}.{key}", error) for key, it in value.items()}
    if kind is list and inner:
        return [typed(it, inner[0], f"{place}[{n}]", error) for n, it in enumerate(value)]
    return value


def _chosen(value: Any, hints: Iterable[Any]) -> Any:
    """Of `float | list[float]`, what the value looks like; else the first, for the message."""
    kinds = {typing.get_origin(hint) or hint: hint for hint in hints}
    found = (hint for kind, hint in kinds.items() if _is(value, kind))
    return next(found, next(iter(kinds.values())))


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a kind; true and false are no numbers."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def shown(value: Any) -> str:
    """A value as a message shows it, cut where it is long; never an error."""
    try:
        # Of lists within lists only the beginning is looked at: the whole may be without end.
        text = _SHORT.repr(value)
    except (ValueError, RecursionError):  # of a whole number of thousands of digits, say
        text = f"({type(value).__name__})"
    return text if len(text) <= 60 else f"{text[:57]}..."


_NEEDED: Any = object()


class Table:
    """A table of a parsed file; every value is taken out as one type.

    `place` is the file in messages, `advice` what to do about a wrong one, `error` its class. Where
    `default` is given a key may be missing; without it, that is an error.
    """

    def __init__(
        self, values: Any, place: str, error: type[DcapldaError], advice: str, path: str = ""
    ) -> None:
        self.place, self._error, self._advice, self._path = place, error, advice, path
        if not isinstance(values, dict):
            raise self.refused(f"{path or 'it'} is no table")
        self.values: dict[str, Any] = values

    def refused(self, reason: str) -> DcapldaError:
        """The error for a reason."""
        return self._error(f"{self.place}: {reason}; {self._advice}")

    def get(self, key: str, hint: Any, default: Any = _NEEDED) -> Any:
        """The value of a key as the type `hint`; see `typed`."""
        if key not in self.values:
            if default is _NEEDED:
                raise self.refused(f"'{self._named(key)}' is missing")
            return default
        try:
            return typed(self.values[key], hint, f"'{self._named(key)}'", self._error)
        except self._error as error:
            raise self.refused(str(error)) from None

    def flag(self, key: str, default: Any = _NEEDED) -> bool:
        """True or false."""
        return bool(self.get(key, bool, default))

    def text(self, key: str, default: Any = _NEEDED, known: Collection[str] | None = None) -> str:
        """Text, if need be one of the known words."""
        value: str = self.get(key, str, default)
        if known is not None and value not in known:
            wanted = f"expected {' or '.join(known)}"
            raise self.refused(f"'{self._named(key)}' = {shown(value)}: {wanted}")
        return value

    def whole(self, key: str, least: int, most: int = 2**31 - 1, default: Any = _NEEDED) -> int:
        """A whole number of a range."""
        value: int = self.get(key, int, default)
        if not least <= value <= most:
            wanted = f"expected a whole number from {least} to {most}"
            raise self.refused(f"'{self._named(key)}' = {shown(value)}: {wanted}")
        return value

    def number(
        self, key: str, least: float = -math.inf, most: float = math.inf, default: Any = _NEEDED
    ) -> float:
        """A finite number of a range."""
        value: float = self.get(key, float, default)
        if not least <= value <= most:
            wanted = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
            raise self.refused(f"'{self._named(key)}' = {shown(value)}: expected {wanted}")
        return value

    def table(self, key: str) -> "Table":
        """A table within this one."""
        return Table(self.get(key, dict), self.place, self._error, self._advice, self._named(key))

    def optional_table(self, key: str) -> "Table | None":
        """The same; None where it is missing or null."""
        return None if self.values.get(key) is None else self.table(key)

    def _named(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key
