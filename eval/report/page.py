"""The report: one HTML page with everything in it, no link outside, light and dark."""

from collections.abc import Callable
from typing import Any

from dcaplda.eval.metrics.measure import PER_PRIOR, Settings, prior_name
from dcaplda.eval.report.palette import SERIES
from dcaplda.eval.report.pictures import Gallery, Picture, slug
from dcaplda.eval.report.tables import HEADINGS, show
from dcaplda.eval.report.templates import fill, write_page
from dcaplda.eval.report.verdict import summary, verdict
from dcaplda.eval.results import Part, Result

TEMPLATE = "report.html.j2"
OPEN_SETS = 3
"""Up to so many sets are unfolded when the page opens."""

Row = dict[str, Any]


def write_report(path: str, gallery: Gallery, title: str) -> None:
    """Draw everything and write the page whole or not at all."""
    write_page(path, render(gallery, title))


def render(gallery: Gallery, title: str) -> str:
    """The page as text."""
    settings = gallery.work.settings
    return fill(
        TEMPLATE,
        title=title,
        systems=[_system(gallery, name, number) for number, name in enumerate(gallery.systems)],
        groups=[prior_name(prior) for prior in settings.priors],
        headings=_headings(settings),
        rows=[_row(result, settings) for result in gallery.results],
        means=[_row(result, settings) for result in gallery.means],
        confidence=f"{100 * gallery.work.confidence:g}",
        n_replicates=gallery.work.n_replicates,
        overview=[_figure(gallery, picture) for picture in gallery.overview()],
        sets=[_set(gallery, name) for name in gallery.sets],
        unfolded=len(gallery.sets) <= OPEN_SETS,
        has_intervals=any(result.intervals for result in gallery.results),
        cost_miss=settings.cost_miss,
        cost_fa=settings.cost_fa,
        eer_method=settings.eer_method,
        normalized=settings.normalize_dcf,
    )


def _headings(settings: Settings) -> list[str]:
    names = [HEADINGS[name] for name in PER_PRIOR]
    return [HEADINGS["eer"], HEADINGS["auc"], *(names * len(settings.priors))]


def _cells(
    values: dict[str, float] | None,
    spans: dict[str, tuple[float, float]],
    settings: Settings,
) -> list[Row]:
    """Cells of a table: the value, its interval, and whether a block of a prior begins."""
    cells = []
    for place, name in enumerate(settings.names):
        span = spans.get(name)
        cells.append(
            {
                "text": "–" if values is None else show(name, values[name]),
                "span": f"{show(name, span[0])}–{show(name, span[1])}" if span else "",
                "begins": place == 0 or (place >= 2 and (place - 2) % len(PER_PRIOR) == 0),
                "main": name.startswith(("cllr_", "dcf_")),
            }
        )
    return cells


def _row(result: Result, settings: Settings) -> Row:
    n_sets = len(result.average_of)
    return {
        "system": result.system,
        "set": f"{result.set} (mean of {n_sets} sets)" if n_sets else result.set,
        "anchor": f"set-{slug(result.set)}",
        "n_target": f"{result.n_target:,}",
        "n_nontarget": f"{result.n_nontarget:,}",
        "cells": _cells(result.values, result.intervals, settings),
    }


def _part_row(part: Part, settings: Settings) -> Row:
    return {
        "enroll": part.enroll,
        "test": part.test,
        "n_target": f"{part.n_target:,}",
        "n_nontarget": f"{part.n_nontarget:,}",
        "cells": _cells(part.values, {}, settings),
    }


def _figure(gallery: Gallery, picture: Picture) -> Row:
    return {
        "svg": gallery.svg(picture),
        "title": picture.title,
        "caption": picture.caption,
        "wide": picture.wide,
    }


def _system(gallery: Gallery, name: str, number: int) -> Row:
    """A system's paragraph, model card and duration stage."""
    judged = summary(name, gallery.results, gallery.work.settings)
    card = gallery.cards.get(name)
    return {
        "name": name,
        "colour": f"--series-{number % len(SERIES) + 1}",
        "grade": judged.grade,
        "headline": judged.headline,
        "words": " ".join(judged.sentences),
        "card": card,
        "pictures": [_figure(gallery, picture) for picture in gallery.model_pictures(name)],
    }


def _set(gallery: Gallery, name: str) -> Row:
    """A set: counts of its data, paragraphs, pictures and tables of conditions."""
    settings = gallery.work.settings
    results = gallery.of_set(name)
    return {
        "name": name,
        "anchor": f"set-{slug(name)}",
        "group": results[0].group,
        "facts": _fact_rows(results),
        "verdicts": [
            {"system": r.system, "grade": v.grade, "headline": v.headline, "sentences": v.sentences}
            for r in results
            for v in [verdict(r, settings)]
        ],
        "figures": [_figure(gallery, picture) for picture in gallery.set_pictures(name)],
        "conditions": [
            {
                "system": result.system,
                "kind": kind,
                "rows": [_part_row(p, settings) for p in result.parts if p.kind == kind],
            }
            for result in results
            for kind in dict.fromkeys(part.kind for part in result.parts)
        ],
    }


def _fact_rows(results: list[Result]) -> list[tuple[str, str]]:
    """The data's counts in words; odd ones only where there are any."""
    first = results[0]
    rows = [
        ("target trials", f"{first.n_target:,}"),
        ("nontarget trials", f"{first.n_nontarget:,}"),
    ]
    facts = first.facts
    if facts is not None:
        rows += [("enrolment ids", f"{facts.n_enroll:,}"), ("test ids", f"{facts.n_test:,}")]
        if facts.n_speakers is not None:
            rows.append(("speakers", f"{facts.n_speakers:,}"))
        if facts.seconds is not None:
            least, middle, most = facts.seconds
            rows.append(("seconds of speech", f"{least:g} to {most:g}, median {middle:g}"))
        if facts.domains:
            rows.append(("domains", ", ".join(facts.domains)))
    odd: dict[str, Callable[[Result], int]] = {
        "trials without a label": lambda r: r.counts.unlabelled,
        "trials without a score": lambda r: r.counts.missing,
        "scores without a trial": lambda r: r.counts.extra,
        "repeated trials": lambda r: r.counts.duplicate,
    }
    for words, count in odd.items():
        found = [f"{count(result):,} ({result.system})" for result in results if count(result)]
        if found:
            rows.append((words + ", left out", ", ".join(found)))
    return rows
