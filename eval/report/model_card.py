"""What a bundle says about itself, for the report."""

from dataclasses import dataclass, field
from typing import Any

from dcaplda.eval.report.duration_stage import DurationStage
from dcaplda.runtime.bundle.manifest import read_info

# Keys of model.json that say nothing to a reader of a report.
_HIDDEN = ("calibration", "graphs", "format", "format_version", "opset", "voiceprint_inputs")
MAX_ROWS = 60


@dataclass(frozen=True)
class ModelCard:
    """What matters in a few rows, all of it in many, and the duration stage if there is one."""

    place: str
    variant: str
    facts: list[tuple[str, str]]
    """Rows for a reader: what it is, what it was trained on."""
    rows: list[tuple[str, str]]
    """Rows for somebody who looks for a setting: model.json, flattened."""
    stage: DurationStage | None = field(repr=False, default=None)


def read_card(directory: str) -> ModelCard:
    """Read model.json of a bundle."""
    info = read_info(directory)
    shown = {key: value for key, value in info.manifest.items() if key not in _HIDDEN}
    rows = [("fingerprint", info.fingerprint[:16])]
    rows += [row for key, value in shown.items() for row in _rows(key, value)]
    facts = [*_facts(info.manifest), ("fingerprint", info.fingerprint[:16])]
    stage = DurationStage.of(info.manifest, directory)
    return ModelCard(directory, info.variant, facts, rows[:MAX_ROWS], stage)


def _facts(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows that a reader asks for; what a model.json does not say is left out."""
    training = manifest.get("training")
    training = training if isinstance(training, dict) else {}
    facts = [
        ("variant", _text(manifest.get("variant", "unknown"))),
        ("takes", _inputs(manifest)),
        ("trained on", _trained_on(training)),
        ("domains", ", ".join(map(_text, training.get("domains") or []))),
        ("seconds of speech", _seconds(training.get("durations"))),
        ("prior of training", _text(training.get("training_prior") or training.get("prior") or "")),
        ("steps and seed", _joined(training, "steps", "seed")),
        ("made by", _text(manifest.get("producer") or "")),
    ]
    return [(name, value) for name, value in facts if value]


def _inputs(manifest: dict[str, Any]) -> str:
    size = manifest.get("embedding_dim")
    seconds = " and seconds of speech" if manifest.get("uses_durations") else ""
    return f"embeddings of {size} values{seconds}" if size else ""


def _trained_on(training: dict[str, Any]) -> str:
    counts = [(name, training.get(name)) for name in ("speakers", "utterances")]
    return ", ".join(f"{count:,} {name}" for name, count in counts if isinstance(count, int))


def _seconds(durations: Any) -> str:
    if not isinstance(durations, dict) or not {"min", "max"} <= set(durations):
        return ""
    return f"{_text(durations['min'])} to {_text(durations['max'])}"


def _joined(training: dict[str, Any], *names: str) -> str:
    return ", ".join(_text(training[name]) for name in names if name in training)


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    """A value of model.json as rows; tables are flattened, long lists are counted."""
    if value is None or value == {} or value == []:
        return []
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _rows(f"{name} / {key}", inner)]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [(name.replace("_", " "), f"{len(value)} entries")]
    if isinstance(value, list):
        text = ", ".join(_text(item) for item in value[:8]) + (", …" if len(value) > 8 else "")
        return [(name.replace("_", " "), text)]
    return [(name.replace("_", " "), _text(value))]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
