"""Score normalization for score-trials: the cohort's table and the normalized scores."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.options import Log
from dcaplda.bin.common.utterances import Source, load
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError, UsageError
from dcaplda.runtime.trials.score_norm import (
    check_cohort,
    enrolled_statistics,
    normalize,
    tested_statistics,
)

if TYPE_CHECKING:
    from dcaplda.bin.score_trials import Options

Index = NDArray[np.int64]
Float32 = NDArray[np.float32]


def check_options(options: "Options") -> None:
    """Raise ValueError for combinations that mean nothing."""
    if options.score_norm not in ("", "s", "as"):
        raise ValueError(f"--score-norm={options.score_norm}: expected s or as")
    if bool(options.score_norm) != bool(options.cohort):
        raise ValueError("--score-norm and --cohort go together")
    if (options.score_norm == "as") != bool(options.top_n):
        raise ValueError("--score-norm=as needs --top-n=N, and only it does")
    if options.score_norm and (options.prior is not None or options.short == "zero"):
        raise ValueError(
            "--score-norm gives scores that are not LLRs: no --prior, no --short=zero; "
            "calibrate them first (calibrate-scores)"
        )


def read_cohort(options: "Options", backend: Backend, log: Log) -> Float32:
    """Voiceprints of the cohort; every member must be complete."""
    timed = backend.info.uses_durations
    source = Source(
        vectors=options.cohort,
        durations=options.cohort_durations,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
    )
    if timed and not source.durations:
        raise UsageError("this model needs the seconds of speech: give --cohort-durations")
    utterances = load(source, None, backend, timed, log)
    if utterances.missing:
        name, table = next(iter(utterances.missing.items()))
        count = len(utterances.missing)
        raise InputError(f"'{table}': {count} of the cohort are not in it, first '{name}'")
    check_cohort(len(utterances.ids), options.top_n or None)
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
