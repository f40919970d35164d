"""What a bundle says about itself, for the report."""

from dataclasses import dataclass, field
from typing import Any

from dcaplda.eval.report.duration_stage import DurationStage
from dcaplda.runtime.bundle.manifest import read_info
from dcaplda.runtime.bundle.told import as_text, facts_of

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
    facts = [*facts_of(info.manifest), ("fingerprint", info.fingerprint[:16])]
    stage = DurationStage.of(info.manifest, directory)
    return ModelCard(directory, info.variant, facts, rows[:MAX_ROWS], stage)


def _rows(name: str, value: Any) -> list[tuple[str, str]]:
    """A value of model.json as rows; tables are flattened, long lists are counted."""
    if value is None or value == {} or value == []:
        return []
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _rows(f"{name} / {key}", inner)]
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return [(name.replace("_", " "), f"{len(value)} entries")]
    if isinstance(value, list):
        text = ", ".join(as_text(item) for item in value[:8]) + (", …" if len(value) > 8 else "")
        return [(name.replace("_", " "), text)]
    return [(name.replace("_", " "), as_text(value))]
