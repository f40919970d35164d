"""The curves of one set with all systems, as charts that the page draws when a reader asks."""

import numpy as np

from dcaplda.eval.metrics.curves import PRIOR_LOG_ODDS, Curves
from dcaplda.eval.report.chart import DASHED, Axis, Chart, Line, Mark, Rule, even_ticks
from dcaplda.eval.report.curve_pictures import (
    DET_TICKS,
    Systems,
    common_range,
    det_range,
    percent,
)
from dcaplda.runtime.decision import log_odds

PAV_END = 12.0
"""Beyond so large an LLR the PAV plot shows nothing: few trials are there."""
MOST_ERROR = 2.0
WORDS = {
    "det": (
        "Errors at every threshold (DET)",
        "Misses against false alarms on normal-deviate axes. Filled circle: the Bayes threshold of "
        "a prior; open circle: the best threshold. Grey: equal errors.",
    ),
    "bayes-error": (
        "Cost over the prior",
        "Cost of decisions, 1 being that of deciding without the scores. Solid: at the Bayes "
        "threshold; dashed: at the best one. The gap is what is lost.",
    ),
    "pav": (
        "Calibration (PAV)",
        "Across: the LLR that the system gave. Up: the LLR that these trials support. On the grey "
        "line the system is calibrated; below it the LLR is too large, above it too small.",
    ),
    "tippett": (
        "Tippett",
        "Share of trials whose LLR is larger than the value below. Solid: targets; dashed: "
        "nontargets. Good curves are far apart and cross 0 near the edges.",
    ),
    "histograms": (
        "Scores of both kinds of trials",
        "Blue: targets; orange: nontargets. Thin lines: the Bayes thresholds of the priors.",
    ),
}
"""Title and caption by kind; the page has them once."""


def curve_charts(systems: Systems) -> dict[str, Chart]:
    """Charts by kind."""
    return {
        "det": det(systems),
        "bayes-error": bayes_error(systems),
        "pav": pav(systems),
        "tippett": tippett(systems),
    }


def det(systems: Systems) -> Chart:
    """Miss rate against false alarm rate on normal-deviate axes: Gaussian scores are straight."""
    from scipy.special import ndtri

    low, high = det_range(systems)
    ticks = [(float(ndtri(tick)), percent(tick)) for tick in DET_TICKS if low <= tick <= high]
    ends = float(ndtri(low)), float(ndtri(high))
    lines = [Line(x=ends, y=ends, style=DASHED)]
    marks = []
    for number, curves in enumerate(systems.values()):
        rates = curves.det_false_alarm, curves.det_miss
        # No error at all is infinitely far: the line goes to a tenth of the lowest tick.
        across, down = (ndtri(rate.clip(low / 10, 1 - 1e-9)) for rate in rates)
        lines.append(Line(x=across, y=down, series=number))
        for point in curves.points:
            for (miss, false_alarm), filled in ((point.actual, True), (point.best, False)):
                place = [float(ndtri(np.clip(rate, low, high))) for rate in (false_alarm, miss)]
                marks.append(Mark(x=place[0], y=place[1], series=number, filled=filled))
    return Chart(
        title=WORDS["det"][0],
        caption=WORDS["det"][1],
        x=Axis(label="false alarm rate, %", low=ends[0], high=ends[1], ticks=ticks),
        y=Axis(label="miss rate, %", low=ends[0], high=ends[1], ticks=ticks),
        lines=lines,
        marks=marks,
        square=True,
    )


def bayes_error(systems: Systems) -> Chart:
    """Normalized Bayes error over the prior: solid as used, dashed at the best threshold."""
    odds = PRIOR_LOG_ODDS
    top, lines = 1.15, []
    for number, curves in enumerate(systems.values()):
        lines.append(Line(x=odds, y=curves.actual_error, series=number))
        lines.append(Line(x=odds, y=curves.minimum_error, series=number, style=DASHED))
        top = max(top, min(MOST_ERROR, 1.1 * float(np.quantile(curves.actual_error, 0.9))))
    ends = float(odds[0]), float(odds[-1])
    points = next(iter(systems.values())).points
    rules = [Rule(axis="y", at=1.0)]
    rules += [Rule(axis="x", at=log_odds(p.prior), text=f"prior {p.prior:g}") for p in points]
    return Chart(
        title=WORDS["bayes-error"][0],
        caption=WORDS["bayes-error"][1],
        x=Axis(label="log odds of the prior", low=ends[0], high=ends[1], ticks=even_ticks(*ends)),
        y=Axis(label="normalized Bayes error", low=0.0, high=top, ticks=even_ticks(0.0, top)),
        lines=lines,
        rules=rules,
    )


def pav(systems: Systems) -> Chart:
    """LLR that the data support (PAV) against the LLR that the system gave."""
    low, high = common_range(systems)
    low, high = max(low, -PAV_END), min(high, PAV_END)
    ticks = even_ticks(low, high)
    lines = [Line(x=[low, high], y=[low, high], style=DASHED)]
    lines += [
        Line(x=curves.pav_scores, y=curves.pav_llrs, series=number)
        for number, curves in enumerate(systems.values())
        if curves.pav_scores.size > 1
    ]
    return Chart(
        title=WORDS["pav"][0],
        caption=WORDS["pav"][1],
        x=Axis(label="LLR of the system", low=low, high=high, ticks=ticks),
        y=Axis(label="LLR that the trials support", low=low, high=high, ticks=ticks),
        lines=lines,
        square=True,
    )


def tippett(systems: Systems) -> Chart:
    """Share of trials with an LLR above each value: targets solid, nontargets dashed."""
    lines = []
    for number, curves in enumerate(systems.values()):
        lines.append(Line(x=curves.grid, y=100 * curves.target_above, series=number))
        lines.append(
            Line(x=curves.grid, y=100 * curves.nontarget_above, series=number, style=DASHED)
        )
    low, high = common_range(systems)
    return Chart(
        title=WORDS["tippett"][0],
        caption=WORDS["tippett"][1],
        x=Axis(label="LLR", low=low, high=high, ticks=even_ticks(low, high)),
        y=Axis(label="trials above, %", low=0.0, high=100.0, ticks=even_ticks(0.0, 100.0)),
        lines=lines,
        rules=[Rule(axis="x", at=0.0)],
    )


def histogram(name: str, curves: Curves, ends: tuple[float, float]) -> Chart:
    """Densities of both classes of one system, with its Bayes thresholds."""
    top = 1.05 * max(float(curves.target_density.max()), float(curves.nontarget_density.max()))
    x = np.repeat(curves.bin_edges, 2)
    lines = []
    for series, density in (
        ("nontarget", curves.nontarget_density),
        ("target", curves.target_density),
    ):
        y = np.concatenate([[0.0], np.repeat(density, 2), [0.0]])
        lines.append(Line(x=x, y=y, series=series, filled=True))
    rules = [
        Rule(axis="x", at=point.threshold, text=f"prior {point.prior:g}")
        for point in curves.points
        if ends[0] < point.threshold < ends[1]
    ]
    return Chart(
        title=name,
        caption=WORDS["histograms"][1],
        x=Axis(label="LLR", low=ends[0], high=ends[1], ticks=even_ticks(*ends)),
        y=Axis(label="density", low=0.0, high=top or 1.0),
        lines=lines,
        rules=rules,
        low=True,
    )
