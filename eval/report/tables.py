"""Results as text for reading, as JSON and as CSV for programs."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from dcaplda.eval.comparison import kept_draws
from dcaplda.eval.differences import Difference
from dcaplda.eval.metrics.measure import PER_PRIOR, Settings, prior_name
from dcaplda.eval.results import Interval, Part, Result

HEADINGS = {
    "eer": "EER %",
    "auc": "AUC",
    "cllr": "Cllr",
    "min_cllr_lin": "min lin",
    "min_cllr_pav": "min PAV",
    "calibration_loss": "loss %",
    "dcf": "DCF",
    "min_dcf": "min DCF",
}


def show(name: str, value: float) -> str:
    """A metric as the tables print it: four decimals, EER and losses in percent."""
    if math.isinf(value):
        return "inf"
    if name == "eer":
        return f"{value:.2f}"
    if name.startswith("calibration_loss"):
        return f"{100.0 * value:.1f}"
    return f"{value:.4f}" if value < 1e5 else f"{value:.3g}"


Blocks = list[list[str]]
"""The cells of a row, in blocks: names and counts, then the metrics of each prior."""


def _aligned(titles: list[str], rows: list[Blocks], left: int) -> str:
    """Lines with every column as wide as its widest cell; the first `left` flush left."""
    widths = [
        [max(len(row[b][c]) for row in rows) for c in range(len(rows[0][b]))]
        for b in range(len(titles))
    ]
    spans = [sum(block) + 2 * (len(block) - 1) for block in widths]
    lines = [" | ".join(t.center(span) for t, span in zip(titles, spans, strict=True))]
    for row in rows:
        blocks = []
        for number, (cells, block) in enumerate(zip(row, widths, strict=True)):
            words = [
                cell.ljust(width) if number == 0 and place < left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(cells, block, strict=True))
            ]
            blocks.append("  ".join(words))
        lines.append(" | ".join(blocks))
    return "".join(line.rstrip() + "\n" for line in lines)


def _titles(settings: Settings) -> list[str]:
    return ["", *(f"prior {prior_name(prior)}" for prior in settings.priors)]


def _head(first: list[str], settings: Settings) -> Blocks:
    names = [HEADINGS[name] for name in PER_PRIOR]
    return [[*first, HEADINGS["eer"], HEADINGS["auc"]], *([names] * len(settings.priors))]


def _row(first: list[str], values: dict[str, float] | None, settings: Settings) -> Blocks:
    cells = _cells(values, settings)
    size = len(PER_PRIOR)
    blocks = [cells[start : start + size] for start in range(2, len(cells), size)]
    return [[*first, *cells[:2]], *blocks]


def _cells(values: dict[str, float] | None, settings: Settings) -> list[str]:
    if values is None:
        return ["-" for _ in settings.names]
    return [show(name, values[name]) for name in settings.names]


def text_table(results: list[Result], settings: Settings, confidence: float = 0.95) -> str:
    """The table on the terminal; intervals stand below their values."""
    rows = [_head(["system", "set", "target", "nontarget"], settings)]
    for result in results:
        n_sets = len(result.average_of)
        name = f"{result.set} (mean of {n_sets})" if n_sets else result.set
        counts = [str(result.n_target), str(result.n_nontarget)]
        rows.append(_row([result.system, name, *counts], result.values, settings))
        if result.intervals:
            for side, word in ((0, "from"), (1, "to")):
                ends = {metric: span[side] for metric, span in result.intervals.items()}
                rows.append(_row(["", f"{100 * confidence:g} % {word}", "", ""], ends, settings))
    return _aligned(_titles(settings), rows, 2)


def difference_table(found: list[Difference], settings: Settings) -> str:
    """Cllr of each system minus the baseline's, with its interval; a star where 0 is outside."""
    names = [f"cllr_{prior_name(prior)}" for prior in settings.priors]
    rows: list[Blocks] = [[["system", "set"], *([["difference", "from", "to", ""]] * len(names))]]
    for difference in found:
        blocks = [[difference.system, difference.set]]
        for name in names:
            span = difference.intervals.get(name)
            ends = [f"{end:+.4f}" for end in span] if span else ["-", "-"]
            clear = span is not None and (span[0] > 0.0 or span[1] < 0.0)
            blocks.append([f"{difference.values[name]:+.4f}", *ends, "*" if clear else ""])
        rows.append(blocks)
    titles = ["", *(f"Cllr at {prior_name(prior)}" for prior in settings.priors)]
    return _aligned(titles, rows, 2)


