"""One side of a comparison, as the options describe it: its source, its gaps, its speakers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.likeness import judge_tables, judge_voiceprints
from dcaplda.bin.common.option_groups import Embeddings, SideTables
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.utterances import Models, Source, Utterances, arrange, load, read_members
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError, UsageError
from dcaplda.runtime.several import merged_voiceprints, offsets_to_groups, resolved_way
from dcaplda.runtime.tables.text_tables import read_lists, read_words

Index = NDArray[np.int64]
Float32 = NDArray[np.float32]


def enrolled_side(options: SideTables, table: str, num_utts: str = "") -> Source:
    """The enrolment side."""
    # Voiceprints hold their durations; a table for both sides may not even know their names.
    shared = "" if options.enroll_voiceprints else options.durations
    return Source(
        vectors=table,
        durations=options.enroll_durations or shared,
        num_utts=num_utts,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
        are_voiceprints=options.enroll_voiceprints,
    )


def tested_side(options: SideTables, table: str) -> Source:
    """The test side."""
    return Source(
        vectors=table,
        durations=options.test_durations or options.durations,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
    )


def need_seconds(durations: str, ways: str, why: str = "this model") -> None:
    """Refuse a side without durations; `ways` are the options that would give them."""
    if not durations:
        raise UsageError(
            f"{why} needs the seconds of speech: give {ways} (compute-durations makes such a table)"
        )


def report_missing(missing: dict[str, str], words: str, allow_missing: bool, log: Log) -> None:
    """Refuse ids that a table lacks, or say so; `words` are what that means to the tool."""
    if not missing:
        return
    name, table = next(iter(missing.items()))
    message = f"{len(missing)} {words}, the first is '{name}': not in '{table}'"
    if not allow_missing:
        raise InputError(f"{message}; complete the table, or leave them out with --allow-missing")
    log.warning(message)


def report_incomplete(models: Models, spk2utt: str, allow_missing: bool, log: Log) -> None:
    """Refuse models of which some utterances are missing, or say so."""
    if not models.incomplete:
        return
    name, why = next(iter(models.incomplete.items()))
    if not allow_missing:
        raise InputError(
            f"'{spk2utt}': {len(models.incomplete)} models lack utterances, the first is "
            f"'{name}': {why}; --allow-missing enrols what is there"
        )
    log.warning(
        f"{len(models.incomplete)} models are enrolled without some of their utterances, the "
        f"first is '{name}': {why}"
    )


def model_voiceprints(
    utterances: Utterances,
    models: Models,
    multi_enroll: str,
    backend: Backend,
    made: Float32 | None = None,
    sessions: Index | None = None,
) -> tuple[Float32, Index | None]:
    """Voiceprints of models, and the offsets that cut them if a model has several.

    multi_enroll is one of MULTI_ENROLL; `made` are the voiceprints of all utterances, where
    they are known already; `sessions` number the session of each row of the models.
    """
    way = "scores" if utterances.source.are_voiceprints else resolved_way(backend, multi_enroll)
    groups = offsets_to_groups(models.offsets)
    if way == "voiceprints":
        return utterances.voiceprints(backend, models.rows, groups), None
    if made is None:
        made = utterances.voiceprints(backend)
    if not np.array_equal(models.rows, np.arange(len(made))):
        made = made[models.rows]
    if way == "joint" and not models.single:
        count = len(models.offsets) - 1
        return merged_voiceprints(backend, made, groups, count, sessions), None
    return made, None if models.single else models.offsets


def read_sessions(
    options: Embeddings,
    multi_enroll: str,
    utterances: Utterances,
    models: Models,
    backend: Backend,
    log: Log,
) -> Index | None:
    """Number of the session of each row of the models; None where --sessions is not given."""
    if not options.sessions or models.single:
        return None
    way = resolved_way(backend, multi_enroll)
    if way != "joint":
        raise UsageError(
            f"--sessions={options.sessions}: counts in joint voiceprints; this model takes several "
            f"utterances by {way}: leave it out"
        )
    session_of = read_words(options.sessions)
    names = [utterances.ids[row] for row in models.rows]
    for name in names:
        if name not in session_of:
            raise InputError(f"'{options.sessions}': '{name}' has no session; add it")
    assert backend.joint is not None
    if backend.joint.scorer.correlation == 0:
        log.warning(
            "--sessions changes nothing: this model was trained with init.sample_correlation = 0"
        )
    number = {name: k for k, name in enumerate(sorted(set(session_of.values())))}
    return np.array([number[session_of[name]] for name in names], np.int64)


@dataclass(frozen=True)
class Enrolled:
    """Speakers in the order of their table: speaker s has rows offsets[s]:offsets[s + 1]."""

    names: list[str]
    voiceprints: Float32
    offsets: list[int]
    n_utterances: int


def enrol(
    source: Source,
    options: Embeddings,
    multi_enroll: str,
    words: str,
    backend: Backend,
    timed: bool,
    log: Log,
) -> Enrolled:
    """Voiceprints of every speaker of spk2utt, or of every utterance where there is none."""
    if not options.spk2utt:
        utterances = load(source, None, backend, timed, log)
        report_missing(utterances.missing, words, options.allow_missing, log)
        names, offsets = utterances.ids, None
        judge_tables(options, backend.familiarity, [utterances], log)
        made = utterances.voiceprints(backend)
    else:
        names = list(read_lists(options.spk2utt))
        members = read_members(options.spk2utt, names)
        wanted = {name for group in members.values() for name in group}
        utterances = load(source, wanted, backend, timed, log)
        models = arrange(names, members, options.spk2utt, utterances)
        report_missing(models.missing, words, options.allow_missing, log)
        report_incomplete(models, options.spk2utt, options.allow_missing, log)
        names = [name for name in names if name not in models.missing]
        sessions = read_sessions(options, multi_enroll, utterances, models, backend, log)
        judge_tables(options, backend.familiarity, [utterances], log)
        made, offsets = model_voiceprints(
            utterances, models, multi_enroll, backend, sessions=sessions
        )
    judge_voiceprints(options, backend, source.vectors, made, log)
    cuts = list(range(len(names) + 1)) if offsets is None else offsets.tolist()
    return Enrolled(names, made, cuts, len(utterances.ids))
