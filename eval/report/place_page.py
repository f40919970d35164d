"""The report of a place as one HTML page: nothing from outside, light and dark.

The page takes words and numbers as they are; what they mean is decided where they are made.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dcaplda.eval.report.templates import fill, write_page

TEMPLATE = "place.html.j2"
GRADES = {"nothing": "yes", "adapt": "yes", "collect more": "care", "do not use": "no"}
"""Colour of the card by what is to be done."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A number on a line from 0, with marks where its meaning changes."""

    name: str
    value: float
    marks: Sequence[tuple[float, str]]

    @property
    def end(self) -> float:
        """Where the line ends: a little beyond everything on it."""
        return 1.15 * max(self.value, *(mark for mark, _ in self.marks))

    def percent(self, value: float) -> str:
        """A place on the line, for CSS."""
        return f"{100 * max(value, 0.0) / self.end:.1f}%"


@dataclass(frozen=True, kw_only=True)
class PlacePage:
    """What the page shows."""

    title: str
    action: str
    headline: str
    reasons: Sequence[str]
    scales: Sequence[Scale]
    rows: Sequence[tuple[str, str, str]]
    """Name, value, meaning."""


def write_place_page(path: str, page: PlacePage) -> None:
    """Write the page whole or not at all."""
    write_page(path, render_place(page))


def render_place(page: PlacePage) -> str:
    """The page as text."""
    return fill(TEMPLATE, page=page, grade=GRADES.get(page.action, ""))
