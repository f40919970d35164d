"""Trial lists: which enrolment meets which test, as index arrays over unique ids.

Forms: `enroll test`, `enroll test label` (target|nontarget, tgt|imp, 1|0), VoxCeleb's
`label enroll test`, blanks or tabs between, gzip, pipes; and tables with a header (NIST's tsv
and csv) whose columns have usual names or are named by the caller. Every line is checked, and a
malformed one is reported with its number and content.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import TableError, UsageError
from dcaplda.runtime.tables.columns import Columns, NoFrame, read_frame
from dcaplda.runtime.tables.specifiers import read_bytes
from dcaplda.runtime.tables.text_lines import lines_of, normalised
from dcaplda.runtime.trials.headed import parse_headed

TARGET_WORDS = ("target", "tgt", "1")
NONTARGET_WORDS = ("nontarget", "imp", "0")
_LABELS = {**dict.fromkeys(TARGET_WORDS, True), **dict.fromkeys(NONTARGET_WORDS, False)}
FORMS = {
    "enroll-test": ("enroll", "test"),
    "enroll-test-label": ("enroll", "test", "label"),
    "label-enroll-test": ("label", "enroll", "test"),
}
Column = tuple[list[str], NDArray[np.int32]]
"""Sorted unique values of a column, and the place of each row's value."""
# Bytes looked at together when a file is checked; small enough for the cache.
_CHECK_BYTES = 1 << 20


@dataclass(frozen=True)
class Trials:
    """N trials: trial i compares `enroll_ids[enroll_index[i]]` with `test_ids[test_index[i]]`.

    The ids are unique and sorted. `targets` holds the labels if the list has any.
    """

    place: str
    enroll_ids: list[str]
    test_ids: list[str]
    enroll_index: NDArray[np.int32]
    test_index: NDArray[np.int32]
    targets: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        """Number of trials."""
        return len(self.enroll_index)

    def take(self, which: slice | NDArray[np.bool_]) -> "Trials":
        """Some of the trials, over the same ids."""
        return replace(
            self,
            enroll_index=self.enroll_index[which],
            test_index=self.test_index[which],
            targets=None if self.targets is None else self.targets[which],
        )


def read_trials(source: str, form: str = "auto", columns: Columns | None = None) -> Trials:
    """Read a trial list from an extended file name.

    `form` is `auto` or a key of FORMS; `auto` decides between the two places of a label by
    its words. `columns` says that the list is a table with a header.
    """
    if form != "auto" and form not in FORMS:
        raise UsageError(f"trial form '{form}': expected auto, {', '.join(FORMS)}")
    data = read_bytes(source)
    if data[:1] in (b"", b"\n", b" ") and not data.strip():
        raise TableError(f"'{source}': no trials in it")
    if columns is not None:
        headed = parse_headed(data, source, columns)
        return _trials(source, {name: _ids_and_index(headed[name]) for name in headed.columns})
    data, lines = _regular(data, source)
    width = data[: data.find(b"\n")].count(b" ") + 1
    if width not in (2, 3) or (form != "auto" and len(FORMS[form]) != width):
        raise _malformed(data, source, 2 if form == "enroll-test" else 3)
    frame = _parse(data, source, width, lines)
    found = [_ids_and_index(frame[name]) for name in frame.columns]
    if form == "auto":
        form = "enroll-test" if width == 2 else _place_of_label(found, data, source)
    return _trials(source, dict(zip(FORMS[form], found, strict=True)))


def _regular(data: bytes, source: str) -> tuple[bytes, int]:
    """The data with one blank between words and a newline after every line; how many lines.

    Most lists are so already, which a few counts over the bytes tell; whether the blanks are
    also in their places shows when the columns are parsed.
    """
    if not data.endswith(b"\n"):
        data += b"\n"
    view = np.frombuffer(data, np.uint8)
    controls = newlines = blanks = 0
    for first in range(0, len(view), _CHECK_BYTES):
        part = view[first : first + _CHECK_BYTES]
        controls += int(np.count_nonzero(part < 32))
        newlines += int(np.count_nonzero(part == 10))
        blanks += int(np.count_nonzero(part == 32))
    first_line = data[: data.find(b"\n")]
    words = first_line.removeprefix(b"\xef\xbb\xbf").split()
    tidy = first_line == b" ".join(words) and controls == newlines
    # The second begins Latin-1's control characters, where there is more than ASCII.
    tidy &= b"\x7f" not in data and (data.isascii() or b"\xc2" not in data)
    if tidy and blanks == (len(words) - 1) * newlines:
        return data, newlines
    data = normalised(data, source)
    return data, data.count(b"\n")


