"""The page as one HTML file: everything inside, no link outside, light and dark, on paper too.

What a reader sees first, the heat table and the words, is plain HTML. Numbers and curves behind
it are one JSON record, which the page's script draws where a reader asks for it.
"""

from pathlib import Path
from typing import Any

from dcaplda.eval.differences import Difference, differences
from dcaplda.eval.metrics.measure import prior_name
from dcaplda.eval.page.curve_charts import WORDS
from dcaplda.eval.page.models import model_records
from dcaplda.eval.page.rows import (
    Record,
    Row,
    cell_record,
    first_cells,
    mean_rows,
    scale_end,
    set_rows,
)
from dcaplda.eval.page.set_details import details
from dcaplda.eval.report.findings import Findings
from dcaplda.eval.report.palette import SERIES
from dcaplda.eval.report.templates import HERE as REPORT
from dcaplda.eval.report.templates import fill, script_data, script_hash, write_page
from dcaplda.eval.verdict.costs import Limits
from dcaplda.eval.verdict.one_set import Judge
from dcaplda.eval.verdict.systems import answer, over_all_sets, system_verdict

HERE = Path(__file__).parent
OPEN_SETS = 3
"""Up to so many sets are open from the start."""


def write_scores_page(path: str, findings: Findings, limits: Limits, title: str) -> None:
    """Write the page whole or not at all."""
    write_page(path, render(findings, limits, title))


def render(findings: Findings, limits: Limits, title: str) -> str:
    """The page as text."""
    work = findings.work
    judge = Judge(work.settings, limits, work.confidence)
    means, sets = mean_rows(findings), set_rows(findings)
    script = "\n".join(
        (folder / name).read_text(encoding="utf-8")
        for folder, name in ((REPORT, "charts.js"), (HERE, "scores.js"))
    )
    return fill(
        "scores.html.j2",
        HERE,
        title=title,
        systems=_systems(findings, judge),
        sets=sets,
        n_trials=f"{sum(row.results[0].n_target + row.results[0].n_nontarget for row in sets):,}",
        answer=answer(findings.results, judge, findings.references),
        blocks=_blocks(means, sets, judge),
        judge=judge,
        scale_end=scale_end(judge),
        findings=findings,
        has_intervals=any(result.intervals for result in findings.results),
        has_conditions=any(result.parts for result in findings.results),
        models=model_records(findings),
        data=script_data(_data(findings, means + sets, judge)),
        script=script,
        script_hash=script_hash(script),
        prior_names=[prior_name(prior) for prior in work.settings.priors],
    )


def _systems(findings: Findings, judge: Judge) -> list[Record]:
    """Every system with its verdict."""
    return [
        {
            "name": name,
            "series": number % len(SERIES) + 1,
            "width": _column_width(name),
            "verdict": system_verdict(name, findings.results, judge),
        }
        for number, name in enumerate(findings.systems)
    ]


def _column_width(name: str) -> int:
    """Letters of a column's head: its longest part up to a hyphen, within reason."""
    longest = max(len(word) for word in name.replace("-", "- ").split() or [""])
    return 1 + min(max(longest, 5), 12)


def _blocks(means: list[Row], sets: list[Row], judge: Judge) -> list[Record]:
    """Bodies of the table: the means, then every group of sets under its name."""
    groups = dict.fromkeys(row.group for row in sets)
    grouped = any(groups)
    numbered = list(enumerate(means + sets))
    blocks: list[Record] = [_block("", numbered[: len(means)], judge, "means")] if means else []
    for group in groups:
        rows = [(number, row) for number, row in numbered[len(means) :] if row.group == group]
        heading = group or "in no group" if grouped else ""
        blocks.append(_block(heading, rows, judge, "sets"))
    return blocks


def _block(heading: str, rows: list[tuple[int, Row]], judge: Judge, kind: str) -> Record:
    return {
        "heading": heading,
        "kind": kind,
        "rows": [
            {
                "number": number,
                "name": row.name,
                "n_sets": len(row.results[0].average_of),
                "cells": first_cells(row, judge),
            }
            for number, row in rows
        ],
    }


def _data(findings: Findings, rows: list[Row], judge: Judge) -> dict[str, Any]:
    """Everything that the script may be asked for."""
    found = _differences(findings)
    return {
        "systems": findings.systems,
        "priors": [prior_name(prior) for prior in judge.settings.priors],
        "end": scale_end(judge),
        "baseline": findings.differences[0].baseline if findings.differences else None,
        "words": list(WORDS.values()),
        "open": len(findings.sets) <= OPEN_SETS,
        "rows": [
            {
                "name": row.name,
                "mean": row.is_mean,
                "group": row.group,
                "cells": [
                    cell_record(result, judge, found.get((result.system, row.name, row.is_mean)))
                    for result in row.results
                ],
                **details(row, judge),
            }
            for row in rows
        ],
        "models": [
            {key: record[key] for key in ("legend", "charts")} for record in model_records(findings)
        ],
    }


def _differences(findings: Findings) -> dict[tuple[str, str, bool], Difference]:
    """From the baseline by system, set and whether it is a mean; over all sets too."""
    found = list(findings.differences)
    if found:
        confidence = findings.work.confidence
        overall = over_all_sets(findings.results, confidence)
        found = differences(overall, found[0].baseline, confidence) + found
    return {(one.system, one.set, one.average): one for one in found}
