"""The answer of a verification, and the rule that decides."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from dcaplda.runtime.records.speaker import short


@dataclass(frozen=True, repr=False)
class Verification:
    """The answer to "is this the speaker?", with all that an audit asks for."""

    llr: float
    """Natural logarithm of the likelihood ratio of same against different speakers."""
    posterior: float
    """Probability of the same speaker, given the prior."""
    threshold: float
    """The LLR from which on accepting costs less than rejecting (eq. 3)."""
    accept: bool
    """Whether the LLR reaches the threshold."""
    warnings: tuple[str, ...] = ()
    """Where either side lies outside what training saw: there the LLR deserves less trust."""
    speaker: str = ""
    """Id of the speaker, if it came out of a gallery."""
    seconds: float | None = None
    """Seconds of speech of the test, all utterances together; None if they were not told."""
    prior: float = math.nan
    cost_miss: float = 1.0
    cost_fa: float = 1.0
    model: str = ""
    """Fingerprint of the model."""
    time: float = field(default=0.0, compare=False)
    """When it was decided, in seconds since 1970 (UTC)."""

    def __repr__(self) -> str:
        word, sign = ("accept", ">=") if self.accept else ("reject", "<")
        parts = [word, f"LLR {self.llr:.2f} {sign} {self.threshold:.2f}"]
        parts += [f"speaker {self.speaker!r}"] if self.speaker else []
        parts += [] if self.seconds is None else [f"{self.seconds:.1f} s"]
        parts += [short(self.model)]
        if self.warnings:
            parts.append(f"{len(self.warnings)} warning{'s' if len(self.warnings) > 1 else ''}")
        return f"Verification({', '.join(parts)})"

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON takes it, for an audit; no vectors."""
        return asdict(self) | {"warnings": list(self.warnings)}


class Rule(NamedTuple):
    """What decides, and what it follows from."""

    threshold: float
    odds: float
    """Prior log odds."""
    prior: float
    cost_miss: float
    cost_fa: float
