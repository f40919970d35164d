"""What model.json tells a reader, in a few rows: for reports and for a bundle's README."""

from typing import Any


def facts_of(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The rows that a reader asks for; what a model.json does not say is left out."""
    training = manifest.get("training")
    training = training if isinstance(training, dict) else {}
    facts = [
        ("variant", as_text(manifest.get("variant", "unknown"))),
        ("takes", _inputs(manifest)),
        ("trained on", _trained_on(training)),
        ("domains", ", ".join(map(as_text, training.get("domains") or []))),
        ("seconds of speech", _seconds(training.get("durations"))),
        (
            "prior of training",
            as_text(training.get("training_prior") or training.get("prior") or ""),
        ),
        ("steps and seed", _joined(training, "steps", "seed")),
        ("made by", as_text(manifest.get("producer") or "")),
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
    return f"{as_text(durations['min'])} to {as_text(durations['max'])}"


def _joined(training: dict[str, Any], *names: str) -> str:
    return ", ".join(as_text(training[name]) for name in names if name in training)


def as_text(value: Any) -> str:
    """A value of model.json in a word or number."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
