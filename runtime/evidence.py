"""The running evidence of a call: segments come one by one, the LLR is that of all of them."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dcaplda.runtime import checks, several
from dcaplda.runtime.joint.rows import Sides, joined_sides
from dcaplda.runtime.verification import (
    Figures,
    Speaker,
    Verification,
    decided,
    decision_rule,
    enrolled_voiceprints,
    test_figures,
    test_warnings,
)

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend


class Evidence:
    """What was heard so far of a caller who says to be `speaker`; made by Backend.evidence.

    >>> call = backend.evidence(ann, prior=0.01)
    >>> for embedding, seconds in segments:
    ...     answer = call.add(embedding, seconds)
    >>> answer.llr == backend.verify(ann, *all_segments, prior=0.01).llr    # but for rounding
    True
    """

    def __init__(
        self,
        backend: "Backend",
        speaker: Speaker | ArrayLike,
        prior: float,
        cost_miss: float,
        cost_fa: float,
    ) -> None:
        several.joint_needed(backend)
        self._backend = backend
        self._rule = decision_rule(prior, cost_miss, cost_fa)
        self._enrolled = enrolled_voiceprints(backend, speaker)
        self._speaker, self._timed = speaker, True
        self._warnings = speaker.warnings if isinstance(speaker, Speaker) else ()
        self._heard: Sides | None = None
        self._figures: Figures = ([], [], [])

    @property
    def utterances(self) -> int:
        """Segments taken in so far."""
        return 0 if self._heard is None else round(float(self._heard.count[0]))

    def add(self, embedding: ArrayLike, seconds: float | ArrayLike | None = None) -> Verification:
        """Take in one segment (D,), or several (m, D), and answer for all heard so far."""
        backend = self._backend
        joint = several.joint_needed(backend)
        info = backend.info
        matrix = checks.embeddings(embedding, "embedding", info.embedding_dim)
        times = checks.seconds(seconds, "durations", len(matrix), info.uses_durations)
        new = several.one_side(backend, matrix, times)
        heard = new
        if self._heard is not None:
            both = joined_sides([self._heard, new])
            heard = joint.merged(both, np.zeros(2, np.int64), 1)
        llr = several.llr_of_sides(backend, self._enrolled, heard)
        found = test_figures(backend, matrix, times)
        self._heard = heard
        for figures, more in zip(self._figures, found, strict=True):
            figures += more
        # Of all segments: the worst is named, however many there are.
        warnings = self._warnings + test_warnings(backend, self._figures)
        self._timed = self._timed and seconds is not None
        total = sum(self._figures[0]) if self._timed else None
        return decided(llr, self._rule, warnings, backend, self._speaker, total)
