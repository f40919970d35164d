"""Damage: to bytes, to trees of JSON and TOML values, to text, to protobuf messages."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from fuzz.choices import Choices

TELLING = b"\0\1\4\n\r\t \"'(),.:<>[]{}|=/\\-+0123456789eELTFNUMPYPKBDV\x1f\x8b\x7f\x80\xff\xc3\xa9"
"""Bytes that mean something somewhere."""
DEEP: Any = 0
for _ in range(200):
    DEEP = [DEEP]
STRANGE: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 2.5, -0.0, 1e-320, 1e308, math.inf, -math.inf, math.nan,
    2**31, 2**63, -(2**63), 10**30, 10**400, "", "x", "0", "\0", "..", "../model.json", "/", "a/b",
    "x" * 300, "é\u2028", "\ud800", "\x1b[31m", [], {}, [1], [[]], ["x"], {"a": 1}, [1.5, 2.5],
    DEEP, [0] * 300,
)  # fmt: skip


def strange(choices: Choices) -> Any:
    """One of them, for oneself: what is put into a tree may be changed there."""
    return json.loads(json.dumps(choices.pick(STRANGE)))


def edited_bytes(choices: Choices, content: bytes, telling: bytes = TELLING) -> bytes:
    """One to three edits; half of them near one of the ends, where formats say what they are."""
    data = bytearray(content)
    for _ in choices.times(3):
        end = choices.below(3)
        place = choices.below(len(data) + 1 if end == 0 else min(len(data) + 1, 200))
        place = len(data) - place if end == 2 else place
        kind = choices.below(7)
        if kind == 0:
            noise = bytes(choices.pick(telling) for _ in choices.times(6))
            data[place : place + len(noise)] = noise
        elif kind == 1:
            data[place:place] = bytes(choices.pick(telling) for _ in choices.times(6))
        elif kind == 2:
            del data[place : place + 1 + choices.below(8)]
        elif kind == 3:
            del data[place:]
        elif kind == 4:
            data[place:place] = data[max(0, place - 1 - choices.below(32)) : place]
        elif kind == 5 and place < len(data):
            data[place] = (data[place] + choices.pick((1, 2, 16, 128, 255))) % 256
        elif place < len(data):
            data[place] ^= 1 << choices.below(8)
    return bytes(data)


def edited_tree(choices: Choices, value: Any, rounds: int = 3) -> Any:
    """A tree of plain values with some of them replaced, removed, renamed, moved or wrapped."""
    tree = json.loads(json.dumps(value))
    for _ in choices.times(rounds):
        places = list(_places(tree))
        if not places:
            return strange(choices)
        holder, key = choices.pick(places)
        _edit_place(choices, places, holder, key)
    return tree


def _places(tree: Any) -> Any:
    """Every (container, key) of a tree, the outer ones first."""
    level = [tree]
    while level:
        below = []
        for item in level:
            keys = list(item) if isinstance(item, dict) else range(len(item))
            for key in keys if isinstance(item, (dict, list)) else ():
                yield item, key
                if isinstance(item[key], (dict, list)):
                    below.append(item[key])
        level = below


def _edit_place(choices: Choices, places: Sequence[Any], holder: Any, key: Any) -> None:
    kind = choices.below(8)
    if kind <= 2:
        holder[key] = strange(choices)
    elif kind == 3:
        del holder[key]
    elif kind == 4:
        holder[key] = nudged(choices, holder[key])
    elif kind == 5:
        other, place = choices.pick(places)
        if place in other if isinstance(other, dict) else place < len(other):
            holder[key] = json.loads(json.dumps(other[place]))
    elif kind == 6 and isinstance(holder, dict):
        holder[choices.pick((f"{key}s", str(key)[1:], str(key).upper(), "x"))] = holder.pop(key)
    else:
        holder[key] = choices.pick(([holder[key]], {"a": holder[key]}, str(holder[key])))


def nudged(choices: Choices, value: Any) -> Any:
    """A value of the same kind, a little different."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        changes: tuple[Callable[[Any], Any], ...] = (
            lambda x: x + 1, lambda x: x - 1, lambda x: -x, lambda x: 2 * x, lambda x: x * 1e9,
            lambda x: x + 0.5, lambda x: 0 * x,
        )  # fmt: skip
        try:
            return choices.pick(changes)(value)
        except OverflowError:  # a whole number beyond any float stays
            return value
    if isinstance(value, str) and value:
        place = choices.below(len(value))
        return value[:place] + choices.pick("0aZ./ \n\0é") + value[place + 1 :]
    return strange(choices)


