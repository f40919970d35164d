"""Pictures of one set: DET, Tippett, PAV, Bayes error over the prior, histograms."""

from typing import Any

import numpy as np

from dcaplda.eval.metrics.curves import PRIOR_LOG_ODDS, Curves
from dcaplda.eval.report.palette import Palette, line_style

SQUARE = (4.2, 3.9)
WIDE = (4.2, 3.3)
DET_TICKS = (0.0001, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6)
DET_TOP = 0.6
Systems = dict[str, Curves]


def new_figure(size: tuple[float, float]) -> Any:
    """A figure of its own, without pyplot's global state."""
    from matplotlib.figure import Figure

    return Figure(figsize=size)


def outside_legend(figure: Any, handles: list[Any]) -> None:
    """A legend above the chart, where no curve is."""
    longest = max(len(handle.get_label()) for handle in handles)
    columns = max(1, min(4, len(handles), int(48 / (longest + 6))))
    figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)


def percent(rate: float) -> str:
    """A rate as a tick label."""
    return f"{100 * rate:g}"


def det(systems: Systems, palette: Palette) -> Any:
    """Miss rate against false alarm rate on normal-deviate axes: Gaussian scores are straight."""
    from scipy.special import ndtri

    figure = new_figure(SQUARE)
    axes = figure.subplots()
    low, high = det_range(systems)
    for number, (name, curves) in enumerate(systems.items()):
        colour = palette.of(number)
        axes.plot(
            ndtri(curves.det_false_alarm.clip(low / 10, 1 - 1e-9)),
            ndtri(curves.det_miss.clip(low / 10, 1 - 1e-9)),
            color=colour,
            linestyle=line_style(number),
            label=name,
        )
        for point in curves.points:
            for (miss, false_alarm), face in ((point.actual, colour), (point.best, "none")):
                spot = [ndtri(np.clip(rate, low, high)) for rate in (false_alarm, miss)]
                axes.plot(*spot, "o", markersize=5, color=colour, markerfacecolor=face)
    ticks = [tick for tick in DET_TICKS if low <= tick <= high]
    ends = ndtri(low), ndtri(high)
    axes.plot(ends, ends, color=palette.faint, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.set(
        xlim=ends,
        ylim=ends,
        xticks=ndtri(ticks),
        yticks=ndtri(ticks),
        xticklabels=[percent(tick) for tick in ticks],
        yticklabels=[percent(tick) for tick in ticks],
        xlabel="false alarm rate, %",
        ylabel="miss rate, %",
        aspect="equal",
    )
    axes.legend(loc="upper right")
    return figure


def det_range(systems: Systems) -> tuple[float, float]:
    """From the tick below where the curves leave the chart, at most 1 percent, to DET_TOP."""
    smallest = 0.01
    for curves in systems.values():
        rates = curves.det_miss, curves.det_false_alarm
        for mine, other in (rates, rates[::-1]):
            inside = mine[(other <= DET_TOP) & (mine > 0)]
            if inside.size:
                smallest = min(smallest, float(inside.min()))
    floors = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2)
    return 0.9 * max([floor for floor in floors if floor <= smallest] or [floors[0]]), DET_TOP


def tippett(systems: Systems, palette: Palette) -> Any:
    """Share of trials with an LLR above each value: targets solid, nontargets dashed."""
    from matplotlib.lines import Line2D

    figure = new_figure(WIDE)
    axes = figure.subplots()
    for number, curves in enumerate(systems.values()):
        colour = palette.of(number)
        axes.plot(curves.grid, 100 * curves.target_above, color=colour)
        axes.plot(curves.grid, 100 * curves.nontarget_above, color=colour, linestyle=(0, (4, 2)))
    axes.axvline(0.0, color=palette.faint, linewidth=0.8)
    axes.set(xlabel="LLR", ylabel="trials with a larger LLR, %", ylim=(0, 100))
    axes.set_xlim(*common_range(systems))
    handles = [Line2D([], [], color=palette.of(n), label=name) for n, name in enumerate(systems)]
    handles += [
        Line2D([], [], color=palette.ink, label="target"),
        Line2D([], [], color=palette.ink, linestyle=(0, (4, 2)), label="nontarget"),
    ]
    outside_legend(figure, handles)
    return figure


def common_range(systems: Systems) -> tuple[float, float]:
    """From the lowest to the highest LLR that a chart of all systems shows."""
    low = min(float(curves.grid[0]) for curves in systems.values())
    high = max(float(curves.grid[-1]) for curves in systems.values())
    return low, high


