"""Decisions as lines of the audit log: who, when, on what, and what was answered; no vectors."""

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from dcaplda.runtime.gallery.database.schema import Decision
from dcaplda.runtime.records.speaker import Speaker, short
from dcaplda.runtime.verification import Verification

TESTED, ENROLLED = "test:", "enrolment:"


@dataclass(frozen=True, repr=False)
class Identification:
    """The answer to "who is this?", with all that an audit asks for."""

    speaker: str | None
    """The one speaker of the gallery that it is, or None."""
    llr: float
    """LLR of the best speaker, chosen or not; minus infinity in an empty gallery."""
    posterior: float
    """Probability that it is the best speaker, against all others and nobody."""
    warnings: tuple[str, ...] = ()
    """Where the probe (`test:`) and the best speaker lie outside what training saw."""
    best: str | None = None
    """The best speaker, chosen or not."""
    needed: float = math.nan
    """The probability from which on naming somebody costs less than naming nobody."""
    speakers: int = 0
    """How many were searched."""
    seconds: float | None = None
    """Seconds of speech of the probe, if they are known."""
    prior: float = math.nan
    cost_miss: float = 1.0
    cost_fa: float = 1.0
    model: str = ""
    """Fingerprint of the model."""
    time: float = field(default_factory=time.time, compare=False)
    """When it was decided, in seconds since 1970 (UTC)."""

    def __repr__(self) -> str:
        word = "nobody" if self.speaker is None else repr(self.speaker)
        parts = [word, f"probability {self.posterior:.3g}", f"LLR {self.llr:.2f}"]
        parts += [f"{self.speakers} speakers", short(self.model)]
        return f"Identification({', '.join(parts)})"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON takes it, for an audit; no vectors."""
        llr = self.llr if math.isfinite(self.llr) else None
        return asdict(self) | {"warnings": list(self.warnings), "llr": llr}


@dataclass(frozen=True)
class Update:
    """What came of an utterance that might be added to a speaker."""

    added: bool
    llr: float
    """Of the utterance with the speaker as it was."""
    least_agreement: float | None
    """The least LLR of any utterance, the new one too, with the others; None: not looked at."""
    reason: str
    """Why it was not added; empty if it was."""


def probe_warnings(probe: Speaker | Any, enrolled: tuple[str, ...]) -> tuple[str, ...]:
    """What was said of a probe when it was enrolled, under its own name, and of the best speaker.

    Each line once.
    """
    said = probe.warnings if isinstance(probe, Speaker) else ()
    lines = [
        TESTED + line.removeprefix(ENROLLED) if line.startswith(ENROLLED) else line for line in said
    ]
    return tuple(dict.fromkeys((*lines, *enrolled)))


def decision_of(answer: Verification | Identification) -> Decision:
    """A line of the audit log."""
    if isinstance(answer, Identification):
        kind, speaker, needed = "identify", answer.best or "", answer.needed
        accepted = answer.speaker is not None
    else:
        kind, speaker, needed = "verify", answer.speaker, answer.threshold
        accepted = answer.accept
    return Decision(
        answer.time,
        kind,
        speaker,
        "accept" if accepted else "reject",
        answer.llr if math.isfinite(answer.llr) else None,
        needed,
        answer.posterior,
        answer.prior,
        answer.cost_miss,
        answer.cost_fa,
        answer.seconds,
        answer.model,
    )
