"""Enrolment and verification: from embeddings to a speaker, from a speaker to a decision."""

import math
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime import checks, several
from dcaplda.runtime.bundle.manifest import VERIFY
from dcaplda.runtime.decision import bayes_threshold, check_costs, check_prior, log_odds
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.records.answer import Rule, Verification
from dcaplda.runtime.records.speaker import Float32, Speaker, Utterance
from dcaplda.runtime.values import are_seconds

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

_STRANGE = "no finite LLR; is it an embedding of the kind that the model was trained on?"


def enroll(
    backend: "Backend",
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    multi_enroll: str,
    sessions: ArrayLike | None = None,
) -> Speaker:
    """A speaker from one or several utterances; see Backend.enroll."""
    multi_enroll = several.resolved_way(backend, multi_enroll)
    # A copy: the speaker keeps it, whatever the caller does with what was handed over.
    matrix = checks.embeddings(embeddings, "embeddings", backend.info.embedding_dim).copy()
    count = len(matrix)
    if sessions is not None and multi_enroll != "joint":
        raise InputError(
            f"sessions: multi_enroll='{multi_enroll}' takes utterances one by one; sessions count "
            "in joint voiceprints (models trained with model.joint = true)"
        )
    numbers = several.session_numbers(backend, sessions, count)
    times = _seconds(backend, seconds, count)
    averaging = multi_enroll == "voiceprints" and count > 1
    groups = np.zeros(count, np.int64) if averaging else None
    voiceprints = checks.made_voiceprints(_voiceprints(backend, matrix, times, groups))
    # Each utterance is looked at by itself; an average may hide one that is strange.
    singles = voiceprints if groups is None else _voiceprints(backend, matrix, times)
    if multi_enroll == "joint" and count > 1:
        together = np.zeros(count, np.int64)
        voiceprints = several.merged_voiceprints(backend, voiceprints, together, 1, numbers)
    told = None if seconds is None else times.tolist()
    lengths: list[float] | None = None
    warnings: tuple[str, ...] = ()
    if backend.familiarity.informed:
        lengths = checks.lengths(matrix).tolist()
        distances = backend.familiarity.distances(singles)
        warnings = backend.familiarity.warnings(told, lengths, distances, "enrolment")
    utterances = tuple(
        Utterance(
            singles[row],
            None if told is None else told[row],
            None if lengths is None else lengths[row],
            matrix[row],
            None if numbers is None else int(numbers[row]),
        )
        for row in range(count)
    )
    info = backend.info
    return Speaker(voiceprints, warnings, info.fingerprint, info.parent, utterances, multi_enroll)


def verify(
    backend: "Backend",
    speaker: Speaker | ArrayLike,
    embedding: ArrayLike,
    seconds: ArrayLike | None,
    prior: float,
    cost_miss: float,
    cost_fa: float,
) -> Verification:
    """Compare a speaker with one utterance and decide; see Backend.verify."""
    rule = decision_rule(prior, cost_miss, cost_fa)
    enrolled = enrolled_voiceprints(backend, speaker)
    if _are_several(embedding):
        return _verify_several(backend, speaker, enrolled, embedding, seconds, rule)
    matrix = _one_embedding(backend, embedding)
    times = _seconds(backend, seconds, 1)
    llr, norm, distance = _compared(backend, enrolled, matrix, times)
    if not math.isfinite(llr) or not 0.0 < norm <= checks.EMBEDDING.longest:
        # One value that is not finite makes the LLR so; a vector of zeros may not, and one of
        # tiny numbers has no length in float32 but is fine.
        checks.embeddings(matrix, "embedding", backend.info.embedding_dim)
        if not math.isfinite(llr):
            raise InputError(f"embedding: {_STRANGE}")
        norm = checks.lengths(matrix).item()
    warnings = speaker.warnings if isinstance(speaker, Speaker) else ()
    known = backend.familiarity
    duration = None if seconds is None else times.item()
    if known.informed and not known.usual(duration, norm, distance):
        given = None if duration is None else [duration]
        warnings += known.warnings(given, [norm], [distance], "test")
    return decided(llr, rule, warnings, backend, speaker, duration)


