"""The utterances that a tool was asked for: vectors, seconds of speech, voiceprints.

Shared by the tools that score and enrol. What is asked for but not there is collected, with
the table that lacks it; the tool decides whether that is an error.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.options import Log
from dcaplda.runtime import checks
from dcaplda.runtime.errors import InputError, TableError, UsageError
from dcaplda.runtime.extractors.agreement import agree_on_table
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_numbers
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.runtime.tables.voiceprint_tag import check_tag

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

NUM_UTTS = "num_utts"


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where utterances come from: tables as the user named them."""

    vectors: str
    durations: str = ""
    num_utts: str = ""
    frame_shift: float = 0.0
    scp_root: str = ""
    are_voiceprints: bool = False


@dataclass
class Utterances:
    """Rows of a table that were asked for, in the table's order.

    `missing` maps an id that was asked for to the table that does not have it.
    """

    source: Source
    ids: list[str]
    matrix: NDArray[np.float32]
    seconds: NDArray[np.float64] | None
    extra: dict[str, NDArray[np.float32]]
    missing: dict[str, str]
    row: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """Number the rows."""
        self.row = {name: row for row, name in enumerate(self.ids)}

    def voiceprints(
        self,
        backend: "Backend",
        rows: NDArray[np.int64] | None = None,
        groups: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float32]:
        """Voiceprints of all rows, or of `rows` averaged by `groups`."""
        if self.source.are_voiceprints:
            return self.matrix
        if self.seconds is not None:
            # Here and not when they are read: who lets short segments be zero has such.
            checks.seconds(
                self.seconds, f"'{self.source.durations}'", len(self.ids), True, self.ids
            )
        chosen = slice(None) if rows is None else rows
        return backend.voiceprints(
            self.matrix[chosen],
            None if self.seconds is None else self.seconds[chosen],
            groups=groups,
            extra={name: values[chosen] for name, values in self.extra.items()},
            ids=self.ids if rows is None else [self.ids[row] for row in rows],
        )


def load(
    source: Source, wanted: Collection[str] | None, backend: "Backend", timed: bool, log: Log
) -> Utterances:
    """Read the wanted rows (None: all) and, if `timed`, their seconds of speech."""
    table = read_vectors(source.vectors, source.scp_root, wanted)
    for message in table.skipped[:10]:
        log.warning(message)
    if table.skipped:
        log.warning(f"'{source.vectors}': {len(table.skipped)} unreadable entries passed over (p)")
    present = set(table.ids)
    missing = {name: source.vectors for name in wanted or () if name not in present}
    if table.ids:
        _check_width(source, table.matrix.shape[1], backend, log)
    seconds = _column(source.durations, source, table.ids) if timed else None
    extra = _extra(source, table.ids, backend)
    # A row without one of its numbers is as good as not there.
    keep = np.ones(len(table.ids), bool)
    for name, values in (("durations", seconds), (NUM_UTTS, extra.get(NUM_UTTS))):
        if values is not None:
            lacking = np.isnan(values)
            keep &= ~lacking
            where = source.durations if name == "durations" else source.num_utts
            missing |= {table.ids[row]: where for row in np.flatnonzero(lacking)}
    ids, matrix = table.ids, table.matrix
    if not keep.all():
        ids = [name for name, kept in zip(ids, keep, strict=True) if kept]
        matrix = matrix[keep]
        seconds = None if seconds is None else seconds[keep]
        extra = {name: values[keep] for name, values in extra.items()}
    if ids:
        place = f"'{source.vectors}'"
        if source.are_voiceprints:
            backend.checked_voiceprints(matrix, place, ids)
        else:
            checks.embeddings(matrix, place, matrix.shape[1], ids)
    return Utterances(source, ids, matrix, seconds, extra, missing)


