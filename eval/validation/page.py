"""A validation as a page for people: one file, no script, light, dark and on paper."""

import hashlib
import math
from pathlib import Path
from typing import Any

from dcaplda.eval.metrics.forensic import LOG10
from dcaplda.eval.report.templates import fill, write_page
from dcaplda.eval.results import Interval, Part, Result
from dcaplda.eval.validation.charts import figures
from dcaplda.eval.validation.evidence import Evidence, Misleading
from dcaplda.eval.validation.record import json_text
from dcaplda.eval.validation.summary import HALF, findings, too_often, what_was_done
from dcaplda.eval.validation.tested import Coverage, Spread
from dcaplda.eval.validation.validation import Validation, examination
from dcaplda.eval.validation.wording import (
    condition,
    count,
    fixed,
    listed,
    percent,
    ratio,
    seconds,
    signed,
)

Row = dict[str, Any]
CONDITIONS = {"domain": "By kind of recording", "duration": "By seconds of speech"}


def json_path(path: str) -> str:
    """Where the JSON of a page goes: beside it, with that ending."""
    return str(Path(path).with_suffix(".json"))


def write_validation(path: str, validation: Validation) -> None:
    """Write the JSON file, then the page, which names it by its hash."""
    text = json_text(validation)
    page = render(validation, Path(json_path(path)).name, text)
    write_page(json_path(path), text)
    write_page(path, page)


def render(validation: Validation, json_name: str, json_content: str) -> str:
    """The page as text."""
    low, high = validation.bounds
    return fill(
        "validation.html.j2",
        Path(__file__).parent,
        v=validation,
        sets=[_set(validation, result) for result in validation.results],
        lower=ratio(low),
        upper=ratio(high),
        lower_llr=signed(low),
        upper_llr=signed(high),
        confidence=f"{100 * validation.confidence:g}",
        has_intervals=any(result.intervals for result in validation.results),
        json_name=json_name,
        json_hash=hashlib.sha256(json_content.encode()).hexdigest(),
    )


def _set(validation: Validation, result: Result) -> Row:
    seen = examination(result)
    evidence, tested = seen.evidence, seen.tested
    return {
        "name": result.set,
        "done": what_was_done(result, tested),
        "findings": findings(result, evidence),
        "brief": _brief(result, evidence, tested),
        "numbers": _numbers(result, evidence),
        "misleading": [_misleading(row) for row in evidence.misleading],
        "figures": figures(evidence),
        "tested": [*_tested(result, tested), *_new_kinds(validation, tested)],
        "domains": tested.domains,
        "conditions": [
            (title, [_condition(part) for part in result.parts if part.kind == kind])
            for kind, title in CONDITIONS.items()
            if any(part.kind == kind for part in result.parts)
        ],
        "untested": validation.untested(result),
    }


def _with(value: str, span: Interval | None, digits: int) -> tuple[str, str]:
    """A figure and its interval as texts."""
    return value, f"{fixed(span[0], digits)} to {fixed(span[1], digits)}" if span else ""


def _brief(result: Result, evidence: Evidence, tested: Coverage) -> Row:
    """A row of the table over several sets."""
    return {
        "pairs": f"{result.n_target:,} + {result.n_nontarget:,}",
        "people": "–" if tested.n_people is None else f"{tested.n_people:,}",
        "right": " / ".join(percent(share) for share in evidence.right_way),
        "cllr": _with(fixed(result.values[f"cllr_{HALF}"]), _span(result, "cllr"), 3),
        "range": f"{ratio(evidence.bounds[0])} to {ratio(evidence.bounds[1])}",
    }


def _span(result: Result, metric: str) -> Interval | None:
    return result.intervals.get(f"{metric}_{HALF}")