def pav(systems: Systems, palette: Palette) -> Any:
    """LLR that the data support (PAV) against the LLR that the system gave."""
    figure = new_figure(SQUARE)
    axes = figure.subplots()
    low, high = common_range(systems)
    low, high = max(low, -12.0), min(high, 12.0)
    diagonal = {"color": palette.faint, "linewidth": 1.0, "linestyle": (0, (2, 2))}
    axes.plot([low, high], [low, high], label="calibrated", **diagonal)
    for number, (name, curves) in enumerate(systems.items()):
        axes.plot(
            curves.pav_scores,
            curves.pav_llrs,
            color=palette.of(number),
            linestyle=line_style(number),
            label=name,
        )
    axes.set(xlabel="LLR of the system", ylabel="LLR after PAV", xlim=(low, high), ylim=(low, high))
    axes.set_aspect("equal")
    axes.legend(loc="upper left")
    return figure


def bayes_error(systems: Systems, palette: Palette) -> Any:
    """Normalized Bayes error over the prior: solid as used, dashed at the best threshold."""
    from matplotlib.lines import Line2D

    figure = new_figure(WIDE)
    axes = figure.subplots()
    top = 1.15
    for number, curves in enumerate(systems.values()):
        colour = palette.of(number)
        axes.plot(PRIOR_LOG_ODDS, curves.actual_error, color=colour)
        axes.plot(PRIOR_LOG_ODDS, curves.minimum_error, color=colour, linestyle=(0, (4, 2)))
        top = max(top, min(2.0, 1.1 * float(np.quantile(curves.actual_error, 0.9))))
    axes.axhline(1.0, color=palette.faint, linewidth=1.0)
    points = next(iter(systems.values())).points
    for point in points:
        odds = float(np.log(point.prior / (1.0 - point.prior)))
        axes.axvline(odds, color=palette.faint, linewidth=0.8, linestyle=(0, (2, 2)))
        # Above the chart, where no curve is.
        axes.annotate(
            f"prior {point.prior:g}",
            (odds, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=7,
            color=palette.faint,
        )
    axes.set(
        xlabel="log odds of the prior", ylabel="Bayes error (1: without scores)", ylim=(0, top)
    )
    axes.set_xlim(PRIOR_LOG_ODDS[0], PRIOR_LOG_ODDS[-1])
    handles = [Line2D([], [], color=palette.of(n), label=name) for n, name in enumerate(systems)]
    handles += [
        Line2D([], [], color=palette.ink, label="actual"),
        Line2D([], [], color=palette.ink, linestyle=(0, (4, 2)), label="minimum"),
    ]
    outside_legend(figure, handles)
    return figure


def histograms(systems: Systems, palette: Palette) -> Any:
    """Densities of both classes, a panel for each system, with the Bayes thresholds."""
    figure = new_figure((WIDE[0], 0.9 + 1.9 * len(systems)))
    panels = figure.subplots(len(systems), 1, squeeze=False, sharex=True)[:, 0]
    low, high = common_range(systems)
    for axes, (name, curves) in zip(panels, systems.items(), strict=True):
        for density, colour, label, hatch in (
            (curves.nontarget_density, palette.nontarget, "nontarget", None),
            (curves.target_density, palette.target, "target", "////"),
        ):
            axes.stairs(density, curves.bin_edges, color=colour, linewidth=1.4, label=label)
            axes.stairs(density, curves.bin_edges, fill=True, color=colour, alpha=0.22)
            if hatch:
                axes.stairs(
                    density,
                    curves.bin_edges,
                    fill=True,
                    facecolor="none",
                    edgecolor=colour,
                    hatch=hatch,
                    linewidth=0,
                    alpha=0.35,
                )
        inside = [point for point in curves.points if low < point.threshold < high]
        for point in inside:
            axes.axvline(point.threshold, color=palette.ink, linewidth=0.9, linestyle=(0, (2, 2)))
            # Above the chart; the lowest threshold is named on its left, others on their right.
            lowest = len(inside) > 1 and point.threshold == min(p.threshold for p in inside)
            axes.annotate(
                f"prior {point.prior:g}",
                (point.threshold, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(2 if lowest else -2, 2),
                textcoords="offset points",
                ha="right" if lowest else "left",
                va="bottom",
                fontsize=7,
                color=palette.faint,
            )
        axes.set(ylabel="density", ylim=(0, None))
        axes.set_title(name, loc="left")
    panels[0].legend(loc="upper left")
    panels[-1].set_xlabel("LLR, with the Bayes thresholds")
    panels[-1].set_xlim(low, high)
    return figure
