"""The pictures of a validation, in LRs and odds instead of logarithms: Tippett, ECE, PAV."""

import math
from dataclasses import dataclass

import numpy as np

from dcaplda.eval.metrics.forensic import LOG10
from dcaplda.eval.report.chart import DASHED, Axis, Chart, Line, Rule, even_ticks
from dcaplda.eval.validation.evidence import PRIOR_POWERS, Evidence
from dcaplda.eval.validation.svg import svg_of

MOST_TICKS = 8


@dataclass(frozen=True)
class Figure:
    """A picture, what its lines are, and how to read it."""

    title: str
    svg: str
    keys: tuple[tuple[str, str, str], ...]
    """Colour, style and words of each line."""
    reading: str


def power_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Powers of ten as ratios: 1/1000, 1, 1000; every second or third where there are many."""
    step = max(1, math.ceil((high - low) / MOST_TICKS))
    first = math.ceil(low / step) * step
    return [(float(p), _power(p)) for p in range(first, math.floor(high) + 1, step)]


def _power(power: int) -> str:
    size = f"{10 ** abs(power):,}" if abs(power) <= 4 else f"10{_superscript(abs(power))}"
    return size if power >= 0 else f"1/{size}"


def _superscript(number: int) -> str:
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def figures(evidence: Evidence) -> list[Figure]:
    """All pictures of a set."""
    return [_tippett(evidence), _ece(evidence), _pav(evidence)]


def _tippett(evidence: Evidence) -> Figure:
    curves = evidence.curves
    low, high = float(curves.grid[0]), float(curves.grid[-1])
    bounds = [bound / LOG10 for bound in evidence.bounds]
    rules = [Rule(axis="x", at=0.0)]
    names = ("lower bound", "upper bound")
    rules += [Rule(axis="x", at=b, text=n) for b, n in zip(bounds, names, strict=True)]
    chart = Chart(
        title="Tippett",
        caption="",
        x=Axis(label="likelihood ratio", low=low, high=high, ticks=power_ticks(low, high)),
        y=Axis(label="pairs at or above, %", low=0.0, high=100.0, ticks=even_ticks(0.0, 100.0)),
        lines=[
            Line(x=curves.grid, y=100 * curves.target_above, series="target"),
            Line(x=curves.grid, y=100 * curves.nontarget_above, series="nontarget"),
        ],
        rules=rules,
    )
    reading = (
        "For every likelihood ratio on the lower axis: how many pairs had one at least as large. "
        "The blue line should stay near the top until far to the right of 1, and the orange one "
        "reach the bottom to the left of 1. Orange to the right of 1 is misleading evidence, and "
        "so is what blue has lost by then."
    )
    keys = (("target", "", "pairs of one person"), ("nontarget", "", "pairs of two people"))
    return _drawn("How large the likelihood ratios were (Tippett plot)", chart, keys, reading)


def _ece(evidence: Evidence) -> Figure:
    curves = evidence.curves
    low, high = float(PRIOR_POWERS[0]), float(PRIOR_POWERS[-1])
    finite = curves.ece[np.isfinite(curves.ece)]
    top = max(1.05, min(2.0, 1.05 * float(finite.max(initial=0.0))))
    ticks = [(-2.0, "1 to 100"), (-1.0, "1 to 10"), (0.0, "1 to 1")]
    ticks += [(1.0, "10 to 1"), (2.0, "100 to 1")]
    lines = [Line(x=PRIOR_POWERS, y=curves.ece_nothing)]
    if np.isfinite(curves.ece).all():
        lines.append(Line(x=PRIOR_POWERS, y=curves.ece, series="series-1"))
    lines.append(Line(x=PRIOR_POWERS, y=curves.ece_pav, series="series-3", style=DASHED))
    chart = Chart(
        title="ECE",
        caption="",
        x=Axis(label="odds before the recordings are heard", low=low, high=high, ticks=ticks),
        y=Axis(label="uncertainty left, bits", low=0.0, high=top, ticks=even_ticks(0.0, top)),
        lines=lines,
        rules=[Rule(axis="x", at=0.0)],
    )
    reading = (
        "How much uncertainty is left once the likelihood ratio is known, for any odds that one "
        "held before; the lower the better. Where the solid line is above the grey one, the "
        "likelihood ratios do harm: one would know more without them. The distance of the solid "
        "from the dashed line is lost because their sizes are not the best."
    )
    keys = (
        ("series-1", "", "with the likelihood ratios as they are"),
        ("series-3", "dash", "with the best sizes that the same order allows"),
        ("faint", "", "without any likelihood ratio"),
    )
    return _drawn("What is still unknown afterwards (ECE plot)", chart, keys, reading)


def _pav(evidence: Evidence) -> Figure:
    curves = evidence.curves
    low, high = float(curves.grid[0]), float(curves.grid[-1])
    ticks = power_ticks(low, high)
    lines = [Line(x=[low, high], y=[low, high], style=DASHED)]
    if curves.pav_given.size > 1:
        lines.append(Line(x=curves.pav_given, y=curves.pav_supported, series="series-1"))
    chart = Chart(
        title="PAV",
        caption="",
        x=Axis(label="likelihood ratio given", low=low, high=high, ticks=ticks),
        y=Axis(label="likelihood ratio seen", low=low, high=high, ticks=ticks),
        lines=lines,
        rules=[],
        square=True,
    )
    reading = (
        "Across: the likelihood ratio that the system gave. Up: how many times more often pairs of "
        "one person than pairs of two people had about that value. On the dashed line the system "
        "means what it says; where the line runs below it, the likelihood ratios are too high, "
        "above it too low. Where only one kind of pair was seen there is no line."
    )
    keys = (("series-1", "", "this test"), ("faint", "dash", "means what it says"))
    return _drawn("Do the likelihood ratios mean what they say? (PAV plot)", chart, keys, reading)


def _drawn(
    title: str, chart: Chart, keys: tuple[tuple[str, str, str], ...], reading: str
) -> Figure:
    return Figure(title, svg_of(chart, f"{title}. {reading}"), keys, reading)
