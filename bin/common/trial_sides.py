"""The two sides of a trial list: what has to be read, what is missing, what is too short."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.bin.common.hints import about_missing
from dcaplda.bin.common.option_groups import TrialSides
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.sides import (
    enrolled_side,
    model_voiceprints,
    need_seconds,
    report_incomplete,
    tested_side,
)
from dcaplda.bin.common.utterances import Models, Utterances, arrange, load, read_members
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.trials.lists import Trials

Index = NDArray[np.int64]
Float32 = NDArray[np.float32]
# Ids listed in a message before it says "...".
_SHOWN = 5


@dataclass(frozen=True)
class Sides:
    """Both sides of the trials; `enroll` and `test` are one object if one table serves both."""

    enroll: Utterances
    test: Utterances
    models: Models
    spk2utt: str
    """The table that the models are from; empty if each is an utterance."""

    def voiceprints(
        self, backend: Backend, multi_enroll: str, sessions: Index | None = None
    ) -> tuple[Float32, Float32, Index | None]:
        """Voiceprints of both sides, and the offsets that cut the first into models, if any."""
        test = self.test.voiceprints(backend)
        shared = test if self.enroll is self.test else None
        how = "scores" if self.models.single else multi_enroll
        enroll, offsets = model_voiceprints(
            self.enroll, self.models, how, backend, shared, sessions
        )
        return enroll, test, offsets


def read_sides(
    options: TrialSides,
    backend: Backend,
    enroll_table: str,
    test_table: str,
    trials: Trials,
    log: Log,
) -> Sides:
    """Read what the trials need of both tables, and nothing twice."""
    of_enroll = enrolled_side(options, enroll_table, options.num_utts)
    of_test = tested_side(options, test_table)
    timed = backend.info.uses_durations or options.min_duration > 0
    if not timed and (of_enroll.durations or of_test.durations):
        log.info("this model does not use durations; they are not read")
    timed_enroll = timed and not (options.enroll_voiceprints and not of_enroll.durations)
    why = "this model" if backend.info.uses_durations else "--min-duration"
    for name, source, needed in (("enroll", of_enroll, timed_enroll), ("test", of_test, timed)):
        if needed:
            need_seconds(source.durations, f"--durations=utt2dur or --{name}-durations", why)
    members = read_members(options.spk2utt, trials.enroll_ids)
    enroll_wanted = {name for names in members.values() for name in names}
    test_wanted = set(trials.test_ids)
    if of_enroll == of_test:
        enroll = test = load(of_test, enroll_wanted | test_wanted, backend, timed, log)
    else:
        enroll = load(of_enroll, enroll_wanted, backend, timed_enroll, log)
        test = load(of_test, test_wanted, backend, timed, log)
    models = arrange(trials.enroll_ids, members, options.spk2utt, enroll)
    report_incomplete(models, options.spk2utt, options.allow_missing, log)
    return Sides(enroll, test, models, options.spk2utt)


def match(
    trials: Trials, sides: Sides, allow_missing: bool, log: Log
) -> tuple[Index, Index, NDArray[np.bool_]]:
    """Model and test row of each trial, and whether both are there.

    Missing ids are an error: leaving lines out of the score file would shift all later ones
    against the trials. With `allow_missing` they are reported.
    """
    model = sides.models.number[trials.enroll_index]
    test_row = np.array([sides.test.row.get(name, -1) for name in trials.test_ids], np.int64)
    row = test_row[trials.test_index]
    there = (model >= 0) & (row >= 0)
    if there.all():
        return model, row, there
    missing = [*sides.models.missing.items()]
    missing += [
        (name, sides.test.missing[name]) for name in trials.test_ids if name in sides.test.missing
    ]
    message = (
        f"{int((~there).sum())} of {len(trials)} trials of '{trials.place}' have ids that are "
        f"missing: {_shown(missing)}"
    )
    if not allow_missing or not there.any():
        message += about_missing(trials, sides, (int(model[0]), int(row[0])))
    if not allow_missing:
        raise InputError(message + "; complete the tables, or skip with --allow-missing")
    if not there.any():
        raise InputError(message + "; no trial is left")
    log.warning(message + "; these trials are left out")
    return model, row, there


def _shown(missing: Iterable[tuple[str, str]]) -> str:
    """The first few missing ids, grouped by the table that lacks them."""
    by_table: dict[str, list[str]] = {}
    for name, table in dict.fromkeys(missing):
        by_table.setdefault(table, []).append(name)
    parts = []
    for table, names in by_table.items():
        listed = ", ".join(f"'{name}'" for name in names[:_SHOWN])
        more = ", ..." if len(names) > _SHOWN else ""
        parts.append(f"{len(names)} not in '{table}' ({listed}{more})")
    return ", ".join(parts)


def short_trials(
    least: float, how: str, sides: Sides, model: Index, row: Index
) -> NDArray[np.bool_]:
    """Which trials have a segment, on either side, with less than `least` seconds.

    How is `error`, `zero` or `score`. A model is short if one of its utterances is.
    """
    short = np.zeros(len(model), bool)
    if not least:
        return short
    for side in {id(side): side for side in (sides.enroll, sides.test)}.values():
        if side.seconds is None:
            continue
        flagged = side.seconds < least
        if how == "error" and flagged.any():
            first = int(flagged.argmax())
            raise InputError(
                f"'{side.source.durations}': '{side.ids[first]}' has {side.seconds[first]:g} "
                f"seconds ({int(flagged.sum())} such segments), less than --min-duration="
                f"{least:g}; leave it out, or choose --short=zero or --short=score"
            )
        if side is sides.enroll:
            short |= sides.models.any_of(flagged)[model]
        if side is sides.test:
            short |= flagged[row]
        if how == "zero":
            _lengthen(side, least)
    return short


def _lengthen(side: Utterances, least: float) -> None:
    """Give short segments a duration that a model accepts: their LLRs are not used."""
    assert side.seconds is not None
    if (side.seconds < 0).any():
        first = int((side.seconds < 0).argmax())
        raise InputError(
            f"'{side.source.durations}': '{side.ids[first]}' has {side.seconds[first]:g} seconds"
        )
    side.seconds = np.maximum(side.seconds, least)
