"""README.md of a bundle: the card that model hubs show, written from model.json."""

import re
from collections.abc import Mapping
from typing import Any

from dcaplda.runtime.bundle.told import as_text, facts_of

README = "README.md"
_ABOUT = """\
Speaker embeddings and the seconds of speech behind each in, a log-likelihood ratio of same against
different speakers out (natural logarithm), to be compared with the threshold that priors and costs
dictate. It hears nothing by itself: embeddings come from the extractor that it was trained with."""
_FILES = """\
`backend.onnx` alone serves any language with an ONNX runtime. `SHA256SUMS` lists every file;
voiceprints of two models cannot be compared."""
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|!])")
_LONGEST = 300
"""Characters of a value; the rest is in model.json."""


def readme(manifest: Mapping[str, Any]) -> bytes:
    """The card of a model."""
    return "\n".join(
        [
            *_front(manifest),
            f"# Speaker verification backend ({_plain(manifest.get('variant', 'unknown'))})",
            "",
            _ABOUT,
            "",
            "| | |",
            "| --- | --- |",
            *(f"| {name} | {_plain(value)} |" for name, value in _facts(manifest)),
            "",
            "## Use",
            "",
            "```python",
            "from dcaplda.runtime import Backend   # pip install dcaplda",
            "",
            'backend = Backend.load("path/to/this/folder")',
            f"ann = backend.enroll(embeddings, seconds)            # {_shape(manifest)}",
            "answer = backend.verify(ann, embedding, 9.0, prior=0.01)",
            "print(answer.llr, answer.accept, answer.warnings)",
            "```",
            "",
            _FILES,
            "",
            "## Limits",
            "",
            *(f"- {line}" for line in _limits(manifest)),
            "",
        ]
    ).encode()


def _front(manifest: Mapping[str, Any]) -> list[str]:
    """What hubs sort by; who publishes adds the licence."""
    tags = ["speaker-verification", "speaker-recognition", "plda", "onnx", "calibration"]
    lines = ["---", "library_name: dcaplda", "tags:", *(f"- {tag}" for tag in tags)]
    return [*lines, "---", ""]


def _facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    rows = facts_of(dict(manifest))
    training = _table(manifest.get("training"))
    extractor = _table(training.get("extractor"))
    if extractor.get("fingerprint"):
        rows.append(("extractor", str(extractor["fingerprint"])[:16]))
    place = _table(manifest.get("adaptation"))
    if place:
        heard = f"{place.get('utterances')} utterances of about {place.get('people')} people"
        rows.append(("adapted to a place", heard))
    fitted = _table(_table(manifest.get("calibration")).get("scored_by"))
    if fitted:
        count = f"{fitted.get('n_target')} target and {fitted.get('n_nontarget')} nontarget trials"
        rows.append(("calibrated on", count))
    return rows


def _limits(manifest: Mapping[str, Any]) -> list[str]:
    known = manifest.get("familiarity")
    lines = []
    if _table(known).get("seconds"):
        lines.append("Inputs outside of what training saw are scored with a warning.")
    else:
        lines.append("It does not know what training saw, so it cannot warn of unlike inputs.")
    if never_calibrated(manifest):
        lines.append(
            "Its scores may not be calibrated: `calibrate-scores --bundle` makes them LLRs."
        )
    lines.append("An LLR holds as far as what is scored is like what it was trained on.")
    return lines


def never_calibrated(manifest: Mapping[str, Any]) -> bool:
    """Whether nobody knows that its scores are LLRs: not trained here, and not calibrated."""
    return not any(_table(manifest.get(key)) for key in ("training", "calibration"))


def _shape(manifest: Mapping[str, Any]) -> str:
    size = as_text(manifest.get("embedding_dim", "D"))
    seconds = ", seconds of speech (n,)" if manifest.get("uses_durations") else ""
    return f"(n, {size}){seconds}"


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain(value: object) -> str:
    """Text without any meaning of its own in Markdown, on one line."""
    text = " ".join(as_text(value).split())
    short = text if len(text) <= _LONGEST else text[:_LONGEST] + " ..."
    return _MARKS.sub(r"\\\1", short)
