"""Colours of the pictures: safe for colour-blind readers, on paper and on light and dark screens.

The series are those of Okabe and Ito, with a grey and an indigo in place of black and yellow,
which vanish on dark and on white. For the report the same drawing is made with stand-in
colours, which become CSS variables in the page: one picture then serves light and dark.
"""

import html
import io
import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Palette:
    """Colours by role."""

    ink: str
    faint: str
    grid: str
    surface: str
    marker: str
    """The line of a minimum on a bar; black on paper."""
    target: str
    nontarget: str
    series: tuple[str, ...]
    on_series: str
    """Numbers written on a bar."""

    def of(self, number: int) -> str:
        """Colour of the series `number`."""
        return self.series[number % len(self.series)]


SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#55555e", "#332288")
PAPER = Palette(
    ink="#1b1b1f",
    faint="#5f6368",
    grid="#d9dce1",
    surface="#ffffff",
    marker="#000000",
    target="#0072b2",
    nontarget="#d55e00",
    series=SERIES,
    on_series="#ffffff",
)
# Stand-ins: colours nobody chooses, one per role.
WEB = Palette(
    ink="#010203",
    faint="#010204",
    grid="#010205",
    surface="#010206",
    marker="#010207",
    target="#010208",
    nontarget="#010209",
    series=tuple(f"#01030{number}" for number in range(1, 9)),
    on_series="#010300",
)
VARIABLES = {
    WEB.ink: "--ink",
    WEB.faint: "--faint",
    WEB.grid: "--grid",
    WEB.surface: "--card",
    WEB.marker: "--marker",
    WEB.target: "--target",
    WEB.nontarget: "--nontarget",
    WEB.on_series: "--on-series",
    **{colour: f"--series-{number}" for number, colour in enumerate(WEB.series, 1)},
}
LINES = ("solid", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1.5, 2)))
"""Line styles; when the colours start again they come with the next style."""
HATCHES = ("", "///", "...", "xxx")
"""The same for bars."""


def line_style(number: int) -> Any:
    """Line style of the series `number`."""
    return LINES[number // len(SERIES) % len(LINES)]


def hatch(number: int) -> str:
    """Hatch of the bars of series `number`."""
    return HATCHES[number // len(SERIES) % len(HATCHES)]


def rc(palette: Palette) -> Any:
    """Settings of matplotlib for a drawing in this palette."""
    return {
        "font.family": "DejaVu Sans",
        "font.size": 8.5,
        "axes.titlesize": 9.0,
        "axes.labelsize": 8.5,
        "xtick.labelsize": 7.5,
        "ytick.labelsize": 7.5,
        "legend.fontsize": 7.5,
        "text.color": palette.ink,
        "axes.labelcolor": palette.ink,
        "axes.titlecolor": palette.ink,
        "axes.edgecolor": palette.faint,
        "xtick.color": palette.faint,
        "ytick.color": palette.faint,
        "xtick.labelcolor": palette.ink,
        "ytick.labelcolor": palette.ink,
        "axes.facecolor": palette.surface,
        "figure.facecolor": palette.surface,
        "savefig.facecolor": palette.surface,
        "legend.facecolor": palette.surface,
        "legend.edgecolor": palette.grid,
        "legend.framealpha": 0.85,
        "grid.color": palette.grid,
        "grid.linewidth": 0.6,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.linewidth": 1.6,
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "figure.constrained_layout.use": True,
    }


def inline_svg(figure: Any, name: str, label: str) -> str:
    """A drawing in the WEB palette as an <svg> element for the report.

    Stand-ins become CSS variables, the page's font replaces matplotlib's, and every id gets
    the prefix `name`, since ids must be unique in a page of many drawings.
    """
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    svg = re.sub(r"font: ((?:\w+ )*)([\d.]+)px [^;\"]*", _font, svg)
    for mark in ('id="', "url(#", 'href="#'):
        svg = re.sub(rf"\b{re.escape(mark)}", f"{mark}{name}-", svg)
    # Size from the page within readable limits, shape from the viewBox.
    width = 72 * figure.get_figwidth()
    head = (
        f'<svg viewBox="\\1" role="img" aria-label="{html.escape(label)}" '
        f'style="max-width: {1.55 * width:.0f}px; min-width: {min(0.9 * width, 300):.0f}px"'
        ' xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return re.sub(r'<svg [^>]*viewBox="([^"]*)"[^>]*>', head, svg, count=1).strip()


def _font(match: re.Match[str]) -> str:
    weight = f"font-weight: {match[1].strip()}; " if match[1].strip() else ""
    return f"{weight}font-size: {match[2]}px"