def _seconds(backend: "Backend", seconds: ArrayLike | None, count: int) -> checks.Float32:
    """Seconds of speech of each row; one plain number, the usual case, in a tenth of the time."""
    if type(seconds) is float and count == 1 and are_seconds(seconds):
        return np.array([seconds], np.float32)
    return checks.seconds(seconds, "durations", count, backend.info.uses_durations)


def _are_several(embedding: ArrayLike) -> bool:
    """Whether this is a matrix of two rows or more; what is no matrix at all is refused later."""
    try:
        shape = np.shape(embedding)
    except Exception:  # whatever the class of a caller's object raises
        return False
    return len(shape) == 2 and shape[0] > 1


def _verify_several(
    backend: "Backend",
    speaker: Speaker | ArrayLike,
    enrolled: Float32,
    embeddings: ArrayLike,
    seconds: ArrayLike | None,
    rule: Rule,
) -> Verification:
    """Several test utterances of one speaker, taken together."""
    several.joint_needed(backend)
    dim = backend.info.embedding_dim
    matrix = checks.embeddings(embeddings, "embedding", dim)
    times = checks.seconds(seconds, "durations", len(matrix), backend.info.uses_durations)
    llr = several.llr_of_sides(backend, enrolled, several.one_side(backend, matrix, times))
    warnings = speaker.warnings if isinstance(speaker, Speaker) else ()
    warnings += test_warnings(backend, test_figures(backend, matrix, times))
    return decided(llr, rule, warnings, backend, speaker, total_seconds(seconds, times))


Figures = tuple[list[float], list[float], list[float]]


def test_figures(backend: "Backend", matrix: Float32, seconds: Float32) -> Figures:
    """Seconds, length and distance of each test utterance, for `test_warnings`."""
    known = backend.familiarity
    if known.side is None:
        distances = [0.0] * len(matrix)
    else:
        distances = known.distances(_voiceprints(backend, matrix, seconds))
    return seconds.tolist(), checks.lengths(matrix).tolist(), distances


def test_warnings(backend: "Backend", figures: Figures) -> tuple[str, ...]:
    """Where test utterances lie outside of what training saw: the worst of them."""
    known = backend.familiarity
    return known.warnings(*figures, "test") if known.informed else ()


def decided(
    llr: float,
    rule: Rule,
    warnings: tuple[str, ...],
    backend: "Backend",
    speaker: Speaker | ArrayLike,
    seconds: float | None,
) -> Verification:
    """The answer, with what it was made of."""
    # Part of every verification: the __init__ of a frozen class takes three times as long.
    made = object.__new__(Verification)
    made.__dict__.update(
        llr=llr,
        posterior=_sigmoid(llr + rule.odds),
        threshold=rule.threshold,
        accept=llr >= rule.threshold,
        warnings=warnings,
        speaker=speaker.name if isinstance(speaker, Speaker) else "",
        seconds=seconds,
        prior=rule.prior,
        cost_miss=rule.cost_miss,
        cost_fa=rule.cost_fa,
        model=backend.info.fingerprint,
        time=time.time(),
    )
    return made


def total_seconds(given: ArrayLike | None, seconds: Float32) -> float | None:
    """Seconds of speech of several utterances; None if the caller gave none."""
    return None if given is None else float(seconds.sum(dtype=np.float64))


def decision_rule(prior: float, cost_miss: float, cost_fa: float) -> Rule:
    """Threshold and prior log odds."""
    try:
        return _decision_rule(prior, cost_miss, cost_fa)
    except TypeError:  # no key of the cache: an array of no dimensions, or no number at all
        return _decision_rule(check_prior(prior), *check_costs(cost_miss, cost_fa))