def json_bytes(choices: Choices, tree: Any) -> bytes:
    """The text of a tree, now and then with a name twice or damage to its letters."""
    text = json.dumps(tree, indent=choices.pick((None, 2))).encode()
    if choices.chance(8):
        text = text.replace(b"{", b'{"format": 1, "format": 2, ', 1)
    return edited_bytes(choices, text) if choices.chance(6) else text


def toml_value(value: Any) -> str:
    """A value as TOML writes it, also where TOML has no such value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        inside = ", ".join(f"{json.dumps(k)} = {toml_value(v)}" for k, v in value.items())
        return "{ " + inside + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if value is None:
        return "1979-05-27"
    return json.dumps(value) if isinstance(value, str) else repr(value)


def toml_bytes(choices: Choices, tree: Any) -> bytes:
    """Keys and values of a table, tables within it as sections; seldom with damage to letters."""
    if not isinstance(tree, dict):
        return f"x = {toml_value(tree)}".encode("utf-8", "surrogatepass")
    plain = [f"{_key(k)} = {toml_value(v)}" for k, v in tree.items() if not isinstance(v, dict)]
    for key, value in tree.items():
        if isinstance(value, dict):
            plain.append(f"[{_key(key)}]")
            plain += [f"{_key(k)} = {toml_value(v)}" for k, v in value.items()]
    text = "\n".join(plain).encode("utf-8", "surrogatepass") + b"\n"
    return edited_bytes(choices, text) if choices.chance(6) else text


def _key(key: Any) -> str:
    word = str(key)
    return word if word.isidentifier() and word.isascii() else json.dumps(word)


def edited_message(choices: Choices, message: Any) -> None:
    """Damage a protobuf message (of the onnx package) in place, anywhere inside of it."""
    for _ in choices.times(3):
        holder = message
        # Walk inwards: a field of the message, an item of it, and so on.
        for _ in range(choices.below(7)):
            inner = [f for f, _ in holder.ListFields() if f.message_type is not None]
            if not inner:
                break
            field = choices.pick(inner)
            value = getattr(holder, field.name)
            holder = choices.pick(value) if _is_repeated(field) else value
        _edit_field(choices, holder)


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _edit_field(choices: Choices, holder: Any) -> None:
    """Change, empty, double or fill one field; what protobuf does not take stays as it is."""
    set_fields = [field for field, _ in holder.ListFields()]
    all_fields = list(holder.DESCRIPTOR.fields)
    field = choices.pick(all_fields if choices.chance(3) or not set_fields else set_fields)
    try:
        if choices.chance(6):
            holder.ClearField(field.name)
        elif _is_repeated(field):
            _edit_repeated(choices, field, getattr(holder, field.name))
        elif field.message_type is not None:
            getattr(holder, field.name).SetInParent()
        else:
            old = getattr(holder, field.name)
            setattr(holder, field.name, _other(choices, old))
    except (TypeError, ValueError):
        pass


def _edit_repeated(choices: Choices, field: Any, items: Any) -> None:
    if field.message_type is not None:
        if not items or choices.chance(4):
            items.add()
        elif choices.chance():
            items.add().CopyFrom(choices.pick(items))
        else:
            del items[choices.below(len(items))]
    elif items and choices.chance():
        place = choices.below(len(items))
        items[place] = _other(choices, items[place])
    elif items and choices.chance():
        del items[choices.below(len(items))]
    else:
        items.append(_other(choices, items[0]) if items else choices.pick((0, "x", b"x", 1.5)))


NAMES = (
    "embeddings", "durations", "groups", "enroll", "test", "llrs", "constant_0", "voiceprints", "",
    "x", "secret.bin", "location", "Loop", "If", "Scan", "Identity", "Add", "Div", "Sqrt", "Log",
    "ConstantOfShape", "Expand", "com.microsoft", "Gather", "Reshape", "Split",
)  # fmt: skip


def _other(choices: Choices, value: Any) -> Any:
    if isinstance(value, bytes):
        return edited_bytes(choices, value)
    if isinstance(value, str):
        return choices.pick(NAMES)
    if isinstance(value, int):
        return choices.pick((0, 1, 2, 3, 7, 12, 24, -1, value + 1, value - 1, 2**31, 2**62))
    return choices.pick((0.0, 1.0, -1.0, math.nan, math.inf, 1e38))
