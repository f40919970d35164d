"""What may be behind ids that are missing: one more part of the message, that leads on.

Looked into only when a trial list and its tables do not fit, so it may read a table again.
"""

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
    for side in (sides.test, sides.enroll):
        table = side.source.vectors
        names = [name for name, lacks in side.missing.items() if lacks == table]
        found = _ending(side.source, names[:_TRIED], trials.place)
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
    if not names or not can_be_read_again(source.vectors):
        return ""
    for ending in _ENDINGS:
        cut = {name.removesuffix(ending) for name in names if name.endswith(ending)}
        pattern = ending.replace(".", "\\.")
        if cut and _has_any(source, cut):
            return (
                f"the ids match once '{ending}' is cut: sed 's/{pattern}//g' {place} > trials.cut"
            )
        added = {name + ending for name in names if not name.endswith(ending)}
        if added and _has_any(source, added):
            return f"the table's ids end in '{ending}', those of the trials do not: make them equal"
    return ""


def _has_any(source: Source, names: set[str]) -> bool:
    try:
        return bool(read_vectors(source.vectors, source.scp_root, names).ids)
    except DcapldaError:
        return False  # the message is about something else
