"""Where the galleries of a test live: in a file, or on a PostgreSQL server."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from postgres_server import Server

from dcaplda.runtime import Backend
from dcaplda.runtime.gallery.speakers import Gallery

KINDS = ("sqlite", "postgres")


@dataclass
class Home:
    """A storage with room for galleries of any number of names."""

    kind: str
    name: Callable[[str], str]
    """The path or address of a gallery."""
    opened: list[Gallery] = field(default_factory=list)

    def open(self, backend: Backend, name: str = "callers", **settings: Any) -> Gallery:
        """Another handle of a gallery, closed at the end of the test."""
        self.opened.append(Gallery.open(self.name(name), backend, **settings))
        return self.opened[-1]

    def close(self) -> None:
        """Close every handle."""
        for gallery in self.opened:
            gallery.close()


_numbers = itertools.count()


def home_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Home:
    """Of a fixture's request, at whose end all that was opened is closed."""
    home = Home(kind, _names(kind, request, folder))
    request.addfinalizer(home.close)
    return home


def _names(kind: str, request: pytest.FixtureRequest, folder: Path) -> Callable[[str], str]:
    if kind == "sqlite":
        return lambda name: str(folder / f"{name}.db")
    server: Server = request.getfixturevalue("postgres")
    number = next(_numbers)  # a schema is made far faster than a database
    return lambda name: server.url("postgres", gallery=f"t{number}_{name}")
