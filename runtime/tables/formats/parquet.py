"""Parquet files: a column `ids` of text and a column `vectors` (or `data`) of lists, by polars."""

import os
from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.files import replacing
from dcaplda.runtime.tables.formats.arrays import (
    IDS,
    VECTORS,
    Broken,
    check_floats,
    check_size,
    id_texts,
    paired,
    which_vectors,
)
from dcaplda.runtime.tables.formats.child import decode_in_child
from dcaplda.runtime.tables.formats.registry import Rows, VectorFormat, register


def read(name: str, only: Collection[str] | None) -> Rows:
    """Ids and vectors of a file; `only` is left to the caller."""
    import polars  # noqa: F401  (whoever has none is told so by this very process)

    return decode_in_child(__name__, name, "parquet")


def decode(path: str) -> Rows:
    """Ids and vectors, in a process that may die of it."""
    import polars as pl

    schema = pl.read_parquet_schema(path)
    if IDS not in schema:
        raise Broken(f"needs the columns '{IDS}' and '{VECTORS[0]}' (or '{VECTORS[1]}')")
    what = which_vectors(schema, "columns")
    kind: Any = schema[what]
    if not isinstance(kind, (pl.List, pl.Array)) or kind.inner not in (pl.Float32, pl.Float64):
        raise Broken(f"the column '{what}' holds {kind}; expected lists of float32 or float64")
    # Rows are counted from the footer; each takes at least a byte for the length of its id.
    rows = pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    check_size(f"'{IDS}'", rows, os.path.getsize(path))
    frame = pl.read_parquet(path, columns=[IDS, what], glob=False, hive_partitioning=False)
    if frame[IDS].null_count():
        raise Broken(f"row {int(frame[IDS].is_null().arg_max() or 0) + 1} has no id")
    names = id_texts(frame[IDS].to_list())
    if not names:
        raise Broken("the table is empty")
    return paired(names, _matrix(frame[what], names), what)


def _matrix(column: Any, names: list[str]) -> NDArray[np.floating]:
    """Lists of equal length, none of them with a hole, as rows."""
    import polars as pl

    if column.null_count():
        raise Broken(f"'{names[int(column.is_null().arg_max() or 0)]}' has no vector")
    if isinstance(column.dtype, pl.List):
        lengths = column.list.len()
        odd = (lengths != lengths[0]).arg_max() if lengths.n_unique() > 1 else 0
        if odd:
            raise Broken(
                f"'{names[odd]}' has {lengths[odd]} values, '{names[0]}' has {lengths[0]}; all "
                "must have the same number"
            )
        if not lengths[0]:
            raise Broken(f"'{names[0]}' has no values")
        width = int(lengths[0])
    else:
        width = int(column.dtype.size)
    flat = column.explode()
    if flat.null_count() or len(flat) != width * len(names):
        row = int(flat.is_null().arg_max() or 0) // max(width, 1)
        raise Broken(f"'{names[row]}' has a hole among its values; extract it again")
    numbers = np.array(flat.to_numpy()).reshape(len(names), width)
    check_floats("the column", numbers.dtype)
    return numbers


def write(name: str, ids: list[str], matrix: NDArray[np.float32]) -> None:
    """Columns `ids` and `vectors` (arrays of float32)."""
    import polars as pl

    vectors = pl.Series(VECTORS[0], matrix, dtype=pl.Array(pl.Float32, matrix.shape[1]))
    with replacing(name) as beside:
        pl.DataFrame([pl.Series(IDS, ids, dtype=pl.String), vectors]).write_parquet(beside)


register(VectorFormat(names=("parquet",), endings=(".parquet",), read=read, write=write))
