"""training.html: what a finished run's summary and log say, as the page of eval/report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcaplda.eval.report.training_page import (
    Calibration,
    Curves,
    Line,
    Table,
    TrainingPage,
    write_training_page,
)
from dcaplda.eval.verdict.costs import CARE, NO, YES, grade_of
from dcaplda.train.curves import group_curves, smoothed
from dcaplda.train.summary import where_selected

PAGE = "training.html"
HEADLINES = {
    YES: "Calibrated: use the LLRs with the Bayes threshold",
    CARE: "Nearly calibrated: some cost is lost",
    NO: "Not calibrated where it was measured",
}
MOST_POINTS = 300
"""Points of a curve: a drawing shows no more, and the page stays small."""


def write_page(
    directory: Path, summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> bool:
    """Write the page of a run, unless nothing was measured; `rows` are those of its log."""
    page = training_page(directory.resolve().name, summary, rows)
    if page is None:
        return False
    write_training_page(directory / PAGE, page)
    return True


def training_page(
    name: str, summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]
) -> TrainingPage | None:
    """The page, or None where there are neither held-out parts nor development sets."""
    held_out, dev = summary.get("held_out") or {}, summary.get("dev") or []
    judged = "last" not in summary["selected"]
    tables = [*_held_out_table(held_out.get("parts") or []), *_dev_table(dev, judged)]
    if not tables:
        return None
    grade, sentences = _verdict(held_out, tables[0])
    return TrainingPage(
        title=f"Training of {name}",
        grade=grade,
        headline=HEADLINES[grade],
        sentences=sentences,
        facts=_facts(summary),
        tables=tables,
        choices=[
            (str(choice["setting"]), _shown(choice["value"]), str(choice["reason"]))
            for choice in summary.get("choices") or []
        ],
        contest=[_match(match) for match in summary.get("contest") or []],
        curves=_curves(summary, rows),
        warnings=_warnings(summary),
    )


def _match(match: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    """A row of what was tried."""
    if match["cllr"] is None:
        figures = "cannot be trained without some part"
    else:
        way = "better" if match["better"] >= 0 else "worse"
        difference = f"{abs(match['better']):.3f} ± {match['error']:.3f} {way}"
        figures = f"{match['cllr']:.3f}, {difference} ({match['how']})"
    outcome = "beyond its error" if match["beyond"] else "not better beyond its error"
    return str(match["setting"]), str(match["value"]), str(match["against"]), figures, outcome


def _held_out_table(parts: Sequence[Mapping[str, Any]]) -> list[Table]:
    if not parts:
        return []
    rows = [
        Calibration(
            name=str(part["name"]),
            kind=str(part["kind"]),
            cllr=part["cllr"],
            minimum=part["min_cllr"],
            rare=part["cllr_rare"],
            targets=part["targets"],
            nontargets=part["nontargets"],
        )
        for part in parts
    ]
    caption = (
        "Each part was scored by a model trained without it. Bar: Cllr at prior 0.5; mark: what "
        "the best affine calibration would leave. Rare targets: Cllr at prior 0.01."
    )
    return [Table(title="Calibration on held-out parts", caption=caption, rows=rows)]


def _dev_table(sets: Sequence[Mapping[str, Any]], judged: bool) -> list[Table]:
    if not sets:
        return []
    rows = [
        Calibration(
            name=str(dev["name"]),
            kind="" if dev["group"] == "dev" else str(dev["group"]),
            cllr=dev["cllr@0.5"],
            minimum=dev["min_cllr@0.5"],
            rare=dev["cllr@0.01"],
            targets=dev["targets"],
            nontargets=dev["nontargets"],
        )
        for dev in sets
    ]
    caption = (
        "Bar: Cllr at prior 0.5; mark: what the best affine calibration would leave. Rare targets: "
        "Cllr at prior 0.01."
    )
    if judged:
        caption = f"These sets selected the model: they flatter it a little. {caption}"
    return [Table(title="Calibration on the development sets", caption=caption, rows=rows)]


def _verdict(held_out: Mapping[str, Any], table: Table) -> tuple[str, list[str]]:
    """The grade of the first table, and why; held-out parts have their own words."""
    if held_out.get("parts"):
        cllr, least = float(held_out["cllr"]), float(held_out["min_cllr"])
    else:
        cllr = float(np.mean([row.cllr for row in table.rows]))
        least = float(np.mean([row.minimum for row in table.rows]))
    lost = max(1.0 - least / cllr, 0.0) if cllr > 0 else 0.0
    grade = NO if cllr >= 1.0 else grade_of(cllr - least)
    sentences = [str(held_out["verdict"])] if held_out.get("verdict") else []
    kind = "part" if held_out.get("parts") else "set"
    count = f"{len(table.rows)} {kind}s" if len(table.rows) > 1 else f"one {kind}"
    sentences.append(
        f"Cllr {cllr:.3f} at prior 0.5 (mean over {count}); the best affine calibration of each "
        f"would leave {least:.3f}, so {100 * lost:.0f} % is lost to miscalibration."
    )
    worst = max(table.rows, key=lambda row: row.cllr - row.minimum)
    if len(table.rows) > 1:
        sentences.append(
            f"Most is lost on {worst.name}: {worst.cllr:.3f} where {worst.minimum:.3f} is possible."
        )
    return grade, sentences


def _facts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    facts = [
        ("variant", str(summary["variant"])),
        ("speakers", f"{summary['speakers']:,}, counted in each domain"),
        ("domains", ", ".join(map(str, summary["domains"]))),
        ("utterances", f"{summary['utterances']:,}"),
        ("steps", f"{summary['steps']:,}"),
        ("chosen", where_selected(summary["selected"])),
        ("prior of training", f"{summary['training_prior']:g}"),
        ("seed", str(summary["seed"])),
    ]
    stopped = summary.get("stopped")
    if stopped:
        facts.insert(5, ("finished early", f"{stopped['asked']:,} steps were asked for"))
    dropped = [f"{count:,} {reason}" for reason, count in summary["dropped"].items() if count]
    if dropped:
        facts.append(("left out", "; ".join(dropped)))
    return facts


def _warnings(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What `verify` compares an utterance with (runtime/familiarity.py)."""
    statistics = summary["statistics"]
    found = []
    seconds, norm = statistics["durations"], statistics["embedding_norm"]
    if seconds:
        found.append(
            (
                "durations",
                f"outside of {seconds['min']:.1f} to {seconds['max']:.1f} s of speech",
                "training saw no shorter or longer utterance",
            )
        )
    found.append(
        (
            "lengths",
            f"embeddings shorter than {norm['p0.05']:.2f} or longer than {norm['p99.95']:.2f}",
            "99.9 % of training lay between; others may come from another extractor, or were "
            "normalized",
        )
    )
    side = statistics["side_information"]
    if side:
        limit = side["distance_percentiles"]["99.9"]
        found.append(
            (
                "side-information",
                f"farther than {limit:.1f} from the mean of training",
                "99.9 % of training was nearer: a condition that training has not seen",
            )
        )
    return found


def _curves(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Curves | None:
    """Losses of batches and of groups of sets, if any step was made."""
    steps = [int(row["total"]) for row in rows if "loss" in row]
    if not steps:
        return None
    losses = [float(row["loss"]) for row in rows if "loss" in row]
    places, means = smoothed(steps, losses, MOST_POINTS)
    lines = [Line(name="training batches", steps=places, losses=means)]
    groups = {str(dev["name"]): str(dev["group"]) for dev in summary["dev"]}
    for number, (group, kinds) in enumerate(group_curves(rows, groups).items()):
        for kind in ("actual", "minimum"):
            found = kinds[kind]
            chosen = slice(None, None, max(1, -(-len(found[0]) // MOST_POINTS)))
            lines.append(
                Line(
                    name=f"{group}, {kind}",
                    steps=found[0][chosen],
                    losses=found[1][chosen],
                    series=number,
                    dashed=kind == "minimum",
                )
            )
    first = {stage: next((r["total"] for r in rows if r["stage"] == stage), 0) for stage in (2, 3)}
    return Curves(
        lines=lines,
        stages=[(step, f"stage {stage}") for stage, step in first.items() if step],
        chosen=summary["selected"].get("total"),
        prior=summary["training_prior"],
    )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
