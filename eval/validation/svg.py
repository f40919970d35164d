"""A chart as a still SVG: a validation is printed and kept, and needs no script to be read."""

from typing import Any

from dcaplda.eval.report.chart import Chart
from dcaplda.eval.report.thinning import UNITS

SHAPES = {"square": (420, 400), "wide": (460, 330), "low": (460, 170)}
RIGHT, TOP, BOTTOM = 18, 24, 48
LETTER = 6.8
"""Width of a letter, about."""
LABEL = 30
"""What the label of the upright axis takes."""


def svg_of(chart: Chart, label: str) -> str:
    """The chart as text of an <svg> element; colours are CSS variables of the page."""
    from markupsafe import escape

    record = chart.record()
    width, height = SHAPES[record["shape"]]
    left = LABEL + round(LETTER * max((len(text) for _, text in record["y"]["ticks"]), default=0))
    box = left, TOP, width - left - RIGHT, height - TOP - BOTTOM
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'class="chart {record["shape"]}" xmlns="http://www.w3.org/2000/svg">',
        *_axes(record, box),
        *_rules(record, box),
        f'<svg x="{box[0]}" y="{box[1]}" width="{box[2]}" height="{box[3]}" '
        f'viewBox="0 0 {UNITS} {UNITS}" preserveAspectRatio="none">',
        *(_line(*line) for line in record["lines"]),
        "</svg></svg>",
    ]
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    from markupsafe import escape

    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _axes(record: dict[str, Any], box: tuple[int, int, int, int]) -> list[str]:
    x0, y0, width, height = box
    across = [(x0 + at / UNITS * width, text) for at, text in record["x"]["ticks"]]
    upward = [(y0 + height - at / UNITS * height, text) for at, text in record["y"]["ticks"]]
    grid = "".join(f"M{x:.1f} {y0}v{height}" for x, _ in across)
    grid += "".join(f"M{x0} {y:.1f}h{width}" for y, _ in upward)
    middle = y0 + height / 2
    turned = f' class="label" transform="rotate(-90 13 {middle:.1f})"'
    return [
        f'<path d="{grid}" class="grid"/>',
        f'<path d="M{x0} {y0}v{height}h{width}" class="axis"/>',
        *(_text(x, y0 + height + 17, text) for x, text in across),
        *(_text(x0 - 6, y + 4, text, "end") for y, text in upward),
        _text(x0 + width / 2, y0 + height + 40, record["x"]["label"], more=' class="label"'),
        _text(13, middle, record["y"]["label"], more=turned),
    ]


def _rules(record: dict[str, Any], box: tuple[int, int, int, int]) -> list[str]:
    """Thin lines across; upright ones are named above the chart, where no curve is."""
    x0, y0, width, height = box
    found = []
    free = float("-inf")
    for axis, at, text in sorted(record["rules"], key=lambda rule: rule[1]):
        if not 0 <= at <= UNITS:
            continue
        place = x0 + at / UNITS * width if axis == "x" else y0 + height - at / UNITS * height
        way = f"M{place:.1f} {y0}v{height}" if axis == "x" else f"M{x0} {place:.1f}h{width}"
        found.append(f'<path d="{way}" class="rule"/>')
        if text:
            half = LETTER * len(text) / 2
            x = min(max(place, x0 + half, free + half + 6), x0 + width + RIGHT - half)
            free = x + half
            found.append(_text(x, y0 - 8, text))
    return found


def _line(series: str | None, style: str, filled: int, path: str) -> str:
    colour = f"var(--{series})" if series else "var(--faint)"
    tint = f";fill:{colour};fill-opacity:.16" if filled else ""
    return f'<path d="{path}" class="line {style}" style="stroke:{colour}{tint}"/>'
