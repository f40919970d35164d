"""Score files joined with trial keys by ids, never by line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.trials.ids import Codes, IdTable
from dcaplda.eval.trials.keys import (
    UNLABELLED,
    Allowance,
    TrialKey,
    check_ids,
    joined_ids,
    label_codes,
)
from dcaplda.eval.trials.lines import (
    Block,
    RawBlocks,
    headed_blocks,
    peeked,
    raw_blocks,
    word_blocks,
)
from dcaplda.eval.trials.score_columns import score_lines
from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.columns import Columns


@dataclass(frozen=True)
class Counts:
    """What was odd about a join; every number is 0 for a clean one."""

    unlabelled: int = 0
    duplicate: int = 0
    missing: int = 0
    extra: int = 0


@dataclass(frozen=True)
class ScoreFile:
    """Scores as read: a pair of ids and a number for each line."""

    place: str
    pairs: NDArray[np.uint64] | None
    """None: the trials of the list, one by one in its order."""
    values: Floats


def read_scores(
    source: str,
    ids: IdTable,
    columns: Columns | None = None,
    like: TrialKey | None = None,
    column: int | None = None,
) -> ScoreFile:
    """Read `enroll test score` lines; words after the score are ignored.

    The score may be in another `column`, counted from 1 (`score_columns`).

    With `columns` the file may also be a table with a header, if its first line says so. Lines in
    the order of the trials of `like` are only compared with them: quicker than looking ids up.
    """
    first_line, raw = peeked(raw_blocks(source))
    names = {word.strip('"') for word in re.split(r"[\t, ]+", first_line.lower())}
    if columns is not None and names & set(columns.score):
        blocks = headed_blocks(source, [columns.enroll, columns.test, columns.score], raw)
    else:
        blocks = _score_words(source, first_line, raw, column)
    pairs: list[NDArray[np.uint64]] = []
    values: list[Floats] = []
    n_same = n_read = 0
    for block in blocks:
        enroll, test, score = block.columns[:3]
        check_ids(block, enroll, test)
        values.append(_numbers(block, score))
        rows = slice(n_read, n_read + len(enroll))
        n_read = rows.stop
        if like is not None and n_same == rows.start and _follows(like, rows, enroll, test):
            n_same = rows.stop
        else:
            pairs.append(joined_ids(ids.codes(enroll), ids.codes(test)))
    if not n_read:
        raise TableError(f"'{source}': no scores in it")
    if like is not None and n_same == n_read == like.enroll.size:
        return ScoreFile(source, None, np.concatenate(values))
    if like is not None and n_same:
        pairs.insert(0, like.pairs[:n_same])
    return ScoreFile(source, np.concatenate(pairs), np.concatenate(values))


def _follows(key: TrialKey, rows: slice, enroll: Any, test: Any) -> bool:
    """Whether ids are those of some consecutive trials."""
    if rows.stop > key.enroll.size:
        return False
    sides = (key.enroll, enroll), (key.test, test)
    return all(key.ids.equal(codes[rows], column).all() for codes, column in sides)


def _score_words(
    source: str, first_line: str, raw: RawBlocks, column: int | None
) -> Iterator[Block]:
    """Blocks whose first three columns are the ids and the score."""
    lines = score_lines(first_line, source, column)
    words = (lines.least, lines.most, lines.expected)
    for block in word_blocks(source, *words, raw, number=lines.place):
        yield replace(block, columns=[*block.columns[:2], block.columns[lines.place]])


def score_blocks(source: str, column: int | None = None) -> Iterator[tuple[Any, Any, Floats]]:
    """The ids of `enroll test score` lines as polars columns and the scores, block by block."""
    first_line, raw = peeked(raw_blocks(source))
    for block in _score_words(source, first_line, raw, column):
        enroll, test, score = block.columns
        check_ids(block, enroll, test)
        yield enroll, test, _numbers(block, score)


def _numbers(block: Block, column: object) -> Floats:
    """A column of scores as float64; infinite ones pass, NaN and words are errors."""
    import polars as pl

    assert isinstance(column, pl.Series)
    parsed = column.cast(pl.Float64, strict=False)  # nothing to do where it was read as such
    bad = parsed.is_null() | parsed.is_nan()
    if bad.any():
        row = int(bad.arg_max() or 0)
        found = str(column[row] or "")
        reason = "the score is NaN" if found.lower().endswith("nan") else "expected a score"
        raise TableError(f"{block.place_of(row)}: {reason}, found '{found[:40]}'")
    return parsed.to_numpy()


@dataclass(frozen=True)
class Joined:
    """The labelled trials of a key that have a score, and what was odd."""

    scores: Floats
    labels: NDArray[np.bool_]
    enroll: Codes
    test: Codes
    counts: Counts
    whole: bool = False
    """Whether these are all trials of the key, in its order."""

    def split(self) -> tuple[Floats, Floats]:
        """Scores of the target and of the nontarget trials."""
        return self.scores[self.labels], self.scores[~self.labels]


def join(key: TrialKey, scores: ScoreFile, allow: Allowance | None = None) -> Joined:
    """Give each trial its score by both ids; missing, extra and repeated ones are counted.

    Of a repeated score the first counts. Lists in the same order are only compared.
    """
    allow = allow or Allowance()
    n_repeats = n_extra = 0
    if scores.pairs is None or np.array_equal(key.pairs, scores.pairs):
        values, present = scores.values, np.ones(scores.values.size, bool)
    else:
        values, present, n_repeats, n_extra = _merged(key, scores, allow)
    n_missing = int(present.size - np.count_nonzero(present))
    if n_missing:
        first = key.name(int(key.pairs[np.argmin(present)]))
        words = f"of {present.size} trials have no score, first {first}"
        words += _audio_ending(key, scores, int(np.argmin(present)))
        allow.check("missing", n_missing, scores.place, words)
    unlabelled = key.labels == UNLABELLED
    counts = Counts(
        int(np.count_nonzero(unlabelled)), n_repeats + key.n_duplicate, n_missing, n_extra
    )
    keep = present & ~unlabelled
    if keep.all():
        return Joined(values, key.labels.astype(bool), key.enroll, key.test, counts, True)
    labels = key.labels[keep].astype(bool)
    return Joined(values[keep], labels, key.enroll[keep], key.test[keep], counts)


def _audio_ending(key: TrialKey, scores: ScoreFile, place: int) -> str:
    """A hint where a trial has a score once its ids lose, or gain, the ending `.wav`."""
    names, code_of = key.ids.names, key.ids.code_of
    sides = [names[codes[place]] for codes in (key.enroll, key.test)]
    for other, hint in (
        ([name.removesuffix(".wav") for name in sides], "'.wav' is cut from the trials' ids"),
        ([name + ".wav" for name in sides], "'.wav' is cut from the scores' ids"),
    ):
        if other != sides and all(name in code_of for name in other):
            enroll, test = (np.array([code_of[name]], np.uint32) for name in other)
            if scores.pairs is not None and joined_ids(enroll, test)[0] in scores.pairs:
                return f" (they match once {hint})"
    return ""


def _merged(
    key: TrialKey, scores: ScoreFile, allow: Allowance
) -> tuple[Floats, NDArray[np.bool_], int, int]:
    """Values in the key's order, which of them exist, and counts of repeated and extra scores."""
    assert scores.pairs is not None
    order = np.argsort(scores.pairs, kind="stable")
    pairs = scores.pairs[order]
    fresh = np.ones(pairs.size, bool)
    fresh[1:] = pairs[1:] != pairs[:-1]
    n_repeats = int(pairs.size - np.count_nonzero(fresh))
    if n_repeats:
        first = key.name(int(pairs[np.argmin(fresh)]))
        allow.check("duplicate", n_repeats, scores.place, f"scores are repeated, first {first}")
        pairs, order = pairs[fresh], order[fresh]
    wanted = key.pairs[key.order]
    # Both sides are sorted, so this walks through memory once.
    place = np.minimum(np.searchsorted(pairs, wanted), pairs.size - 1)
    found = pairs[place] == wanted
    n_extra = int(pairs.size - np.count_nonzero(found))
    if n_extra:
        used = np.zeros(pairs.size, bool)
        used[place[found]] = True
        first = key.name(int(pairs[np.argmin(used)]))
        words = f"scores are of no trial, first {first}"
        words += "" if found.any() else _audio_ending(key, scores, 0)
        allow.check("extra", n_extra, scores.place, words)
    values = np.zeros(wanted.size)
    values[key.order] = scores.values[order[place]]
    present = np.zeros(wanted.size, bool)
    present[key.order] = found
    return values, present, n_repeats, n_extra


def read_score_label_lines(source: str) -> tuple[Floats, NDArray[np.bool_]]:
    """Read Kaldi's `score label` lines, as compute-eer takes them."""
    values, labels = [], []
    for block in word_blocks(source, 2, 2, "score target|nontarget"):
        score, label = block.columns
        values.append(_numbers(block, score))
        labels.append(label_codes(label, block).astype(bool))
    return np.concatenate(values), np.concatenate(labels)
