"""The page of a training: what was chosen, how it went, where it is calibrated, what it warns of.

One HTML file with everything in it, light and dark. It takes words and numbers as they are; train/
finds them in what a run leaves.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcaplda.eval.report.palette import WEB, Palette, inline_svg, rc
from dcaplda.eval.report.templates import fill, write_page

TEMPLATE = "training.html.j2"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve of losses over the steps."""

    name: str
    steps: Sequence[int]
    losses: Sequence[float]
    series: int | None = None
    """Its colour; none: grey, in the background."""
    dashed: bool = False


@dataclass(frozen=True, kw_only=True)
class Curves:
    """All curves of a run, where its stages begin, and the step of the model that was chosen."""

    lines: Sequence[Line]
    stages: Sequence[tuple[int, str]] = ()
    chosen: int | None = None
    prior: float


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Cllr of one development set or held-out part at prior 0.5, and for rare targets."""

    name: str
    kind: str
    cllr: float
    minimum: float
    rare: float
    targets: int
    nontargets: int


@dataclass(frozen=True, kw_only=True)
class Table:
    """Sets or parts of one kind."""

    title: str
    caption: str
    rows: Sequence[Calibration]

    def percent(self, value: float) -> str:
        """A place on the line of a row, for CSS; all rows of a table have the same scale."""
        end = 1.05 * max(max(row.cllr, row.minimum) for row in self.rows)
        return f"{100 * max(value, 0.0) / end:.1f}%" if end > 0 else "0.0%"


@dataclass(frozen=True, kw_only=True)
class TrainingPage:
    """What the page shows."""

    title: str
    grade: str
    """yes, care or no: the colour of the verdict."""
    headline: str
    sentences: Sequence[str]
    facts: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    choices: Sequence[tuple[str, str, str]] = ()
    """Setting, value, reason."""
    contest: Sequence[tuple[str, str, str, str, str]] = ()
    """Setting, value tried, value in its place before, held-out figures, are these beyond error."""
    curves: Curves | None = None
    warnings: Sequence[tuple[str, str, str]] = field(default_factory=tuple)
    """What is unusual, the usual range, what it means."""


def write_training_page(path: Path, page: TrainingPage) -> None:
    """Write the page whole or not at all."""
    write_page(path, render_training(page))


def render_training(page: TrainingPage) -> str:
    """The page as text."""
    drawing = "" if page.curves is None else curves_svg(page.curves)
    return fill(TEMPLATE, page=page, drawing=drawing)


def curves_svg(curves: Curves) -> str:
    """The curves as an <svg> element in the page's colours."""
    import matplotlib

    # The salt makes ids depend on the drawing alone: equal runs have equal pages.
    with matplotlib.rc_context({**rc(WEB), "svg.hashsalt": "training"}):
        figure = _draw(curves, WEB)
        return inline_svg(figure, "curves", "Loss over the steps of training")


def _draw(curves: Curves, palette: Palette) -> Any:
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not pyplot: that keeps global state and looks for a display.
    figure = Figure(figsize=(7.2, 3.5))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for line in curves.lines:
        colour = palette.faint if line.series is None else palette.of(line.series)
        style = "--" if line.dashed else "-"
        width = 0.9 if line.series is None else 1.6
        axes.plot(line.steps, line.losses, style, color=colour, lw=width, label=line.name)
    last = max(step for line in curves.lines for step in line.steps)
    for step, name in curves.stages:
        axes.axvline(step, color=palette.grid, lw=1.0, ls=":")
        # A stage that begins near the end is named on the left of its line.
        side = "right" if step > 0.85 * last else "left"
        axes.annotate(
            name,
            (step, 1.01),
            xycoords=("data", "axes fraction"),
            va="bottom",
            ha=side,
            color=palette.faint,
        )
    if curves.chosen is not None:
        axes.axvline(curves.chosen, color=palette.marker, lw=0.9, label="the model chosen")
    shown = [loss for line in curves.lines for loss in line.losses]
    # A model that lost its calibration for a while would flatten all other curves.
    axes.set_ylim(0, min(max(shown), 3.0 * float(np.median(shown))) * 1.05 or 1.0)
    axes.set_xlabel("steps")
    axes.set_ylabel(f"Cllr at prior {curves.prior:g}")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    return figure
