"""What is kept of an enrolled speaker and of each of its utterances; short when printed."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.values import shown

Float32 = NDArray[np.float32]


def short(fingerprint: str) -> str:
    """The beginning of a model's fingerprint, as people tell models apart."""
    return f"model {fingerprint[:4]}..." if fingerprint else "model not known"


@dataclass(frozen=True, eq=False, repr=False)
class Utterance:
    """One utterance of a speaker; what is not known is None."""

    voiceprint: Float32
    """(K,): of this utterance alone."""
    seconds: float | None = None
    """Seconds of speech."""
    length: float | None = None
    """Length of the embedding, of models that know which lengths are usual."""
    embedding: Float32 | None = None
    """(D,): of which another model can make its own voiceprint."""
    session: int | None = None
    """Number of the occasion, where the caller told sessions."""
    count: int = 1
    """How many utterances this stands for: above 1 if only their common voiceprint is known."""
    number: int | None = None
    """By which a gallery knows it."""
    time: datetime | None = None
    """When it came into a gallery, or what the caller said."""
    source: str = ""
    """What the caller said of where it is from."""
    warnings: tuple[str, ...] = ()
    """Of an utterance of which neither length nor seconds were kept."""

    def __repr__(self) -> str:
        parts = [] if self.number is None else [f"number {self.number}"]
        parts += [f"{self.count} utterances"] if self.count > 1 else []
        parts += ["seconds not known" if self.seconds is None else f"{self.seconds:.1f} s"]
        parts += [] if self.time is None else [self.time.isoformat(timespec="seconds")]
        parts += [repr(self.source)] if self.source else []
        parts += ["with embedding"] if self.embedding is not None else []
        return f"Utterance({', '.join(parts)})"


@dataclass(frozen=True, eq=False, repr=False)
class Speaker:
    """What is kept of an enrolled speaker; numpy reads it as its voiceprints.

    >>> ann = backend.enroll(calls, seconds)
    >>> np.asarray(ann).shape == (len(calls), backend.info.voiceprint_dim)
    True
    """

    voiceprints: Float32
    """(n, K): LLRs against several voiceprints are averaged."""
    warnings: tuple[str, ...] = ()
    """Where the enrolment lies outside what training saw."""
    model: str = ""
    """Fingerprint of the model that made it; empty if that is not known."""
    parent: str = ""
    """If that model is adapted to a place, fingerprint of the one that it was made of."""
    utterances: tuple[Utterance, ...] = ()
    """What the voiceprints were made of, as far as that is known."""
    way: str = ""
    """How several utterances were taken together: `joint`, `scores` or `voiceprints`."""
    name: str = ""
    """Its id in the gallery that it comes from."""

    def __post_init__(self) -> None:
        told = self.model, self.parent, self.way, self.name
        if not all(isinstance(text, str) for text in told):
            raise InputError("speaker: model and parent are fingerprints, or empty")
        lines = self.warnings
        if not isinstance(lines, tuple) or not all(isinstance(line, str) for line in lines):
            raise InputError(f"speaker: warnings are {shown(lines)}; expected lines of text")
        if not all(isinstance(it, Utterance) for it in self.utterances):
            raise InputError(f"speaker: utterances are {shown(self.utterances)}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy:
            return np.array(self.voiceprints, dtype=dtype)
        return np.asarray(self.voiceprints, dtype=dtype)

    @property
    def seconds(self) -> float | None:
        """Seconds of speech of all utterances; None if one's are not known."""
        known = [it.seconds for it in self.utterances if it.seconds is not None]
        return sum(known) if known and len(known) == len(self.utterances) else None

    def __repr__(self) -> str:
        count = sum(it.count for it in self.utterances)
        what, number = ("utterance", count) if count else ("voiceprint", len(self.voiceprints))
        parts = [repr(self.name)] if self.name else []
        parts += [f"{number} {what}{'' if number == 1 else 's'}"]
        parts += [] if self.seconds is None else [f"{self.seconds:.1f} s"]
        return f"Speaker({', '.join([*parts, short(self.model)])})"
