"""Tables with a header line: the names that the columns of trials and scores usually have."""

from collections.abc import Sequence
from dataclasses import dataclass

from dcaplda.runtime.errors import TableError


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
