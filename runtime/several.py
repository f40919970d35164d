"""Several utterances on either side of a verification, by the book, for bundles trained for it."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.values import shown

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.joint.rows import JointModel, Sides

Float32 = NDArray[np.float32]

WAYS = ("auto", "joint", "scores", "voiceprints")
"""What a speaker of several utterances is compared by."""


def resolved_way(backend: "Backend", way: str) -> str:
    """`auto` is `joint` where the bundle was trained for it, else the paper's `scores`."""
    if not isinstance(way, str) or way not in WAYS:
        raise InputError(f"multi_enroll = {shown(way)}: expected one of {', '.join(WAYS)}")
    if way == "auto":
        return "scores" if backend.joint is None else "joint"
    if way == "joint":
        joint_needed(backend)
    return way


def joint_needed(backend: "Backend") -> "JointModel":
    """The joint model of a bundle; InputError if it has none."""
    if backend.joint is None:
        raise InputError(
            f"this model ({backend.info.variant}) was not trained for several utterances taken "
            "together, nor for places (joint): enrol with multi_enroll='scores', verify one "
            "utterance at a time, or train with model.joint = true"
        )
    return backend.joint


def merged_voiceprints(
    backend: "Backend",
    singles: Float32,
    groups: NDArray[np.int64],
    n_groups: int,
    sessions: NDArray[np.int64] | None = None,
) -> Float32:
    """One voiceprint of each group of voiceprints; a group of one keeps its bytes.

    `sessions` numbers the session of each voiceprint, where it is known.
    """
    joint = joint_needed(backend)
    made = joint.rows(joint.merged(joint.sides(singles), groups, n_groups, sessions))
    alone = np.bincount(groups, minlength=n_groups)[groups] == 1
    made[groups[alone]] = singles[alone]
    return made


def both_several(backend: "Backend", enroll: Float32, test: Float32) -> bool:
    """Whether both sides have voiceprints of several utterances, which graphs cannot compare."""
    if backend.joint is None:
        return False
    column = backend.joint.layout.tail
    return bool((test[:, column] > 1).any() and (enroll[:, column] > 1).any())


def refuse_both(backend: "Backend", enroll: Float32, test: Float32) -> None:
    """Raise where only single utterances can be compared with speakers of several."""
    if both_several(backend, enroll, test):
        raise InputError(
            "both sides have voiceprints of several utterances; use compare or compare_pairs, "
            "or tests of one utterance each"
        )


def exact_llrs(backend: "Backend", enroll: Float32, test: Float32) -> Float32:
    """LLRs of voiceprints of any numbers of utterances by the closed form itself."""
    joint = joint_needed(backend)
    return joint.llrs(joint.sides(enroll), joint.sides(test)).astype(np.float32)


def exact_pairs(backend: "Backend", enroll: Float32, test: Float32) -> Float32:
    """The same row by row."""
    joint = joint_needed(backend)
    return joint.pair_llrs(joint.sides(enroll), joint.sides(test)).astype(np.float32)


def offsets_to_groups(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Group number of each row, from offsets that cut rows into groups."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def one_side(
    backend: "Backend",
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    sessions: ArrayLike | None = None,
) -> "Sides":
    """Utterances (m, D) of one speaker as one side."""
    joint = joint_needed(backend)
    singles = backend.voiceprints(embeddings, seconds)
    numbers = session_numbers(backend, sessions, len(singles))
    return joint.merged(joint.sides(singles), np.zeros(len(singles), np.int64), 1, numbers)


def session_numbers(
    backend: "Backend", sessions: ArrayLike | None, count: int
) -> NDArray[np.int64] | None:
    """Numbers from 0 of sessions that are named by words or numbers; None if they are not told."""
    if sessions is None:
        return None
    joint_needed(backend)
    try:
        names = np.asarray(sessions)
        found = np.unique(names, return_inverse=True)[1] if names.shape == (count,) else None
    except Exception:  # words among numbers, or whatever the class of a caller's object raises
        found = None
    if found is None:
        raise InputError(f"sessions: expected a list of {count}, one for each embedding")
    return found.reshape(-1).astype(np.int64)


def llr_of_sides(backend: "Backend", enrolled: Float32, test: "Sides") -> float:
    """LLR of a speaker's voiceprint with several test utterances taken together."""
    joint = joint_needed(backend)
    return float(joint.llrs(joint.sides(enrolled), test).mean())


def with_utterances(
    backend: "Backend",
    voiceprints: Float32,
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    sessions: ArrayLike | None = None,
) -> Float32:
    """A speaker's voiceprint with more utterances in it; `sessions` are new ones of hers."""
    joint = joint_needed(backend)
    singles = backend.voiceprints(embeddings, seconds)
    numbers = session_numbers(backend, sessions, len(singles))
    if numbers is not None:
        numbers = np.concatenate([[-1], numbers])
    both = joint.sides(np.concatenate([_one(voiceprints), singles]))
    return joint.rows(joint.merged(both, np.zeros(len(both), np.int64), 1, numbers))


def without_utterances(
    backend: "Backend",
    voiceprints: Float32,
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    sessions: ArrayLike | None = None,
) -> Float32:
    """A speaker's voiceprint without utterances that are in it; `sessions` go as a whole."""
    joint = joint_needed(backend)
    part = one_side(backend, embeddings, seconds, sessions)
    left = joint.without(joint.sides(_one(voiceprints)), part, sessions is not None)
    return joint.rows(left)


def _one(voiceprints: Float32) -> Float32:
    if len(voiceprints) != 1:
        raise InputError(
            f"speaker: {len(voiceprints)} voiceprints; enrol with multi_enroll='joint' to add or "
            "remove utterances"
        )
    return voiceprints
