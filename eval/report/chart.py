"""A line chart as a small record for a page, drawn there by charts.js.

Python decides everything: axes, ticks, which points a screen can show. The script in the page
only puts it at its place, once a reader asks for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.report.thinning import UNITS, path, thinned

BEYOND = 0.5
"""How far outside of the chart a line may go, in lengths of an axis."""
SOLID, DASHED = "", "dash"


def even_ticks(low: float, high: float, most: int = 7) -> list[tuple[float, str]]:
    """Round values at even steps of 1, 2 or 5 between two ends, so many steps at most."""
    width = high - low
    power = 10.0 ** math.floor(math.log10(width / most))
    step = next(power * n for n in (1, 2, 5, 10, 20) if width / (power * n) <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(n * step, f"{n * step:.10g}".replace("-", "−")) for n in range(first, last + 1)]


@dataclass(frozen=True, kw_only=True)
class Axis:
    """Ends, label and ticks (value, text) of an axis."""

    label: str
    low: float
    high: float
    ticks: Sequence[tuple[float, str]] = ()

    def units(self, values: ArrayLike) -> Floats:
        """Values as places along the axis, 0 to UNITS; what is far outside is brought near."""
        share = (np.asarray(values, dtype=np.float64) - self.low) / (self.high - self.low)
        places: Floats = UNITS * np.clip(share, -BEYOND, 1.0 + BEYOND)
        return places

    def record(self) -> dict[str, Any]:
        """For the page."""
        places = self.units([value for value, _ in self.ticks])
        texts = [text for _, text in self.ticks]
        ticks = [[round(float(p)), text] for p, text in zip(places, texts, strict=True)]
        return {"label": self.label, "ticks": ticks}


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve; `series` is the number or the name of its colour, none is grey."""

    x: ArrayLike
    y: ArrayLike
    series: int | str | None = None
    style: str = SOLID
    filled: bool = False
    """Whether the area below is tinted."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A circle, filled or open."""

    x: float
    y: float
    series: int
    filled: bool


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A thin line across the chart at a value of one axis, named at its end."""

    axis: str
    at: float
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Lines over two axes."""

    title: str
    caption: str
    x: Axis
    y: Axis
    lines: Sequence[Line]
    marks: Sequence[Mark] = field(default=())
    rules: Sequence[Rule] = field(default=())
    square: bool = False
    low: bool = False
    """Half as high as others, for small multiples."""

    def record(self) -> dict[str, Any]:
        """For the page: places in units, upwards as SVG counts them, lines thinned."""
        return {
            "title": self.title,
            "caption": self.caption,
            "shape": "square" if self.square else "low" if self.low else "wide",
            "x": self.x.record(),
            "y": self.y.record(),
            "lines": [
                [line.series, line.style, int(line.filled), path(thinned(self._points(line)))]
                for line in self.lines
            ],
            "marks": [
                [mark.series, int(mark.filled), *self._place(mark.x, mark.y)] for mark in self.marks
            ],
            "rules": [
                [rule.axis, round(float(getattr(self, rule.axis).units(rule.at))), rule.text]
                for rule in self.rules
            ],
        }

    def _points(self, line: Line) -> Floats:
        return np.column_stack([self.x.units(line.x), UNITS - self.y.units(line.y)])

    def _place(self, x: float, y: float) -> tuple[int, int]:
        across, down = np.clip([self.x.units(x), UNITS - self.y.units(y)], 0, UNITS)
        return round(float(across)), round(float(down))
