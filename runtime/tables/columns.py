"""Tables of columns: the names that those of trials and scores usually have, and their frames."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dcaplda.runtime.errors import TableError

_BOM = b"\xef\xbb\xbf"
# First bytes of gzip, zlib and zstd, by which polars would unpack what is an id.
_PACKED = (b"\x1f", b"\x78", b"\x28")


@dataclass(frozen=True)
class Columns:
    """Names that the columns of tables with a header may have, in lower case."""

    enroll: tuple[str, ...] = ("enroll", "enrollment", "modelid", "model", "enroll_id")
    test: tuple[str, ...] = ("test", "segmentid", "segment", "testid", "test_id")
    label: tuple[str, ...] = ("label", "targettype", "target", "key")
    score: tuple[str, ...] = ("llr", "score")

    @classmethod
    def chosen(cls, header: bool, **names: str) -> "Columns | None":
        """What a user said: that there is a header, or what some columns are called.

        None without either: the table has no header.
        """
        given = {key: (name.lower(),) for key, name in names.items() if name}
        return cls(**given) if header or given else None


def column_place(header: Sequence[str], names: tuple[str, ...], source: str) -> int:
    """Where the one column is that has one of the names, whatever their case."""
    places = [place for place, name in enumerate(header) if name.lower() in names]
    if len(places) != 1:
        found = ", ".join(header)[:120]
        raise TableError(
            f"'{source}' line 1: expected one column named {' or '.join(names)}, found: {found}"
        )
    return places[0]


class NoFrame(Exception):
    """Why lines are no table; the caller says which line of which file."""


def read_frame(data: bytes, separator: str, schema: Mapping[str, Any], quotes: bool = False) -> Any:
    """The frame of lines without a header; short lines have nulls, too long ones are NoFrame."""
    import polars as pl

    try:
        return pl.read_csv(
            _BOM + data if data.startswith(_PACKED) else data,
            has_header=False,
            separator=separator,
            quote_char='"' if quotes else None,
            schema=dict(schema),
        )
    except (pl.exceptions.PolarsError, OSError) as error:
        raise NoFrame((str(error).splitlines() or [""])[0][:200]) from None
