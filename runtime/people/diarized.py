"""Names for the speakers that a diarizer found, from a gallery: open set, each name used once."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.runtime.decision import bayes_threshold
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.people.assignment import best_assignment
from dcaplda.runtime.values import shown

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.speakers import Gallery
    from dcaplda.runtime.verification import Speaker


@dataclass(frozen=True)
class Named:
    """Who a diarized speaker is."""

    speaker: str | None
    """A name of the gallery, or None: nobody who is in it."""
    llr: float
    """LLR with that name, or with the likeliest of the gallery; minus infinity if it is empty."""
    warnings: tuple[str, ...] = ()
    """Where the embedding lies outside what training saw."""


def name_speakers(
    gallery: "Gallery",
    speakers: Mapping[str, tuple[ArrayLike, float | None]],
    *,
    prior: float,
    cost_miss: float = 1.0,
    cost_fa: float = 1.0,
) -> dict[str, Named]:
    """Names of the speakers of one recording: label -> (embedding (D,), seconds of speech).

    `prior` is the probability that a speaker is one of the gallery, shared equally; the costs are
    those of leaving somebody unnamed and of a wrong name. All labels are named together, so that
    the sum of LLRs over what each name takes is the largest, and no name is given twice.

    >>> name_speakers(gallery, {"SPEAKER_00": (call, 21.0)}, prior=0.5)["SPEAKER_00"].speaker
    'ann'
    """
    backend = gallery.backend
    needed = bayes_threshold(prior, cost_miss, cost_fa) + math.log(max(len(gallery), 1))
    probes = [_probe(backend, label, *told) for label, told in speakers.items()]
    # Of so many names that each may be taken by another, the one that is left is among the best.
    matches = gallery.search_many(probes, len(probes)) if probes and len(gallery) else []
    names = list(dict.fromkeys(match.speaker for found in matches for match in found))
    gains = np.full((len(probes), len(names)), -np.inf)
    for row, found in enumerate(matches):
        for match in found:
            gains[row, names.index(match.speaker)] = match.llr - needed
    named = {}
    for row, (label, column) in enumerate(zip(speakers, best_assignment(gains), strict=True)):
        best = gains[row].max(initial=-np.inf) if column is None else gains[row, column]
        speaker = None if column is None else names[column]
        named[label] = Named(speaker, float(best + needed), probes[row].warnings)
    return named


def _probe(
    backend: "Backend", label: str, embedding: ArrayLike, seconds: float | None
) -> "Speaker":
    try:
        if np.ndim(embedding) != 1:
            raise InputError(f"an array of {np.ndim(embedding)} dimensions; expected one embedding")
        return backend.enroll(embedding, seconds)
    except InputError as error:
        raise InputError(f"speaker {shown(label)}: {error}") from None