def _numbers(result: Result, evidence: Evidence) -> list[tuple[str, tuple[str, str], str]]:
    """Name, figure with interval, and meaning."""
    values = result.values
    cllr, least = values[f"cllr_{HALF}"], values[f"min_cllr_pav_{HALF}"]
    eer = result.intervals.get("eer")
    rows = [
        (
            "Cllr",
            _with(fixed(cllr), _span(result, "cllr"), 3),
            "Quality of the likelihood ratios: 0 perfect, 1 as good as none, more is harmful.",
        ),
        (
            "Cllr min",
            _with(fixed(least), _span(result, "min_cllr_pav"), 3),
            "What is left of it with the best sizes in the same order: how hard the pairs are.",
        ),
        (
            "Cllr cal",
            (fixed(cllr - least), ""),
            "The difference: what is lost because sizes are not the best.",
        ),
        (
            "EER",
            _with(f"{values['eer']:.1f} %", eer, 1),
            "Errors of each kind if one had to decide and made both equally often.",
        ),
        (
            "devPAV",
            _with(_or_none(evidence.devpav), evidence.devpav_interval, 2),
            "Mean distance of the likelihood ratios from the right size, in powers of ten.",
        ),
    ]
    for name, llr, span in (
        ("Lower bound", evidence.bounds[0], evidence.lower_interval),
        ("Upper bound", evidence.bounds[1], evidence.upper_interval),
    ):
        drawn = f"{ratio(span[0])} to {ratio(span[1])}" if span else ""
        side = "smallest" if name == "Lower bound" else "largest"
        meaning = (
            f"The {side} likelihood ratio that this test supports (ELUB): {signed(llr / LOG10)} "
            f"powers of ten, {signed(llr)} as natural logarithm."
        )
        rows.append((name, (ratio(llr), drawn), meaning))
    return rows


def _or_none(value: float) -> str:
    return "not defined" if math.isnan(value) else fixed(value, 2)


def _misleading(row: Misleading) -> Row:
    sides = []
    for number, share, span in (
        (row.n_nontarget, row.nontarget, row.nontarget_interval),
        (row.n_target, row.target, row.target_interval),
    ):
        # Draws of people who never misled say nothing of those who would.
        drawn = f"{percent(span[0])} to {percent(span[1])}" if span and number else ""
        told = f"{number:,} = {percent(share)}" if number else "none"
        sides.append({"told": told, "drawn": drawn})
    return {
        "strength": f"{row.strength:,.0f}",
        "sides": sides,
        "limit": "" if row.limit is None else percent(row.limit),
        "too_often": too_often(row),
    }


def _spread(values: Spread, show: Any) -> str:
    least, middle, most = values
    return show(least) if least == most else f"{show(least)} to {show(most)}, median {show(middle)}"


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _tested(result: Result, tested: Coverage) -> list[tuple[str, str]]:
    """What was tested, in rows."""
    rows = [
        ("Pairs of one person", f"{result.n_target:,}"),
        ("Pairs of two people", f"{result.n_nontarget:,}"),
        ("Recordings", f"{tested.n_recordings:,}"),
    ]
    if tested.n_people is not None:
        rows.append(("People", f"{tested.n_people:,}"))
    if tested.targets_of_a_person is not None and tested.people_with_target is not None:
        own = _spread(tested.targets_of_a_person, _whole)
        people = count(tested.people_with_target, "person")
        rows.append(("Pairs of one person, for each", f"{own} ({people} have any)"))
    if tested.n_sessions is not None:
        rows.append(("Occasions of recording (sessions)", f"{tested.n_sessions:,}"))
    if tested.sessions_of_a_person is not None:
        rows.append(("Sessions of a person", _spread(tested.sessions_of_a_person, _whole)))
    if tested.same_session_targets is not None:
        found = tested.same_session_targets
        rows.append(("Pairs of one person from one session", f"{found:,}" if found else "none"))
    if tested.seconds is not None:
        for name, side in zip(("first", "second"), tested.seconds, strict=True):
            rows.append((f"Speech, {name} recording of a pair", _spread(side, seconds)))
    odd = result.counts
    for words, number in (
        ("Pairs without a likelihood ratio, left out", odd.missing),
        ("Likelihood ratios without a pair, left out", odd.extra),
        ("Pairs without a label, left out", odd.unlabelled),
        ("Repeated pairs, left out", odd.duplicate),
    ):
        if number:
            rows.append((words, f"{number:,}"))
    return rows


def _new_kinds(validation: Validation, tested: Coverage) -> list[tuple[str, str]]:
    """Which of the tested kinds the model knows from its training, if it says so."""
    trained = validation.model.domains if validation.model else []
    if not trained or not tested.domains:
        return []
    known = [name for name, *_ in tested.domains if name in trained]
    return [("Kinds of recording in training", listed(known) or "none of those tested")]


def _condition(part: Part) -> Row:
    known = part.values
    return {
        "first": condition(part.enroll),
        "second": condition(part.test),
        "n_target": f"{part.n_target:,}",
        "n_nontarget": f"{part.n_nontarget:,}",
        "cllr": "–" if known is None else fixed(known[f"cllr_{HALF}"]),
        "eer": "–" if known is None else f"{known['eer']:.1f} %",
    }
