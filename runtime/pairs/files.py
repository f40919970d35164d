"""Files of kept pairs: Parquet with numbers and a dictionary of ids, or lines `enroll test llr`.

Pairs come some at a time and never are in memory all together; only the best of each row are. A
Parquet file is written in pieces first, in a folder beside it, and put together by polars.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcaplda.runtime.errors import InputError, UsageError
from dcaplda.runtime.files import replacing, working_folder
from dcaplda.runtime.pairs.best import NOBODY, Pairs, joined
from dcaplda.runtime.tables.specifiers import writing
from dcaplda.runtime.trials.score_file import format_lines

if TYPE_CHECKING:
    import polars as pl

ENROLL, TEST, LLR, ID = "enroll", "test", "llr", "id"
ROW_GROUP = 1 << 20
PIECE = 1 << 24
"""Pairs of a piece: 200 MB."""
LINES_AT_ONCE = 500_000
PARQUET = ".parquet"


def names_parquet(target: str) -> bool:
    """Whether an output is a Parquet file; anything else gets lines."""
    name = target.strip()
    if name.endswith(PARQUET) and name.startswith("|"):
        raise UsageError(f"'{target}': a Parquet file is not written by a command; name the file")
    return name.endswith(PARQUET)


def ids_path(target: str | Path) -> Path:
    """Where the dictionary of a Parquet file lies: `pairs.ids.parquet` of `pairs.parquet`."""
    path = Path(target)
    return path.with_name(path.name.removesuffix(PARQUET) + ".ids" + PARQUET)


def check_count(count: int) -> None:
    """Refuse more utterances than their numbers can tell apart."""
    if count >= int(NOBODY):
        raise InputError(f"{count} utterances: pairs are numbered by 32 bits; cut the table")


def write_ids(target: str | Path, ids: Sequence[str]) -> None:
    """The dictionary: row n of its only column is the id of number n."""
    import polars as pl

    with replacing(ids_path(target)) as beside:
        frame = pl.DataFrame([pl.Series(ID, list(ids), dtype=pl.String)])
        frame.write_parquet(beside, compression="zstd")


def write_parquet(target: str | Path, pairs: Iterable[Pairs], told: Mapping[str, str]) -> int:
    """Pairs as columns of uint32, uint32 and float32; `told` goes into the schema's metadata.

    The same pairs give the same bytes, whatever they come in. Returns how many there are.
    """
    count, target = 0, Path(target)
    with working_folder(target) as folder:
        pieces: list[Path] = []
        for piece in _gathered(pairs, PIECE):
            count += len(piece.rows)
            pieces.append(folder / f"{len(pieces)}{PARQUET}")
            _frame(piece).write_parquet(pieces[-1], compression="lz4")
        join_parquet(target, pieces, told)
    return count


def join_parquet(target: str | Path, paths: Sequence[Path], told: Mapping[str, str]) -> None:
    """The rows of files of pairs, one file after the other, as one file."""
    import polars as pl

    with replacing(target) as beside:
        pl.scan_parquet(list(paths), glob=False).sink_parquet(
            beside,
            compression="zstd",
            row_group_size=ROW_GROUP,
            metadata=dict(told),
            maintain_order=True,
        )


def write_lines(
    target: str, pairs: Iterable[Pairs], rows: Sequence[str], columns: Sequence[str]
) -> int:
    """Pairs as lines `enroll test llr`, to an extended file name; the number of lines."""
    import polars as pl

    named = pl.Series(rows), pl.Series(columns)
    count = 0
    with writing(target) as stream:
        for piece in _gathered(pairs, LINES_AT_ONCE):
            for first in range(0, len(piece.rows), LINES_AT_ONCE):
                some = piece.take(slice(first, first + LINES_AT_ONCE))
                words = named[0].gather(some.rows), named[1].gather(some.columns)
                lines = {ENROLL: words[0], TEST: words[1], LLR: some.llrs}
                stream.write(format_lines(lines))
            count += len(piece.rows)
    return count


def read_pairs(paths: Iterable[Path]) -> Iterator[Pairs]:
    """Pairs of files that `write_parquet` wrote, a row group at a time."""
    import polars as pl

    for path in paths:
        rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
        for first in range(0, rows, ROW_GROUP):
            yield _pairs(pl.scan_parquet(path, glob=False).slice(first, ROW_GROUP).collect())


def _gathered(pairs: Iterable[Pairs], least: int) -> Iterator[Pairs]:
    """The same pairs, at least so many at a time; something even if there are none."""
    waiting: list[Pairs] = []
    for some in pairs:
        waiting.append(some)
        if sum(len(part.rows) for part in waiting) >= least:
            yield joined(waiting)
            waiting = []
    yield joined(waiting)


def _frame(pairs: Pairs) -> "pl.DataFrame":
    import polars as pl

    columns: dict[str, Any] = dict(zip((ENROLL, TEST, LLR), pairs, strict=True))
    return pl.DataFrame(columns)


def _pairs(frame: "pl.DataFrame") -> Pairs:
    rows, columns = (frame[name].to_numpy().astype(np.uint32) for name in (ENROLL, TEST))
    return Pairs(rows, columns, frame[LLR].to_numpy().astype(np.float32))
