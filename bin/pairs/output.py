"""Kept pairs as a file: what its name says, with all that tells later what it is of."""

from collections.abc import Iterable, Iterator

import numpy as np

from dcaplda.bin.pairs.tables import PairTables
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.bundle.checksums import sha256
from dcaplda.runtime.pairs.best import Pairs
from dcaplda.runtime.pairs.files import names_parquet, write_ids, write_lines, write_parquet
from dcaplda.runtime.pairs.scan import Wanted


def write_pairs(
    target: str, found: Iterable[Pairs], backend: Backend, tables: PairTables, wanted: Wanted
) -> int:
    """Write pairs as the target's name says; how many."""
    if not names_parquet(target):
        return write_lines(target, found, tables.rows.ids, tables.columns.ids)
    told = {
        "dcaplda.model": backend.info.fingerprint,
        "dcaplda.ids_sha256": sha256("\n".join(tables.ids).encode()),
        "dcaplda.top_k": str(wanted.top_k),
        "dcaplda.min_llr": str(wanted.min_llr),
    }
    count = write_parquet(target, _numbered(found, tables.first_column), told)
    write_ids(target, tables.ids)
    return count


def _numbered(found: Iterable[Pairs], first_column: int) -> Iterator[Pairs]:
    """Pairs whose columns are numbered on after the rows, where they are another table."""
    for pairs in found:
        yield pairs._replace(columns=pairs.columns + np.uint32(first_column))