def condition_table(result: Result, settings: Settings) -> str:
    """The conditions of one result, a line each."""
    rows = [_head(["enroll", "test", "target", "nontarget"], settings)]
    for part in result.parts:
        counts = [str(part.n_target), str(part.n_nontarget)]
        rows.append(_row([part.enroll, part.test, *counts], part.values, settings))
    return _aligned(_titles(settings), rows, 2)


def _finite(value: float) -> float | None:
    """JSON has no infinity; null stands for it."""
    return value if math.isfinite(value) else None


def _values_record(values: dict[str, float] | None, names: list[str]) -> dict[str, Any]:
    return {name: None if values is None else _finite(values[name]) for name in names}


def _intervals_record(spans: dict[str, Interval]) -> dict[str, list[float | None]]:
    return {name: [_finite(end) for end in span] for name, span in spans.items()}


def _part_record(part: Part, names: list[str]) -> dict[str, Any]:
    return {
        "condition": part.kind,
        "enroll": part.enroll,
        "test": part.test,
        "n_target": part.n_target,
        "n_nontarget": part.n_nontarget,
        **_values_record(part.values, names),
    }


def record(result: Result, settings: Settings) -> dict[str, Any]:
    """One object of the JSON list. EER is in percent; an infinite metric is null."""
    found: dict[str, Any] = {
        "system": result.system,
        "set": result.set,
        "group": result.group or None,
        "n_target": result.n_target,
        "n_nontarget": result.n_nontarget,
        **_values_record(result.values, settings.names),
    }
    if result.intervals:
        found["intervals"] = _intervals_record(result.intervals)
    if result.average_of:
        found["average_of"] = list(result.average_of)
        return found
    counts = result.counts
    found |= {
        "n_unlabelled": counts.unlabelled,
        "n_duplicate": counts.duplicate,
        "n_missing": counts.missing,
        "n_extra": counts.extra,
    }
    found["affine"] = {prior_name(p): list(pair) for p, pair in result.affine.items()}
    if result.parts:
        found["conditions"] = [_part_record(part, settings.names) for part in result.parts]
    return found


def json_text(
    results: list[Result],
    settings: Settings,
    found: Sequence[Difference] = (),
    changes: Sequence[Difference] = (),
    with_draws: bool = False,
) -> str:
    """A list of objects, one for each system and set and each average.

    `found` are differences from a baseline, `changes` those from an earlier evaluation;
    `with_draws` keeps what a later evaluation can be compared with.
    """
    told = [
        (key, base, {(d.system, d.set, d.average): d for d in differences})
        for key, base, differences in (
            ("difference", "baseline", found),
            ("change", "against", changes),
        )
    ]
    records = []
    for result in results:
        records.append(record(result, settings))
        for key, base, by_place in told:
            difference = by_place.get((result.system, result.set, bool(result.average_of)))
            if difference is not None:
                records[-1][key] = {
                    base: difference.baseline,
                    **_values_record(difference.values, list(difference.values)),
                    "intervals": _intervals_record(difference.intervals),
                }
        if with_draws:
            records[-1] |= kept_draws(result)
    return json.dumps(records, indent=2) + "\n"


def csv_text(results: list[Result], settings: Settings) -> str:
    """One row for each result and each of its conditions, full precision."""
    names = settings.names
    with_intervals = any(result.intervals for result in results)
    head = ["system", "set", "group", "condition", "enroll", "test", "n_target", "n_nontarget"]
    ends = [f"{name}_{end}" for name in names for end in ("low", "high")]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head + names + (ends if with_intervals else []))
    number: Callable[[float | None], str] = lambda x: "" if x is None else repr(float(x))  # noqa: E731
    for result in results:
        kind = "average" if result.average_of else "all"
        row = [result.system, result.set, result.group, kind, "", ""]
        row += [str(result.n_target), str(result.n_nontarget)]
        row += [number(result.values[name]) for name in names]
        if with_intervals:
            spans = result.intervals
            row += [
                number(spans[name][side] if spans else None) for name in names for side in (0, 1)
            ]
        writer.writerow(row)
        for part in result.parts:
            cells = [result.system, result.set, result.group, part.kind, part.enroll, part.test]
            cells += [str(part.n_target), str(part.n_nontarget)]
            cells += [number(part.values[name] if part.values else None) for name in names]
            writer.writerow(cells + ([""] * len(ends) if with_intervals else []))
    return stream.getvalue()
