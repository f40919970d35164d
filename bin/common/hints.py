"""What may be behind ids that are missing: one more part of the message, that leads on.

Looked into only when a trial list and its tables do not fit, so it may read a table again.
"""

import os
from typing import TYPE_CHECKING

from dcaplda.bin.common.utterances import Source
from dcaplda.runtime.errors import DcapldaError
from dcaplda.runtime.tables.vectors import can_be_read_again, read_vectors
from dcaplda.runtime.trials.lists import Trials

if TYPE_CHECKING:
    from dcaplda.bin.common.trial_sides import Sides

# Endings that trial lists have and tables have not, or the reverse.
_ENDINGS = (".wav", ".flac", ".m4a", ".mp3", ".sph")
# Missing ids that are tried with and without an ending.
_TRIED = 1000


def about_missing(trials: Trials, sides: "Sides", first_line: tuple[int, int]) -> str:
    """A hint that starts with "; ", or nothing.

    `first_line` holds the model and the test row of the first trial, -1 where there is none.
    """
    tested = set(trials.test_ids)
    enrolled_by = sides.spk2utt or trials.place
    for side, place in ((sides.test, trials.place), (sides.enroll, enrolled_by)):
        names = [name for name, lacks in side.missing.items() if lacks == side.source.vectors]
        if sides.spk2utt and side is sides.enroll is sides.test:
            # One table for both sides: who is tested stands in the trials, the rest in spk2utt.
            names = [name for name in names if (place == trials.place) == (name in tested)]
        found = _ending(side.source, names[:_TRIED], place)
        if found:
            return f"; {found}"
    all_missing = len(sides.models.missing) == len(trials.enroll_ids)
    some_tests = any(name not in sides.test.missing for name in trials.test_ids)
    if not sides.spk2utt and all_missing and some_tests:
        return "; no enrolment id is an utterance: if they are speakers or models, give --spk2utt"
    if max(first_line) < 0:
        return "; is line 1 a header? then use --header"
    return ""


def _ending(source: Source, names: list[str], place: str) -> str:
    """Whether the table has some of the ids with, or without, the ending of an audio file."""
    cut = {
        name.removesuffix(ending): ending
        for ending in _ENDINGS
        for name in names
        if name.endswith(ending)
    }
    added = {name + ending: ending for ending in _ENDINGS for name in names}
    found = _known(source, {*cut, *added})
    for name in found:
        if name in cut:
            ending, pattern = cut[name], cut[name].replace(".", "\\.")
            command = f"sed 's/{pattern}//g' {place} > {os.path.basename(place)}.cut"
            return f"the ids match once '{ending}' is cut: {command}"
        return (
            f"the table's ids end in '{added[name]}', those of the trials do not: make them equal"
        )
    return ""


def _known(source: Source, names: set[str]) -> list[str]:
    """Which of the ids the table has."""
    if not names or not can_be_read_again(source.vectors):
        return []
    try:
        return read_vectors(source.vectors, source.scp_root, names).ids
    except DcapldaError:
        return []  # the message is about something else
