"""What the page tells of one set when a reader opens it: data, figures, conditions, curves."""

from collections.abc import Callable
from typing import Any

from dcaplda.eval.page.curve_charts import curve_charts, histogram
from dcaplda.eval.page.rows import Record, Row, part_record
from dcaplda.eval.report.curve_pictures import common_range
from dcaplda.eval.results import Part, Result
from dcaplda.eval.verdict.one_set import Judge, verdict

GRIDS = ("duration",)
"""Conditions that are drawn as a square of enrolment against test, not as a list."""


def details(row: Row, judge: Judge) -> Record:
    """The record of a set; that of a mean has its members only."""
    if row.is_mean:
        return {"facts": [["mean of", ", ".join(row.results[0].average_of)]]}
    found: Record = {
        "facts": facts(row.results),
        "verdicts": [_verdict_record(result, judge) for result in row.results],
        "conditions": _conditions(row, judge),
    }
    curves = {result.system: result.curves for result in row.results if result.curves is not None}
    if curves:
        ends = common_range(curves)
        found["charts"] = [_bare(chart.record()) for chart in curve_charts(curves).values()]
        found["histograms"] = [
            _bare(histogram(name, curve, ends).record()) for name, curve in curves.items()
        ]
    return found


def _verdict_record(result: Result, judge: Judge) -> Record:
    judged = verdict(result, judge)
    return {"grade": judged.grade, "head": judged.headline, "text": " ".join(judged.sentences)}


def _bare(record: Record) -> Record:
    """A chart without its words: the page has those once for all sets."""
    return {key: value for key, value in record.items() if key not in ("title", "caption")}


def _conditions(row: Row, judge: Judge) -> list[Record]:
    """Every kind of condition; one that parts nothing says nothing."""
    kinds = dict.fromkeys(part.kind for result in row.results for part in result.parts)
    found = [_condition(kind, row, judge) for kind in kinds]
    return [condition for condition in found if len(condition["pairs"]) > 1]


def _condition(kind: str, row: Row, judge: Judge) -> Record:
    """All pairs of one kind of condition, with every system's numbers."""
    found: dict[tuple[str, str], dict[str, Part]] = {}
    for result in row.results:
        for part in result.parts:
            if part.kind == kind:
                found.setdefault((part.enroll, part.test), {})[result.system] = part
    systems = [result.system for result in row.results]
    pairs = [
        {
            "pair": list(pair),
            "n": [max(part.n_target for part in parts.values()),
                  max(part.n_nontarget for part in parts.values())],
            "cells": [part_record(parts.get(system), judge) for system in systems],
        }
        for pair, parts in found.items()
    ]  # fmt: skip
    return {"kind": kind, "grid": kind in GRIDS, "pairs": pairs, "range": _range(kind, row.results)}


def _range(kind: str, results: list[Result]) -> str:
    """From which to which EER the conditions of the set's best system go, in words."""
    best = min(results, key=lambda result: next(v for k, v in result.values.items() if "cllr" in k))
    rates = [
        (part.values["eer"], f"{part.enroll} against {part.test}")
        for part in best.parts
        if part.kind == kind and part.values is not None
    ]
    if len(rates) < 2:
        return ""
    low, high = (f"{eer:.1f} % ({pair})" for eer, pair in (min(rates), max(rates)))
    return f"EER of {best.system} from {low} to {high}"


def facts(results: list[Result]) -> list[list[str]]:
    """The data's counts in words; odd ones only where there are any."""
    first = results[0]
    rows = [
        ["target trials", f"{first.n_target:,}"],
        ["nontarget trials", f"{first.n_nontarget:,}"],
    ]
    found = first.facts
    if found is not None:
        rows += [["enrolment ids", f"{found.n_enroll:,}"], ["test ids", f"{found.n_test:,}"]]
        if found.n_speakers is not None:
            rows.append(["speakers", f"{found.n_speakers:,}"])
        if found.seconds is not None:
            least, middle, most = found.seconds
            rows.append(["seconds of speech", f"{least:g} to {most:g}, median {middle:g}"])
        if found.domains:
            rows.append(["domains", ", ".join(found.domains)])
    odd: dict[str, Callable[[Any], int]] = {
        "trials without a label": lambda counts: counts.unlabelled,
        "trials without a score": lambda counts: counts.missing,
        "scores without a trial": lambda counts: counts.extra,
        "repeated trials": lambda counts: counts.duplicate,
    }
    for words, count in odd.items():
        told = [f"{count(r.counts):,} ({r.system})" for r in results if count(r.counts)]
        if told:
            rows.append([f"{words}, left out", ", ".join(told)])
    return rows