def _check_width(source: Source, width: int, backend: "Backend", log: Log) -> None:
    info = backend.info
    if not source.are_voiceprints:
        if width != info.embedding_dim:
            raise InputError(
                f"'{source.vectors}': vectors of {width} values, the model takes "
                f"{info.embedding_dim}; use the extractor that the model was trained with"
            )
        backend.extractor = agree_on_table(
            backend.extractor, source.vectors, source.scp_root, log.warning
        )
        return
    if width != info.voiceprint_dim:
        raise InputError(
            f"'{source.vectors}': vectors of {width} values, voiceprints of this model have "
            f"{info.voiceprint_dim}; make them with enroll-speakers and this model"
        )
    if not check_tag(source.vectors, source.scp_root, info.fingerprint):
        log.warning(
            f"'{source.vectors}': cannot tell which model made these voiceprints; "
            "scores are meaningless unless it was this one"
        )


def _column(table: str, source: Source, ids: list[str]) -> NDArray[np.float64]:
    """Seconds of each id; NaN where the table has none."""
    found = read_durations(table, source.frame_shift)
    return np.array([found.get(name, np.nan) for name in ids], np.float64)


def _extra(source: Source, ids: list[str], backend: "Backend") -> dict[str, NDArray[np.float32]]:
    """Further inputs that the model declares; one utterance each unless a table says more."""
    if NUM_UTTS not in backend.info.voiceprint_inputs:
        if source.num_utts:
            raise UsageError(f"--num-utts={source.num_utts}: this model does not use it; leave it")
        return {}
    if not source.num_utts or source.are_voiceprints:
        return {NUM_UTTS: np.ones(len(ids), np.float32)}
    found = read_numbers(source.num_utts, whole=True)
    for name, count in found.items():
        if count < 1:
            raise TableError(f"'{source.num_utts}': '{name}' has {count:g} utterances")
    return {NUM_UTTS: np.array([found.get(name, np.nan) for name in ids], np.float32)}


@dataclass(frozen=True)
class Models:
    """What trials enrol: model m is the rows `rows[offsets[m]:offsets[m + 1]]` of utterances.

    `number` gives the model of each name that was asked for, -1 where it is missing.
    """

    number: NDArray[np.int64]
    rows: NDArray[np.int64]
    offsets: NDArray[np.int64]
    missing: dict[str, str]
    incomplete: dict[str, str]
    """Models of which some utterance is missing, and the table that lacks it."""

    @property
    def single(self) -> bool:
        """Whether every model is one utterance."""
        return len(self.rows) == len(self.offsets) - 1

    def any_of(self, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which models have a flagged row."""
        return np.add.reduceat(flags[self.rows].astype(np.int64), self.offsets[:-1]) > 0


def read_members(spk2utt: str, names: Iterable[str]) -> dict[str, list[str]]:
    """The utterances of each name: by spk2utt where there is one, else itself."""
    if not spk2utt:
        return {name: [name] for name in names}
    lists = read_lists(spk2utt)
    return {name: lists[name] for name in names if name in lists}


def arrange(
    names: list[str], members: dict[str, list[str]], spk2utt: str, utterances: Utterances
) -> Models:
    """Find the rows of each model; a model without any utterance is missing."""
    number = np.full(len(names), -1, np.int64)
    rows: list[int] = []
    offsets = [0]
    missing: dict[str, str] = {}
    incomplete: dict[str, str] = {}
    for position, name in enumerate(names):
        if name not in members:
            missing[name] = spk2utt
            continue
        found = [utterances.row.get(utterance, -1) for utterance in members[name]]
        if -1 in found:
            lost = members[name][found.index(-1)]
            incomplete[name] = f"'{lost}' is not in '{utterances.missing[lost]}'"
            found = [row for row in found if row >= 0]
        if not found:
            missing[name] = utterances.missing[members[name][0]]
            incomplete.pop(name)
            continue
        number[position] = len(offsets) - 1
        rows += found
        offsets.append(len(rows))
    return Models(number, np.array(rows, np.int64), np.array(offsets), missing, incomplete)