# A product asks with the same prior and costs again and again.
@lru_cache(maxsize=64, typed=True)
def _decision_rule(prior: float, cost_miss: float, cost_fa: float) -> Rule:
    threshold = bayes_threshold(prior, cost_miss, cost_fa)
    return Rule(threshold, log_odds(prior), float(prior), float(cost_miss), float(cost_fa))


def _compared(
    backend: "Backend", enrolled: Float32, matrix: Float32, seconds: Float32
) -> tuple[float, float, float]:
    """LLR of a speaker and one utterance; length of its embedding, distance of its z.

    One graph does it all where the model has it: a verification then leaves Python once, so
    that threads hand the interpreter's lock around less often, and Python, whose data the
    graph's weights have driven out of the core's cache, has little left to do.
    """
    if VERIFY not in backend.info.further_graphs:
        test = _voiceprints(backend, matrix, seconds)
        llrs = backend.tile(enrolled, test)
        (distance,) = backend.familiarity.distances(test)
        return float(llrs.mean(dtype=np.float64)), checks.lengths(matrix).item(), distance
    if len(enrolled) == 1:
        llr, norm, *rest = backend._sessions.bound_verify().run(enrolled, matrix, seconds)
        return llr, norm, rest[0] if rest else 0.0
    inputs = {"enroll": enrolled, "embeddings": matrix, "durations": seconds}
    llrs, *figures = backend._sessions.run_all(VERIFY, inputs)
    norm, *rest = (figure.item() for figure in figures)
    return float(llrs.mean(dtype=np.float64)), norm, rest[0] if rest else 0.0


def _one_embedding(backend: "Backend", embedding: ArrayLike) -> Float32:
    """An embedding as one row; values that are not finite, or all zero, show in the LLR."""
    if type(embedding) is np.ndarray and embedding.dtype == np.float32 and embedding.ndim == 1:
        if len(embedding) == backend.info.embedding_dim and embedding.flags.c_contiguous:
            return embedding.reshape(1, -1)
    matrix = checks.embeddings(embedding, "embedding", backend.info.embedding_dim)
    if len(matrix) != 1:
        raise InputError(f"embedding: {len(matrix)} rows; verify takes one utterance at a time")
    return matrix


def enrolled_voiceprints(backend: "Backend", speaker: Speaker | ArrayLike) -> Float32:
    """Voiceprints (n, K) of a speaker, if they are this model's."""
    if speaker is None:
        raise InputError(
            "speaker: None, which Gallery.get gives for an id that is not there; look before, or "
            "use Gallery.verify, which names it"
        )
    if not isinstance(speaker, Speaker):
        return backend.checked_voiceprints(speaker, "speaker")
    if speaker.model == backend.info.fingerprint:
        return backend.checked_voiceprints(speaker.voiceprints, "speaker")
    if speaker.model:
        info = backend.info
        kin = {speaker.model, speaker.parent} & {info.fingerprint, info.parent} - {""}
        way = ", or compare the two places by Places.from_backends" if kin else ""
        raise InputError(
            f"speaker: enrolled with another model ({speaker.model[:12]}, this one is "
            f"{info.fingerprint[:12]}); enrol again{way}"
        )
    return backend.checked_voiceprints(speaker.voiceprints, "speaker")


def _sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)) of any number, ten times faster than by numpy."""
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def _voiceprints(
    backend: "Backend", matrix: Float32, seconds: Float32, groups: NDArray[np.int64] | None = None
) -> Float32:
    """Voiceprints of one speaker's few utterances, on the caller's own thread.

    A model that counts the utterances behind an embedding gets ones.
    """
    inputs: dict[str, NDArray[Any]] = {"embeddings": matrix, "durations": seconds}
    for name in backend.info.voiceprint_inputs:
        inputs[name] = np.ones(len(matrix), np.float32)
    if groups is not None:
        if not backend.info.averages_groups:
            raise InputError("this model cannot average utterances; use multi_enroll='scores'")
        inputs["groups"] = groups
    return backend.run_voiceprints(inputs)
