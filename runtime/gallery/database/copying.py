"""A gallery of another database as a file of SQLite: the same tables, row by row."""

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from dcaplda.runtime.files import replacing
from dcaplda.runtime.gallery.database.schema import COUNT
from dcaplda.runtime.gallery.database.store import make_file


def write_copy(
    target: str,
    settings: Mapping[str, str],
    rows: Iterable[tuple[str, list[str], list[tuple[Any, ...]]]],
) -> None:
    """Write a gallery of these settings and rows of tables; whole or not at all."""
    with replacing(target) as beside:
        with contextlib.closing(sqlite3.connect(beside, isolation_level=None)) as connection:
            kept = {name: value for name, value in settings.items() if name != COUNT}
            make_file(connection, kept)
            connection.execute("BEGIN")
            for table, columns, some in rows:
                marks = ", ".join("?" * len(columns))
                statement = f"INSERT INTO {table}({', '.join(columns)}) VALUES ({marks})"
                connection.executemany(statement, some)
            connection.execute("COMMIT")
