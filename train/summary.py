"""What a finished run leaves for people and for export: training_summary.json and a table."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.runtime.familiarity import precision_of
from dcaplda.runtime.fields import parse_json
from dcaplda.runtime.files import replacing
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.picked import row_chunks
from dcaplda.train.model.backend import Backend

Floats = NDArray[np.float64]

SUMMARY = "training_summary.json"
TABLE = "summary.txt"


def data_statistics(model: Backend, data: TrainingData, device: torch.device) -> dict[str, Any]:
    """What training saw: durations, embedding norms, side-information; for later warnings.

    Every domain counts the same, as it does in the loss: utterances of a small domain must not
    be rare in the statistics only because a large one is there too.
    """
    weights = 1.0 / np.bincount(data.domain)[data.domain]
    parts = (data.embeddings[rows].astype(np.float64) for rows in row_chunks(len(data.ids)))
    norms = np.concatenate([np.linalg.norm(part, axis=1) for part in parts])
    low, high = weighted_percentiles(norms, weights, (0.05, 99.95))
    mean = float(np.average(norms, weights=weights))
    statistics: dict[str, Any] = {
        "durations": None,
        "embedding_norm": {
            "mean": mean,
            "std": float(np.sqrt(np.average((norms - mean) ** 2, weights=weights))),
            "p0.05": low,
            "p99.95": high,
        },
        "side_information": None,
    }
    if not np.isnan(data.seconds).any():
        statistics["durations"] = {
            "min": float(data.seconds.min()),
            "max": float(data.seconds.max()),
        }
    if model.config.stages.side_stage:
        statistics["side_information"] = _side_statistics(model, data, weights, device)
    return statistics


def weighted_percentiles(values: Floats, weights: Floats, levels: Sequence[float]) -> list[float]:
    """The least values that so many percent of the weight do not exceed."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    # Sums of many weights: a level that is met up to rounding is met.
    wanted = np.array(levels) / 100.0 * reached[-1] * (1.0 - 1e-12)
    places = np.searchsorted(reached, wanted)
    return values[order[np.minimum(places, len(values) - 1)]].tolist()


@torch.no_grad()
def _side_statistics(
    model: Backend, data: TrainingData, weights: Floats, device: torch.device
) -> dict[str, Any]:
    """Mean and covariance of z, and percentiles of the Mahalanobis distance from the mean."""
    chunks = row_chunks(len(data.ids))
    # In its place at once: between the layers' values, small results would keep memory in pieces.
    z = np.empty((len(data.ids), model.config.side_info_dim), np.float32)
    for rows in chunks:
        chunk = torch.from_numpy(data.embeddings[rows]).to(device)
        z[rows] = model.side_info(chunk).cpu().numpy()
    mass = weights.sum()
    mean = weights @ z / mass
    # Without bias if all weigh the same; numpy's cov would hold several copies of all z.
    spread = mass - (weights @ weights) / mass
    covariance = np.zeros((len(mean), len(mean)))
    for rows in chunks:
        centred = z[rows] - mean
        covariance += (centred * weights[rows, None]).T @ centred / spread
    precision = precision_of(covariance)
    squares = [(((z[rows] - mean) @ precision) * (z[rows] - mean)).sum(axis=1) for rows in chunks]
    distances = np.sqrt(np.maximum(np.concatenate(squares), 0.0))
    levels = (50.0, 95.0, 99.0, 99.9)
    found = weighted_percentiles(distances, weights, levels)
    return {
        "mean": mean.tolist(),
        "covariance": covariance.tolist(),
        "distance_percentiles": {
            f"{level:g}": value for level, value in zip(levels, found, strict=True)
        },
    }


def write_summary(directory: Path, summary: dict[str, Any]) -> None:
    """training_summary.json; written last, so that its presence means a finished run."""
    with replacing(directory / SUMMARY) as path:
        path.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def read_summary(directory: Path) -> dict[str, Any] | None:
    """The summary of a finished run, or None."""
    try:
        values = parse_json((directory / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def dev_table(summary: dict[str, Any]) -> str:
    """What was measured: the development sets, then the parts held out, then the verdict."""
    tables = []
    if summary["dev"]:
        tables.append(_sets_table(summary))
    if "held_out" in summary:
        tables.append(_parts_table(summary["held_out"]))
    if not tables:
        tables.append(
            f"not measured: no development sets and no parts held out ([held_out] people) "
            f"({where_selected(summary['selected'])})\n"
        )
    return "\n".join(tables)


def _parts_table(held_out: dict[str, Any]) -> str:
    """Per part: actual / minimum Cllr of a model that has not seen it."""
    header = ["held out", "kind", "trials", "Cllr@0.5", "Cllr@0.01"]
    rows = [
        [
            part["name"],
            part["kind"],
            f"{part['targets']}+{part['nontargets']}",
            f"{part['cllr']:.4f} / {part['min_cllr']:.4f}",
            f"{part['cllr_rare']:.4f} / {part['min_cllr_rare']:.4f}",
        ]
        for part in held_out["parts"]
    ]
    lines = _aligned([header, *rows])
    mean = f"mean held-out Cllr@0.5: {held_out['cllr']:.4f} / {held_out['min_cllr']:.4f}"
    return "\n".join([*lines, mean, held_out["verdict"]]) + "\n"


def _aligned(table: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table
    ]


def _sets_table(summary: dict[str, Any]) -> str:
    """Per set: actual / minimum Cllr before the first step and of the result, and EER."""
    prior = summary["training_prior"]
    before = summary["start"]
    header = ["set", "trials", f"start Cllr@{prior:g}", f"Cllr@{prior:g}", "Cllr@0.5", "EER %"]
    rows = []
    for dev in summary["dev"]:
        start = "-"
        if before:
            name = dev["name"]
            start = f"{before['actual'][name]:.4f} / {before['minimum'][name]:.4f}"
        pairs = [f"{dev[f'cllr@{p:g}']:.4f} / {dev[f'min_cllr@{p:g}']:.4f}" for p in (prior, 0.5)]
        trials = f"{dev['targets']}+{dev['nontargets']}"
        rows.append([dev["name"], trials, start, *pairs, f"{100 * dev['eer']:.2f}"])
    lines = _aligned([header, *rows])
    footer = f"average Cllr@{prior:g}: start {_shown(summary['start_average'])}, "
    footer += f"result {_shown(summary['average'])} ({where_selected(summary['selected'])})"
    return "\n".join([*lines, footer]) + "\n"


def _shown(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.4f}"


def where_selected(place: dict[str, Any]) -> str:
    """Where the result was met, in words."""
    if "models" in place:
        return f"average of the {place['models']} best models"
    if "last" in place:
        kind = "running average" if "average" in place else "last model"
        return f"{kind}, {place['last']} steps"
    if place.get("total") == 0:
        return "the start, before any step"
    kind = "running average at " if "average" in place else ""
    return f"{kind}stage {place['stage']} step {place['step']}"
