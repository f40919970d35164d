"""Whether a tool's inputs look like what training saw: a line about each table that does not.

With --strict such a line is an error, before anything is written.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.option_groups import Strict
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.utterances import Utterances
from dcaplda.runtime import checks
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError, UsageError
from dcaplda.runtime.familiarity import Familiarity
from dcaplda.runtime.surveys.mistakes import (
    NOTE,
    WRONG,
    Finding,
    look_at_distances,
    look_at_lengths,
    look_at_place,
    look_at_seconds,
)

Judged = Iterable[tuple[str, Finding | None]]
"""Tables and what was found about each."""


def refuse_strict(options: Strict, known: Familiarity) -> None:
    """Refuse --strict with a bundle that does not tell what training saw."""
    if options.strict and not known.informed:
        raise UsageError(
            "--strict: this bundle does not tell what training saw (imported, or exported without "
            "training_summary.json), so nothing can be compared with it; leave --strict out"
        )


def say_unknown(known: Familiarity, log: Log) -> None:
    """Say at the end that a bundle does not tell what training saw: no warning means nothing."""
    if not known.informed:
        log.info("this bundle does not tell what training saw: inputs were not compared with it")


def judge_tables(
    options: Strict, known: Familiarity, tables: Iterable[Utterances], log: Log, least: float = 0.0
) -> None:
    """Look at lengths of embeddings and at durations; those under `least` seconds may be odd."""
    found: list[tuple[str, Finding | None]] = []
    for table in {id(table): table for table in tables}.values():
        if table.source.are_voiceprints or not table.ids:
            continue
        found += judged_vectors(table.source.vectors, table.matrix, known)
        if table.seconds is not None:
            seconds = table.seconds[table.seconds >= least]
            found.append((table.source.durations, look_at_seconds(seconds, known)))
    settle(options, found, log)


def judged_vectors(
    place: str, matrix: NDArray[np.float32], known: Familiarity
) -> list[tuple[str, Finding | None]]:
    """What the lengths of a table of embeddings say."""
    return [(place, look_at_lengths(checks.lengths(matrix), known))] if len(matrix) else []


def judge_voiceprints(
    options: Strict, backend: Backend, place: str, voiceprints: NDArray[np.float32], log: Log
) -> None:
    """Look at the side-information that voiceprints hold, and at their place."""
    if not len(voiceprints):
        return
    known, joint = backend.familiarity, backend.joint
    found: list[tuple[str, Finding | None]] = []
    if known.side is not None:
        found.append((place, look_at_distances(known.side.distances(voiceprints), known)))
    if joint is not None and joint.scorer.known > 0:
        told = voiceprints[:, -1].astype(np.float64)
        found.append((place, look_at_place(told, joint.scorer.known)))
    settle(options, found, log)


def settle(options: Strict, judged: Judged, log: Log) -> None:
    """Say what was found, or refuse with all that is wrong at once."""
    told = [(f"'{place}': {finding.text}", finding.weight) for place, finding in judged if finding]
    wrong = [text for text, weight in told if weight == WRONG]
    if wrong and options.strict:
        raise InputError(f"--strict: {'; '.join(wrong)}")
    for text, weight in told:
        if weight == WRONG:
            log.warning(text)
        elif weight == NOTE:
            log.info(text)
        else:
            log.debug(text)
