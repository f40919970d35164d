"""Trial keys: which pairs of ids are target trials and which are nontarget trials."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.trials.ids import Codes, IdTable
from dcaplda.eval.trials.lines import Block, headed_blocks, word_blocks
from dcaplda.runtime.errors import InputError, TableError, UsageError
from dcaplda.runtime.tables.columns import Columns

LABELS = {
    "target": 1,
    "tgt": 1,
    "1": 1,
    "true": 1,
    "nontarget": 0,
    "imp": 0,
    "0": 0,
    "false": 0,
}
UNLABELLED = -1
FORMS = ("auto", "enroll-test-label", "label-enroll-test")
ALLOWED = ("missing", "extra", "duplicate", "unlabelled")
PAIRS_PER_TRIAL = 16
"""Possible pairs of ids for each trial, up to which a table of all pairs is made."""


@dataclass(frozen=True)
class Allowance:
    """Oddities that the user accepts; any other is an error."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, *names: str) -> "Allowance":
        """From words of ALLOWED."""
        assert set(names) <= set(ALLOWED)
        return cls(frozenset(names))

    def check(self, name: str, count: int, place: str, words: str) -> None:
        """Raise unless there is none of this oddity or it is allowed."""
        if count and name not in self.names:
            raise InputError(f"'{place}': {count} {words}; accept that with --allow-{name}")


def joined_ids(enroll: Codes, test: Codes) -> NDArray[np.uint64]:
    """Both ids of a trial in one number."""
    return (enroll.astype(np.uint64) << np.uint64(32)) | test


@dataclass(frozen=True)
class TrialKey:
    """N trials with labels (1 target, 0 nontarget, -1 none), no trial twice."""

    place: str
    ids: IdTable = field(repr=False)
    enroll: Codes
    test: Codes
    labels: NDArray[np.int8]
    n_duplicate: int = 0

    @cached_property
    def pairs(self) -> NDArray[np.uint64]:
        """Both ids of each trial in one number."""
        return joined_ids(self.enroll, self.test)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """What sorts the pairs; shared by the joins with several systems."""
        return np.argsort(self.pairs, kind="stable")

    def name(self, pair: int) -> str:
        """The two ids of a pair, for messages."""
        names = self.ids.names
        return f"'{names[pair >> 32]}' '{names[pair & 0xFFFFFFFF]}'"


def label_codes(column: object, block: Block) -> NDArray[np.int8]:
    """1, 0 or -1 (no word) for each row; a word nobody knows is an error with its line."""
    import polars as pl

    assert isinstance(column, pl.Series)
    words = column.unique().drop_nulls().to_list()
    for word in words:
        if word.lower() not in LABELS:
            row = int((column == word).arg_max() or 0)
            known = " ".join(LABELS)
            raise TableError(
                f"{block.place_of(row)}: label '{word[:40]}' is unknown; known are: {known}"
            )
    codes = np.full(len(column), UNLABELLED, np.int8)
    for word in words:
        codes[(column == word).fill_null(False).to_numpy()] = LABELS[word.lower()]
    return codes


def _label_is_first(block: Block) -> bool:
    """VoxCeleb's `1 a b`: the first column holds labels only, and the last does not."""
    first, last = block.columns[0], block.columns[2]
    is_label = [
        all(word.lower() in LABELS for word in column.unique().drop_nulls().to_list())
        for column in (first, last)
    ]
    return is_label[0] and not is_label[1]


def _key_blocks(source: str, form: str, columns: Columns | None) -> Iterator[tuple[Block, bool]]:
    """Blocks with the columns of ids and label, and whether the label comes first."""
    if columns is not None:
        for block in headed_blocks(source, [columns.enroll, columns.test, columns.label]):
            yield block, False
        return
    label_first = form == "label-enroll-test"
    for block in word_blocks(source, 2, 3, "enroll test label"):
        if form == "auto" and block.first_line == 1:
            label_first = _label_is_first(block)
        yield block, label_first


def read_key(
    source: str,
    ids: IdTable,
    allow: Allowance | None = None,
    form: str = "auto",
    columns: Columns | None = None,
) -> TrialKey:
    """Read a trial list: `enroll test label` or VoxCeleb's `label enroll test`.

    `columns` says that the list is a table with a header (NIST's tsv or csv). Lines without
    a label and repeated trials are counted, and refused unless allowed; a trial that is
    repeated with another label is always refused.
    """
    allow = allow or Allowance()
    if form not in FORMS:
        raise UsageError(f"--trials-form={form}: expected one of {', '.join(FORMS)}")
    enroll, test, labels = [], [], []
    for block, label_first in _key_blocks(source, form, columns):
        sides = block.columns
        if label_first:
            sides = _label_last(sides)
        check_ids(block, *sides[:2])
        enroll.append(ids.codes(sides[0]))
        test.append(ids.codes(sides[1]))
        labels.append(label_codes(sides[2], block))
    if not enroll:
        raise TableError(f"'{source}': no trials after the header")
    key = TrialKey(
        source, ids, np.concatenate(enroll), np.concatenate(test), np.concatenate(labels)
    )
    key = _without_repeats(key, allow)
    n_unlabelled = int(np.count_nonzero(key.labels == UNLABELLED))
    allow.check("unlabelled", n_unlabelled, source, "trials have no label")
    return key


def _label_last(columns: list[Any]) -> list[Any]:
    """`label enroll test` as `enroll test label`; a line of two words has no label."""
    label, enroll, test = columns
    short = test.is_null()
    if not short.any():
        return [enroll, test, label]
    return [label.zip_with(short, enroll), enroll.zip_with(short, test), label.set(short, None)]


def check_ids(block: Block, *columns: object) -> None:
    """Raise for a line without an id."""
    import polars as pl

    for column in columns:
        assert isinstance(column, pl.Series)
        if column.null_count():
            row = int(column.is_null().arg_max() or 0)
            raise TableError(f"{block.place_of(row)}: an id is missing")


def _has_repeats(key: TrialKey) -> bool:
    """Whether any pair of ids comes twice: by ticking them off where most pairs are in the list."""
    n_ids, n_trials = len(key.ids.code_of), key.enroll.size
    if n_ids**2 > PAIRS_PER_TRIAL * n_trials:
        ordered = np.sort(key.pairs)
        return bool(np.any(ordered[1:] == ordered[:-1]))
    seen = np.zeros(n_ids**2, bool)
    for start in range(0, n_trials, 1 << 16):
        some = slice(start, start + (1 << 16))
        seen[key.enroll[some].astype(np.int64) * n_ids + key.test[some]] = True
    return int(np.count_nonzero(seen)) < n_trials


def _without_repeats(key: TrialKey, allow: Allowance) -> TrialKey:
    if not _has_repeats(key):
        return key
    ordered = key.pairs[key.order]
    repeat = ordered[1:] == ordered[:-1]
    n_repeats = int(np.count_nonzero(repeat))
    places = np.flatnonzero(repeat) + 1
    again = f"trials are repeated, first {key.name(int(ordered[places[0]]))}"
    allow.check("duplicate", n_repeats, key.place, again)
    labels = key.labels[key.order]
    differs = places[labels[places] != labels[places - 1]]
    if differs.size:
        pair = key.name(int(ordered[differs[0]]))
        raise InputError(f"'{key.place}': {pair} is both target and nontarget; keep one label")
    keep = np.ones(ordered.size, bool)
    keep[key.order[places]] = False
    return TrialKey(
        key.place, key.ids, key.enroll[keep], key.test[keep], key.labels[keep], n_repeats
    )
