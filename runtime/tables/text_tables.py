"""Tables with a number, a word or a list of words per id: utt2dur, num_utts, utt2spk, spk2utt.

A table is named by a plain file name or behind `ark:` or `ark,t:`; pipes, stdin and gzip work
as for vectors. Numbers may also be in Kaldi's binary form. kaldiio 2.18 is of no use here: it reads
the second line of `u1 3.25`, `u2 10` as the numbers [2, 10], and a binary int32 as the length of a
vector.
"""

import math
import re
import struct
from collections.abc import Iterator

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import Buffer, read_input, table_source
from dcaplda.runtime.tables.text_lines import decoded, lines_of, read_lines
from dcaplda.runtime.values import is_word

_BINARY_ENTRY = re.compile(rb"([^\x00-\x20\x7f]+) \x00B([\x04\x08])")
# No underscores, hexadecimals or foreign digits, which Python's float and int would accept.
NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
WHOLE = re.compile(r"[-+]?[0-9]+")


def read_numbers(table: str, whole: bool = False) -> dict[str, float]:
    """The number of each id. `whole` admits whole numbers only (and reads binary int32)."""
    source = table_source(table)
    data = read_input(source)
    if _BINARY_ENTRY.match(data):
        entries = _binary_numbers(data, table, whole)
    else:
        entries = _text_numbers(data, table, whole)
    numbers: dict[str, float] = {}
    for key, number in entries:
        if key in numbers:
            raise TableError(f"'{table}': '{key}' occurs twice; ids must be unique")
        if not math.isfinite(number):
            raise TableError(f"'{table}': '{key}' has the value {number}; expected a number")
        numbers[key] = number
    if not numbers:
        raise TableError(f"'{table}': the table is empty")
    return numbers


def _text_numbers(data: Buffer, table: str, whole: bool) -> Iterator[tuple[str, float]]:
    pattern, what = (WHOLE, "a whole number") if whole else (NUMBER, "a number")
    for number, line in enumerate(lines_of(bytes(data), table), 1):
        key, _, word = line.partition(" ")
        if not key or not pattern.fullmatch(word):
            raise TableError(
                f"'{table}' line {number}: expected an id and {what}, found {line[:60]!r}"
            )
        yield key, float(word)


def _binary_numbers(data: Buffer, table: str, whole: bool) -> Iterator[tuple[str, float]]:
    """Entries `id \\0B`, the size of the number as a byte, the number in little-endian."""
    position = 0
    while position < len(data):
        match = _BINARY_ENTRY.match(data, position)
        width = match[2][0] if match else 0
        if match is None or match.end() + width > len(data):
            raise TableError(f"'{table}': damaged or cut short at byte {position}; make it again")
        if whole and width == 8:
            raise TableError(f"'{table}': 8-byte numbers where int32 is expected")
        form = "<i" if whole else {4: "<f", 8: "<d"}[width]
        (value,) = struct.unpack_from(form, data, match.end())
        key = decoded(match[1], table)
        if not is_word(key):
            raise TableError(f"'{table}': the id {key[:40]!r} is not one word of text; rename it")
        yield key, float(value)
        position = match.end() + width


def read_durations(table: str, frame_shift: float = 0.0) -> dict[str, float]:
    """Seconds of speech of each id.

    With a `frame_shift` above zero the table holds numbers of frames (utt2num_frames), each
    of that many seconds; without it, seconds (utt2dur).
    """
    if not frame_shift:
        if "num_frames" in table.rsplit("/", 1)[-1]:
            raise TableError(f"'{table}' holds frames, not seconds; add --frame-shift=0.01")
        return read_numbers(table)
    frames = read_numbers(table, whole=True)
    return {key: count * frame_shift for key, count in frames.items()}


def read_words(table: str) -> dict[str, str]:
    """The one word of each id, as in utt2spk."""
    words: dict[str, str] = {}
    for number, key, rest in _entries(table):
        if len(rest) != 1:
            raise TableError(
                f"'{table}' line {number}: expected an id and one word, "
                f"found {' '.join([key, *rest])[:60]!r}"
            )
        words[key] = rest[0]
    return words


def read_lists(table: str) -> dict[str, list[str]]:
    """The words of each id, at least one and none twice, as in spk2utt."""
    lists: dict[str, list[str]] = {}
    for number, key, rest in _entries(table):
        if not rest:
            raise TableError(f"'{table}' line {number}: '{key}' has an empty list")
        if len(set(rest)) != len(rest):
            twice = next(word for word in rest if rest.count(word) > 1)
            raise TableError(f"'{table}' line {number}: '{key}' lists '{twice}' twice")
        lists[key] = rest
    return lists


def _entries(table: str) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, id and words of each line; ids are unique and there is at least one."""
    seen: set[str] = set()
    for number, line in enumerate(read_lines(table_source(table)), 1):
        key, *rest = line.split(" ")
        if not key:
            raise TableError(f"'{table}' line {number}: the line is blank; remove it")
        if key in seen:
            raise TableError(f"'{table}' line {number}: '{key}' occurs twice; ids must be unique")
        seen.add(key)
        yield number, key, rest
    if not seen:
        raise TableError(f"'{table}': the table is empty")