def _parse(data: bytes, source: str, columns: int, lines: int) -> Any:
    """A polars frame of categorical columns; raise TableError for any irregular line."""
    import polars as pl

    names = [f"column_{number}" for number in range(columns)]
    try:
        frame = read_frame(data, " ", dict.fromkeys(names, pl.Categorical))
    except NoFrame:
        raise _malformed(data, source, columns) from None
    # Polars turns a line that is too short into nulls; one that is too long is an error.
    if frame.height != lines or any(frame.null_count().row(0)):
        raise _malformed(data, source, columns)
    return frame


def _malformed(data: bytes, source: str, columns: int) -> TableError:
    """Find the first line that does not have so many words, and say what it holds."""
    expected = "'enroll test'" if columns == 2 else "'enroll test label' or 'label enroll test'"
    for number, line in enumerate(lines_of(data, source), 1):
        words = line.split(" ") if line else []
        if len(words) != columns:
            found = f"found {line[:80]!r}" if line else "found a blank line"
            if number == 1 and len(words) > 3:
                found += "; for a table with a header say --header"
            return TableError(f"'{source}' line {number}: expected {expected}, {found}")
    return TableError(f"'{source}': cannot be read as a trial list")


def _place_of_label(found: list[Column], data: bytes, source: str) -> str:
    """Which of three columns is the label: the one whose words all are labels."""
    first_fits, last_fits = (set(found[place][0]) <= _LABELS.keys() for place in (0, 2))
    if last_fits and not first_fits:
        return "enroll-test-label"
    if first_fits and not last_fits:
        return "label-enroll-test"
    if first_fits and last_fits:
        raise TableError(
            f"'{source}': both the first and the last column look like labels; "
            "say which with --trials-form=enroll-test-label or label-enroll-test"
        )
    raise _bad_label(data, source)


def _bad_label(data: bytes, source: str) -> TableError:
    """Find the first line without a label in the place where the first line has one."""
    lines = lines_of(data, source)
    words = lines[0].split(" ")
    place = 2 if words[2] in _LABELS else 0
    if words[place] not in _LABELS:
        return TableError(
            f"'{source}' line 1: neither the first nor the last word of {lines[0][:80]!r} is a "
            "label; if the last column is to be ignored, say --trials-form=enroll-test-label"
        )
    for number, line in enumerate(lines, 1):
        word = line.split(" ")[place]
        if word not in _LABELS:
            return TableError(
                f"'{source}' line {number}: expected a label such as '{words[place]}', "
                f"found {word!r} in {line[:80]!r}"
            )
    raise AssertionError("a line without a label was there")


def _trials(source: str, found: Mapping[str, Column]) -> Trials:
    """Trials of the columns `enroll`, `test` and, where there is one, `label`."""
    targets = None
    if "label" in found:
        words, index = found["label"]
        # An explicitly given form may have anything in its label column.
        if all(word in _LABELS for word in words):
            targets = np.array([_LABELS[word] for word in words])[index]
    (enroll_ids, enroll_index), (test_ids, test_index) = found["enroll"], found["test"]
    return Trials(source, enroll_ids, test_ids, enroll_index, test_index, targets)


def _ids_and_index(column: Any) -> Column:
    """Sorted unique values of a categorical column, and the place of each row's value.

    The codes of polars depend on thread timing; sorting makes the result a function of the
    file alone.
    """
    import polars as pl

    codes = column.to_physical().to_numpy()
    # Some row that has each code: one pass, where polars would look for unique values first.
    row = np.full(int(codes.max()) + 1, -1, np.int64)
    row[codes] = np.arange(len(codes))
    used = np.flatnonzero(row >= 0)
    names = column.gather(row[used]).cast(pl.String).to_list()
    order = sorted(range(len(names)), key=names.__getitem__)
    lookup = np.zeros(len(row), np.int32)
    lookup[used[order]] = np.arange(len(names), dtype=np.int32)
    return [names[place] for place in order], lookup[codes]
