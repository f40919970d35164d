"""The utterances of one recording, compared with one another.

A recording is a place of its own: one microphone, one room. Its utterances, of whoever they are,
tell of that place what unlabelled utterances always tell (docs/adaptation.md), so a joint model can
be moved to it before it compares them. It may also have a calibration of its own for utterances of
one session (model.recordings), which agree more than those of two days.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime.adaptation import seems_one_voice
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.clustering.linkage import Labels, average_link, by_the_book
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.joint.layout import LENGTHS_AT, PLACE_AT
from dcaplda.runtime.joint.place import adapted
from dcaplda.runtime.joint.rows import JointModel, Sides
from dcaplda.runtime.joint.scorer import JointScorer

Float32 = NDArray[np.float32]
LINKS = ("auto", "joint", "average")


@dataclass(frozen=True)
class Recording:
    """Voiceprints of a recording's utterances and, of a joint model, what stands behind them."""

    backend: Backend
    voiceprints: Float32
    model: JointModel | None = None
    sides: Sides | None = None
    moved: bool = False
    """Whether the model was moved to the recording's own place."""

    def llrs(self) -> Float32:
        """Every utterance with every other; (n, n)."""
        # Graphs compare as any two utterances of a place, and know nothing of this one.
        own = self.model is not self.backend.joint
        if own and self.model is not None and self.sides is not None:
            return self.model.llrs(self.sides, self.sides).astype(np.float32)
        return self.backend.compare(self.voiceprints, self.voiceprints)

    def clusters(self, threshold: float, count: int = 0, link: str = "auto") -> Labels:
        """The number of each utterance's speaker, from 0 in the order of their first utterance.

        `link` is joint (all utterances of a cluster taken together, joint models only) or average
        (the mean LLR of their pairs); auto: joint where it can be. `count` above 0: so many.
        """
        if link not in LINKS:
            raise InputError(f"link '{link}': expected {' or '.join(LINKS)}")
        if link != "average" and self.model is not None and self.sides is not None:
            return by_the_book(self.model, self.sides, threshold, count)
        if link == "joint":
            raise InputError(
                f"{self.backend.directory}: not trained for several utterances (model.joint = "
                "true); take the mean of LLRs (average)"
            )
        return average_link(self.llrs(), threshold, count)


def recording(
    backend: Backend,
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    own_place: bool | None = None,
    ids: list[str] | None = None,
) -> Recording:
    """The utterances (n, D) of a recording; `own_place`: they are heard as its place first.

    None: they are, where the model was trained for recordings and is of no other place.
    """
    matrix = np.asarray(embeddings)
    rows = backend.voiceprints(matrix, seconds, ids=ids)
    joint = backend.joint
    if joint is None:
        if own_place:
            raise InputError(
                f"{backend.directory}: this model ({backend.info.variant}) cannot be adapted to a "
                "recording; train with model.joint = true (docs/adaptation.md)"
            )
        return Recording(backend, rows)
    sides = joint.sides(rows)
    if own_place is None:
        own_place = joint.within is not None and joint.scorer.known == 0
    if own_place and joint.scorer.known > 0:
        raise InputError(f"{backend.directory}: is adapted already; give the bundle it was made of")
    if own_place:
        scorer = replace(adapted(joint.scorer, matrix), own=0.0)  # as of_recording
        # One voice does not tell what is the place's and what is its own.
        if not seems_one_voice(len(matrix), scorer.heard):
            return Recording(
                backend,
                rows,
                joint.of_recording().adapted(scorer),
                _moved(sides, scorer, matrix),
                True,
            )
    return Recording(backend, rows, joint.of_recording(), sides)


def _moved(sides: Sides, scorer: JointScorer, embeddings: NDArray[np.floating]) -> Sides:
    """What stands behind single utterances at the place of `scorer`."""
    conditions = sides.conditions.copy()
    conditions[:, LENGTHS_AT] = scorer.lengths(embeddings)
    conditions[:, PLACE_AT] = scorer.place_conditions(embeddings)
    return replace(sides, x=scorer.projected(embeddings), conditions=conditions)
