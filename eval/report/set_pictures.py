"""Pictures across sets and conditions: Cllr bars, duration heat maps, the duration stage."""

from typing import Any

import numpy as np

from dcaplda.eval.report.curve_pictures import new_figure
from dcaplda.eval.report.duration_stage import DurationStage
from dcaplda.eval.report.palette import Palette, hatch
from dcaplda.eval.results import Part, Result

BARS_PER_ROW = 24


def bars(results: list[Result], metric: str, minimum: str, label: str, palette: Palette) -> Any:
    """The paper's bars: actual as the bar, minimum as a black line, its height inside.

    One group of bars for each set, one colour for each system; rows of about BARS_PER_ROW.
    The axis is cut so that one bad system does not flatten all others.
    """
    sets = list(dict.fromkeys(result.set for result in results))
    systems = list(dict.fromkeys(result.system for result in results))
    by_place = {(result.set, result.system): result for result in results}
    per_row = max(1, BARS_PER_ROW // len(systems))
    rows = [sets[start : start + per_row] for start in range(0, len(sets), per_row)]
    widest = max(len(row) for row in rows) * len(systems)
    width = max(4.2 if len(systems) <= 4 else 6.0, 1.0 + (0.36 if widest < 12 else 0.27) * widest)
    figure = new_figure((width, 0.7 + 2.3 * len(rows)))
    panels = figure.subplots(len(rows), 1, squeeze=False)[:, 0]
    heights = [result.values[metric] for result in results]
    ends = [result.intervals[metric][1] for result in results if metric in result.intervals]
    top = _cut(heights, ends)
    for axes, row in zip(panels, rows, strict=True):
        for number, system in enumerate(systems):
            for place, name in enumerate(row):
                if (name, system) in by_place:
                    x = place + (number + 0.5) / len(systems) * 0.84 - 0.42
                    _bar(
                        axes,
                        by_place[name, system],
                        metric,
                        minimum,
                        (x, 0.84 / len(systems) * 0.9, top),
                        number,
                        palette,
                    )
        # Few bars stay slim: the axis is at least as long as for six of them.
        spare = max(0.0, 6.0 / len(systems) - len(row)) / 2.0
        axes.set(xticks=range(len(row)), ylim=(0, top))
        axes.set_xlim(-0.55 - spare, len(row) - 0.45 + spare)
        axes.set_xticklabels(
            row,
            rotation=18 if max(map(len, row)) > 10 else 0,
            ha="right" if max(map(len, row)) > 10 else "center",
        )
        axes.set_ylabel(label)
        axes.grid(visible=False, axis="x")
        if top > 1.0:
            axes.axhline(1.0, color=palette.faint, linewidth=0.9, linestyle=(0, (2, 2)))
    _system_legend(figure, width, systems, palette)
    return figure


def _cut(heights: list[float], ends: list[float]) -> float:
    """Upper end of the axis: all there is if it is alike, else a bit more than most need."""
    finite = sorted(height for height in heights if np.isfinite(height)) or [1.0]
    highest = max([finite[-1], *(end for end in ends if np.isfinite(end))])
    return 1.08 * min(highest, max(3.0 * finite[len(finite) // 2], 1.2)) or 1.0


def _bar(
    axes: Any,
    result: Result,
    metric: str,
    minimum: str,
    place: tuple[float, float, float],
    number: int,
    palette: Palette,
) -> None:
    """One bar at `place` (x, width, top of the axis) in the colour of series `number`."""
    x, width, top = place
    value, least = result.values[metric], result.values[minimum]
    height = min(value, top)
    axes.bar(x, height, width, zorder=2, **_fill(number, palette))
    if least < top:
        ends = [x - width / 2, x + width / 2], [least, least]
        axes.plot(*ends, color=palette.marker, linewidth=2.0, solid_capstyle="butt", zorder=4)
    highest = height
    if metric in result.intervals and np.isfinite(result.intervals[metric]).all():
        low, high = result.intervals[metric]
        highest = max(height, min(high, top))
        axes.plot([x, x], [low, highest], color=palette.ink, linewidth=0.9, zorder=5)
    if value > top:  # a bar that goes on beyond the axis says so
        mark = {"marker": "^", "markersize": 5, "clip_on": False, "zorder": 7}
        axes.plot([x], [top], color=palette.ink, **mark)
    start = None if hatch(number) else _label_start(height, least, top)
    inside = start is not None
    axes.annotate(
        "inf" if np.isinf(value) else f"{value:.2f}",
        (x, start if start is not None else highest),
        xytext=(0, 4 if inside else 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        rotation=90,
        fontsize=7,
        color=palette.on_series if inside else palette.ink,
        zorder=6,
    )


def _label_start(height: float, least: float, top: float) -> float | None:
    """Where a number fits into a bar: at the foot, or above the line; None: nowhere."""
    room = 0.22 * top
    if height > room and least > room:
        return 0.0
    return least if height - least > room else None


def _fill(number: int, palette: Palette) -> dict[str, Any]:
    fill = {"facecolor": palette.of(number), "edgecolor": palette.on_series, "linewidth": 0.0}
    return {**fill, "hatch": hatch(number)} if hatch(number) else fill


def _system_legend(figure: Any, width: float, systems: list[str], palette: Palette) -> None:
    """A legend above all panels, in as many columns as the names leave room for."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(**_fill(number, palette), label=name) for number, name in enumerate(systems)
    ]
    handles.append(Line2D([], [], color=palette.marker, linewidth=2.0, label="minimum"))
    entry = 0.6 + 0.075 * max(len(name) for name in [*systems, "minimum"])
    columns = max(1, min(len(handles), int(width / entry)))
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, frameon=False)


def heat_map(parts: list[Part], metric: str, label: str, scale: str, palette: Palette) -> Any:
    """A metric of every pair of duration bins: enrolment upwards, test to the right.

    The colours end at the 95th percentile of the metric `scale`, so that two maps of one
    system can be compared. Below each value stands the number of its target trials.
    """
    bins = _bins_in_order(parts)
    side = max(2.4, 0.6 * len(bins))
    figure = new_figure((side + 1.55, side + 0.55))  # the rest is for labels and the colour bar
    axes = figure.subplots()
    ends = [part.values[scale] for part in parts if part.values is not None]
    finite = [end for end in ends if np.isfinite(end)]
    high = max(float(np.quantile(finite, 0.95)), 1e-9) if finite else 1.0
    table = np.full((len(bins), len(bins)), np.nan)
    for part in parts:
        row, column = bins.index(part.enroll), bins.index(part.test)
        if part.values is not None:
            table[row, column] = min(part.values[metric], 10 * high)
            _cell(axes, part, part.values[metric], row, column, high)
    axes.grid(visible=False)
    image = axes.imshow(table, origin="lower", cmap="cividis", vmin=0.0, vmax=high)
    axes.set(xticks=range(len(bins)), yticks=range(len(bins)), xlabel="test", ylabel="enrolment")
    axes.set_xticklabels(bins)
    axes.set_yticklabels(bins)
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label=label)
    bar.outline.set_visible(False)
    return figure


def _cell(axes: Any, part: Part, value: float, row: int, column: int, high: float) -> None:
    # cividis is dark below and light above: numbers in the colour that can be read on it.
    colour = "#ffffff" if value < 0.55 * high else "#101010"
    shown = "inf" if np.isinf(value) else f"{value:.2f}"
    axes.text(column, row + 0.1, shown, ha="center", va="center", color=colour, fontsize=8)
    count = f"{part.n_target:,}"
    axes.text(column, row - 0.24, count, ha="center", va="center", color=colour, fontsize=5.5)


def _bins_in_order(parts: list[Part]) -> list[str]:
    """Bin names by their lower edge: `<4 s`, `4-8 s`, `32+ s`."""
    names = {part.enroll for part in parts} | {part.test for part in parts}

    def edge(name: str) -> float:
        number = name.removesuffix(" s").rstrip("+").split("-")[0]
        return 0.0 if number.startswith("<") else float(number)

    return sorted(names, key=edge)


def duration_stage(stage: DurationStage, palette: Palette) -> Any:
    """alpha_d and beta_d over the two durations (the paper's duration figure)."""
    from matplotlib.patheffects import withStroke

    seconds = stage.seconds
    figure = new_figure((7.4, 3.0))
    panels = figure.subplots(1, 2)
    low, high = float(np.log(seconds[0])), float(np.log(seconds[-1]))
    for axes, surface, name in zip(
        panels, (stage.alpha, stage.beta), ("alpha_d", "beta_d"), strict=True
    ):
        image = axes.imshow(
            surface,
            origin="lower",
            extent=(low, high, low, high),
            cmap="cividis",
            aspect="equal",
            interpolation="bilinear",
        )
        if float(np.ptp(surface)) > 1e-9:
            logs = np.log(seconds)
            lines = axes.contour(logs, logs, surface, 7, colors="#ffffff", linewidths=0.7)
            # A dark rim keeps white lines and numbers readable on yellow.
            rim = [withStroke(linewidth=1.8, foreground="#00000080")]
            lines.set_path_effects(rim)
            for text in axes.clabel(lines, fontsize=6.5, fmt="%.3g"):
                text.set_path_effects(rim)
        ticks = [tick for tick in (1, 2, 4, 8, 16, 32, 64, 128, 256) if low <= np.log(tick) <= high]
        axes.set(xticks=np.log(ticks), yticks=np.log(ticks))
        axes.set_xticklabels([str(tick) for tick in ticks])
        axes.set_yticklabels([str(tick) for tick in ticks])
        axes.set(xlabel="test, seconds", ylabel="enrolment, seconds")
        axes.set_title(name, loc="left")
        axes.grid(visible=False)
        bar = figure.colorbar(image, ax=axes, shrink=0.85)
        bar.outline.set_visible(False)
    return figure
