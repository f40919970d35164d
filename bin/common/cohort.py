"""Score normalization for score-trials: the cohort's table and the normalized scores."""

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.likeness import judge_tables
from dcaplda.bin.common.option_groups import Cohort
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.sides import need_seconds
from dcaplda.bin.common.utterances import Source, load
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.trials.score_norm import (
    check_cohort,
    enrolled_statistics,
    normalize,
    tested_statistics,
)

Index = NDArray[np.int64]
Float32 = NDArray[np.float32]


def read_cohort(options: Cohort, backend: Backend, log: Log) -> Float32:
    """Voiceprints of the cohort; every member must be complete."""
    timed = backend.info.uses_durations
    source = Source(
        vectors=options.cohort,
        durations=options.cohort_durations,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
    )
    if timed:
        need_seconds(source.durations, "--cohort-durations")
    utterances = load(source, None, backend, timed, log)
    if utterances.missing:
        name, table = next(iter(utterances.missing.items()))
        count = len(utterances.missing)
        raise InputError(f"'{table}': {count} of the cohort are not in it, first '{name}'")
    check_cohort(len(utterances.ids), options.top_n or None)
    judge_tables(options, backend.familiarity, [utterances], log)
    return utterances.voiceprints(backend)


def normalized(
    backend: Backend,
    cohort: Float32,
    top_n: int,
    sides: tuple[Float32, Float32, Index | None],
    trials: tuple[Index, Index],
    scores: Float32,
) -> Float32:
    """Normalized scores of trials (model numbers, test rows) between the two sides.

    Statistics are those of all rows, whatever part of the trials is scored: matrix products of
    other sizes would round differently, and the parts must equal the whole.
    """
    enroll, test, offsets = sides
    of_enroll = enrolled_statistics(backend, enroll, cohort, top_n or None, offsets=offsets)
    of_test = tested_statistics(backend, test, cohort, top_n or None)
    return normalize(scores, of_enroll, of_test, *trials)
