"""curves.png: actual and minimum loss of each group over the steps, as in the paper's figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcaplda.runtime.files import replacing
from dcaplda.train.steps.log import read_log

CURVES = "curves.png"
Curve = tuple[list[int], list[float]]


def group_curves(
    rows: Sequence[Mapping[str, Any]], groups: Mapping[str, str]
) -> dict[str, dict[str, Curve]]:
    """Mean loss over the sets of each group; {group: {"actual"|"minimum": (steps, losses)}}.

    `groups` tells the group of each set.
    """
    curves: dict[str, dict[str, Curve]] = {}
    for group in sorted(set(groups.values())):
        names = [name for name, own in groups.items() if own == group]
        curves[group] = {}
        for kind in ("actual", "minimum"):
            chosen = [row for row in rows if kind in row]
            curves[group][kind] = (
                [int(row["total"]) for row in chosen],
                [float(np.mean([row[kind][name] for name in names])) for row in chosen],
            )
    return curves


def plot_curves(
    directory: Path, groups: Mapping[str, str], prior: float, best: int | None = None
) -> None:
    """Draw the curves of a run's log; `best` marks the step of the model chosen."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = list(read_log(directory))
    steps = [row["total"] for row in rows if "loss" in row]
    losses = [row["loss"] for row in rows if "loss" in row]
    # Not pyplot: that keeps global state and looks for a display.
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    if steps:
        axes.plot(*smoothed(steps, losses), color="0.75", lw=1, label="training batches")
    shown = list(losses)
    for number, (group, kinds) in enumerate(group_curves(rows, groups).items()):
        for kind, style in (("actual", "-"), ("minimum", "--")):
            axes.plot(*kinds[kind], style, color=f"C{number}", lw=1.2, label=f"{group}, {kind}")
            shown += kinds[kind][1]
    for stage in (2, 3):
        first = next((row["total"] for row in rows if row["stage"] == stage), None)
        if first is not None:
            axes.axvline(first, color="0.6", lw=0.8, ls=":")
            axes.annotate(f"stage {stage}", (first, 1), xycoords=("data", "axes fraction"))
    if best is not None:
        axes.axvline(best, color="k", lw=0.8)
    if shown:
        # A model that has lost its calibration would otherwise flatten all other curves.
        axes.set_ylim(0, min(max(shown), 3.0 * float(np.median(shown))) * 1.05)
    axes.set_xlabel("steps")
    axes.set_ylabel(f"Cllr at prior {prior:g}")
    if axes.has_data():
        axes.legend(fontsize=8)
    with replacing(directory / CURVES) as path:
        figure.savefig(path, format="png", dpi=120)


def smoothed(steps: list[int], losses: list[float], pieces: int = 300) -> Curve:
    """Means of equal runs of steps, so that the noise of batches does not hide the trend."""
    width = max(1, len(steps) // pieces)
    usable = len(steps) // width * width
    means = np.array(losses[:usable]).reshape(-1, width).mean(axis=1)
    return steps[width - 1 : usable : width], means.tolist()
