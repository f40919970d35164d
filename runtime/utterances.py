"""From utterances to a speaker, and whether the utterances of a speaker agree with each other.

The same utterances in the same order give the same bytes: one that was added and is taken away
again leaves no trace.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import checks, several
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.records.speaker import Float32, Speaker, Utterance
from dcaplda.runtime.values import shown
from dcaplda.runtime.verification import enrolled_voiceprints

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend


def speaker_of(
    backend: "Backend", utterances: Sequence[Utterance], way: str = "", name: str = ""
) -> Speaker:
    """The speaker of these utterances, as if enrolled with all of them at once."""
    way = way or several.resolved_way(backend, "auto")
    singles = np.stack([it.voiceprint for it in utterances])
    rows = singles
    if len(utterances) > 1 and way == "joint":
        together = np.zeros(len(singles), np.int64)
        numbers = session_column(utterances)
        rows = several.merged_voiceprints(backend, singles, together, 1, numbers)
    elif len(utterances) > 1 and way == "voiceprints":
        rows = _averaged(backend, utterances)
    return Speaker(
        checks.made_voiceprints(rows),
        enrolment_warnings(backend, utterances),
        backend.info.fingerprint,
        backend.info.parent,
        tuple(utterances),
        way,
        name,
    )


def _averaged(backend: "Backend", utterances: Sequence[Utterance]) -> Float32:
    """By averaged inputs, for which all embeddings are needed."""
    found = [it.embedding for it in utterances if it.embedding is not None]
    times = [it.seconds for it in utterances if it.seconds is not None]
    if len(found) < len(utterances):
        raise InputError(
            "speaker: was enrolled by averaging inputs (multi_enroll='voiceprints'), which takes "
            "the embeddings of all utterances; keep them (Gallery.open, keep_embeddings=True), or "
            "enrol again with multi_enroll='scores'"
        )
    seconds = times if len(times) == len(utterances) else None
    made = backend.enroll(np.stack(found), seconds, multi_enroll="voiceprints")
    return made.voiceprints


def enrolment_warnings(backend: "Backend", utterances: Sequence[Utterance]) -> tuple[str, ...]:
    """Where utterances lie outside of what training saw; the worst of those that are known."""
    lines = [line for it in utterances for line in it.warnings]
    known = [it for it in utterances if it.length is not None]
    if known and backend.familiarity.informed:
        times = [it.seconds for it in known if it.seconds is not None]
        singles = np.stack([it.voiceprint for it in known])
        lengths = [it.length for it in known if it.length is not None]
        distances = backend.familiarity.distances(singles)
        lines += backend.familiarity.warnings(times or None, lengths, distances, "enrolment")
    return tuple(dict.fromkeys(lines))


def new_utterances(
    backend: "Backend", embeddings: ArrayLike, seconds: ArrayLike | None
) -> list[Utterance]:
    """Embeddings (D,) or (n, D) as utterances of this model, none of them in a session."""
    made = backend.enroll(embeddings, seconds, multi_enroll="scores")
    return list(made.utterances)


def kept_apart(backend: "Backend", speaker: Speaker) -> tuple[Utterance, ...]:
    """A speaker's utterances; of one whose utterances are not known, what its voiceprints tell."""
    if speaker.utterances:
        return speaker.utterances
    counts = [1] * len(speaker.voiceprints)
    if backend.joint is not None:
        sides = backend.joint.sides(speaker.voiceprints)
        counts = np.rint(sides.count).astype(int).tolist()
    rows = [
        Utterance(row, count=count) for row, count in zip(speaker.voiceprints, counts, strict=True)
    ]
    # What was said of all of them is kept with the first.
    return (replace(rows[0], warnings=speaker.warnings), *rows[1:])


def changed(
    backend: "Backend",
    speaker: Speaker | ArrayLike,
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    more: bool,
    sessions: ArrayLike | None = None,
) -> Speaker:
    """A speaker with more utterances, or with fewer."""
    enrolled = enrolled_voiceprints(backend, speaker)
    before = speaker if isinstance(speaker, Speaker) else Speaker(enrolled)
    if backend.joint is not None and len(enrolled) == 1:
        return _joint_changed(backend, before, embeddings, seconds, more, sessions)
    new = new_utterances(backend, embeddings, seconds)
    several.session_numbers(backend, sessions, len(new))  # of such speakers there are none
    old = kept_apart(backend, before)
    left = [*old, *new] if more else _without(old, new)
    return speaker_of(backend, left, before.way or "scores", before.name)


