"""What the page tells of the models: a few facts, the duration stage, the rest folded away."""

import numpy as np

from dcaplda.eval.page.rows import Record
from dcaplda.eval.report.chart import Axis, Chart, Line, even_ticks
from dcaplda.eval.report.duration_stage import DurationStage
from dcaplda.eval.report.findings import Findings

ENROLMENTS = (2.0, 8.0, 32.0, 128.0)
"""Seconds of enrolment that have a line of their own."""
STAGE_CAPTION = (
    "What the duration stage does to the raw score, over the seconds of speech of the test side "
    "(paper, eq. 21 and 22); a line for each length of the enrolment."
)


def model_records(findings: Findings) -> list[Record]:
    """One for every system whose bundle is known."""
    records = []
    for name in findings.systems:
        card = findings.cards.get(name)
        if card is not None:
            lines, charts = stage_charts(card.stage) if card.stage else ([], [])
            records.append(
                {
                    "system": name,
                    "facts": card.facts,
                    "rows": card.rows,
                    "legend": lines,
                    "charts": [chart.record() for chart in charts],
                }
            )
    return records


def stage_charts(stage: DurationStage) -> tuple[list[str], list[Chart]]:
    """Names of the lines, and the charts of scale and shift over the seconds of the test."""
    seconds = stage.seconds
    logs = np.log(seconds)
    ends = float(logs[0]), float(logs[-1])
    ticks = [
        (float(np.log(t)), f"{t}")
        for t in (1, 2, 4, 8, 16, 32, 64, 128, 256)
        if ends[0] - 1e-9 <= np.log(t) <= ends[1] + 1e-9
    ]
    places = sorted({int(np.argmin(np.abs(logs - np.log(e)))) for e in ENROLMENTS})
    charts = []
    for title, surface in (("scale alpha_d", stage.alpha), ("shift beta_d", stage.beta)):
        low, high = float(surface.min()), float(surface.max())
        margin = 0.05 * (high - low) or 0.5
        span = low - margin, high + margin
        charts.append(
            Chart(
                title=f"Calibration by duration: {title}",
                caption=STAGE_CAPTION,
                x=Axis(label="seconds of the test side", low=ends[0], high=ends[1], ticks=ticks),
                y=Axis(label=title, low=span[0], high=span[1], ticks=even_ticks(*span)),
                lines=[
                    Line(x=logs, y=surface[place], series=number)
                    for number, place in enumerate(places)
                ],
            )
        )
    return [f"enrolment of {seconds[place]:.0f} s" for place in places], charts
