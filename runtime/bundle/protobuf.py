"""The bytes of a protobuf message, field by field, without the package that wrote them.

Strict: every field lies inside of its message, and what is not a number, bytes or a fixed-width
value is refused.
"""

from collections.abc import Iterator
from typing import NamedTuple

from dcaplda.runtime.errors import BundleError

NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
"""Kinds of fields; the kind BYTES holds a message, text or bytes."""


class Field(NamedTuple):
    """One field: its number in the message, its kind, and its number or where its bytes lie."""

    number: int
    kind: int
    value: int
    """Of a NUMBER; else 0."""
    begin: int
    end: int


class Known(NamedTuple):
    """Numbers of the fields that a message may have: at most once, and any number of times."""

    once: frozenset[int]
    many: frozenset[int]

    @classmethod
    def of(cls, once: str, many: str = "") -> "Known":
        """From numbers in words: `Known.of("1 2", "5")`."""
        return cls(frozenset(map(int, once.split())), frozenset(map(int, many.split())))


class Message:
    """A message inside a file; fields come in the order of the file."""

    def __init__(self, content: bytes, place: str, begin: int = 0, end: int | None = None) -> None:
        self.content = content
        self.place = place
        """The file, for messages."""
        self.begin, self.end = begin, len(content) if end is None else end

    def fields(self, known: Known) -> Iterator[Field]:
        """All fields; one that is not known is an error, and so is a second one of its kind.

        Of a second one other readers would take the last, or merge the two.
        """
        position, met = self.begin, set()
        while position < self.end:
            key, position = self._number(position)
            number, kind = key >> 3, key & 7
            if number in met or number not in known.once | known.many:
                raise self.damaged()
            if number in known.once:
                met.add(number)
            value, begin = 0, position
            if kind == NUMBER:
                value, position = self._number(position)
            elif kind == BYTES:
                length, begin = self._number(position)
                position = begin + length
            elif kind in (EIGHT_BYTES, FOUR_BYTES):
                position += 8 if kind == EIGHT_BYTES else 4
            else:
                raise self.damaged()
            if position > self.end:
                raise self.damaged()
            yield Field(number, kind, value, begin, position)

    def inner(self, field: Field) -> "Message":
        """The message that a field holds."""
        if field.kind != BYTES:
            raise self.damaged()
        return Message(self.content, self.place, field.begin, field.end)

    def raw(self, field: Field) -> bytes:
        """The bytes that a field holds."""
        if field.kind != BYTES:
            raise self.damaged()
        return self.content[field.begin : field.end]

    def text(self, field: Field) -> str:
        """The text that a field holds."""
        try:
            return self.raw(field).decode("utf-8")
        except UnicodeDecodeError:
            raise self.damaged() from None

    def whole(self, field: Field) -> int:
        """The number that a field holds, negative ones too."""
        if field.kind != NUMBER:
            raise self.damaged()
        return field.value - (1 << 64) if field.value >> 63 else field.value

    def wholes(self, field: Field) -> list[int]:
        """The numbers of a field that may be one number or several packed together."""
        if field.kind == NUMBER:
            return [self.whole(field)]
        inner, found = self.inner(field), []
        position = inner.begin
        while position < inner.end:
            value, position = inner._number(position)
            found.append(value - (1 << 64) if value >> 63 else value)
        return found

    def damaged(self) -> BundleError:
        """The error for bytes that are not what they should be."""
        return BundleError(
            f"{self.place}: not an ONNX graph as export-onnx writes it; export again"
        )

    def _number(self, position: int) -> tuple[int, int]:
        value = shift = 0
        while position < self.end and shift < 64:
            byte = self.content[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1, position
            shift += 7
        raise self.damaged()