def _joint_changed(
    backend: "Backend",
    before: Speaker,
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    more: bool,
    sessions: ArrayLike | None,
) -> Speaker:
    """By sums and counts: the voiceprint alone is enough, and the utterances in it become one."""
    change = several.with_utterances if more else several.without_utterances
    rows = change(backend, before.voiceprints, embeddings, seconds, sessions)
    made = checks.made_voiceprints(rows)
    new = new_utterances(backend, embeddings, seconds)
    warnings = before.warnings
    if more:
        found = enrolment_warnings(backend, new)
        warnings += tuple(line for line in found if line not in warnings)
        old = Utterance(before.voiceprints[0], before.seconds, warnings=before.warnings)
        old = replace(old, count=_count(backend, before.voiceprints))
        numbers = several.session_numbers(backend, sessions, len(new))
        utterances = (old, *in_sessions([], new, numbers))
    else:
        left = None
        if before.seconds is not None and all(it.seconds is not None for it in new):
            left = max(before.seconds - sum(it.seconds or 0.0 for it in new), 0.0) or None
        count = _count(backend, made)
        utterances = (Utterance(made[0], left, count=count, warnings=warnings),)
    info = backend.info
    return Speaker(made, warnings, info.fingerprint, info.parent, utterances, "joint", before.name)


def _count(backend: "Backend", voiceprint: Float32) -> int:
    """Utterances in a voiceprint (1, K) of a joint model."""
    return round(float(several.joint_needed(backend).sides(voiceprint).count[0]))


def _without(old: Sequence[Utterance], gone: Sequence[Utterance]) -> list[Utterance]:
    """Utterances without some that are among them, up to rounding."""
    left = list(old)
    for number, it in enumerate(gone):
        scale = float(np.abs(it.voiceprint).max())
        far = [float(np.abs(it.voiceprint - other.voiceprint).max()) for other in left]
        if not far or min(far) > 1e-3 * scale:
            raise InputError(f"speaker: embedding {number} is none of its utterances")
        if len(left) == 1:
            raise InputError("speaker: has 1 utterance; at least one must stay")
        del left[int(np.argmin(far))]
    return left


def in_sessions(
    old: Sequence[Utterance], new: Sequence[Utterance], sessions: NDArray[np.int64] | None
) -> list[Utterance]:
    """New utterances with the numbers of their sessions, on which `old` were not heard.

    Untold, they may be of the largest session that the speaker has.
    """
    known = [it.session for it in old if it.session is not None]
    if sessions is not None:
        first = max(known, default=-1) + 1
        return [replace(it, session=first + int(n)) for it, n in zip(new, sessions, strict=True)]
    if not known:
        return list(new)
    weights = np.zeros(max(known) + 1)
    for it in old:
        if it.session is not None:
            weights[it.session] += it.count
    return [replace(it, session=int(np.argmax(weights))) for it in new]


def session_column(utterances: Sequence[Utterance]) -> NDArray[np.int64] | None:
    """Numbers of the sessions; those that were not told share one of their own; None: all."""
    told = [it.session for it in utterances]
    if all(session is None for session in told):
        return None
    return np.array([-1 if session is None else session for session in told], np.int64)


def coherence(backend: "Backend", utterances: Sequence[Utterance], way: str = "") -> list[float]:
    """LLR of each utterance against the others of the speaker taken together.

    By the book where they were enrolled so (joint), else the mean of the LLRs with each of them.
    A wrong recording stands out far below 0; of a single utterance there is nothing to compare.
    """
    if len(utterances) < 2:
        return []
    way = way or several.resolved_way(backend, "auto")
    singles = np.stack([it.voiceprint for it in utterances])
    if way != "joint":
        llrs = backend.compare(singles, singles).astype(np.float64)
        rest = llrs.sum(axis=0) - np.diagonal(llrs)
        return (rest / (len(singles) - 1)).tolist()
    found = []
    for row in range(len(utterances)):
        others = [it for place, it in enumerate(utterances) if place != row]
        enrolled = speaker_of(backend, others, way).voiceprints
        found.append(float(backend.compare(enrolled, singles[row : row + 1])[0, 0]))
    return found


def chosen(utterances: Sequence[Utterance], numbers: Sequence[int], what: str) -> list[int]:
    """Where utterances of these numbers stand; each must be there, once."""
    where = {it.number: place for place, it in enumerate(utterances)}
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number not in where:
            known = ", ".join(str(it) for it in list(where)[:8])
            raise InputError(f"{what}: no utterance {shown(number)} (there are {known})")
    if len(set(numbers)) != len(numbers):
        raise InputError(f"{what}: an utterance is named twice")
    return [where[number] for number in numbers]
