"""RTTM, the lines that diarizers write: who speaks from when for how long."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import Writer, read_input
from dcaplda.runtime.tables.text_lines import decoded, normalised

SPEAKER = "SPEAKER"
LONGEST = 1e7
"""Seconds, as everywhere."""


class Turn(NamedTuple):
    """Somebody speaks."""

    recording: str
    start: float
    seconds: float
    speaker: str


def read_rttm(source: str) -> list[Turn]:
    """The SPEAKER lines of a file, in its order; other kinds of lines are passed over.

    A line is `SPEAKER recording channel start seconds <NA> <NA> speaker ...`; start is at least 0,
    and a turn lasts.
    """
    turns = []
    text = decoded(normalised(bytes(read_input(source)), source), source)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith(";;") or words[0] != SPEAKER:
            continue
        place = f"'{source}' line {number}"
        if len(words) < 8:
            raise TableError(f"{place}: {len(words)} words; a SPEAKER line of RTTM has 8 or more")
        start, seconds = (_time(words[i], place, i == 4) for i in (3, 4))
        turns.append(Turn(words[1], start, seconds, words[7]))
    if not turns:
        raise TableError(f"'{source}': no SPEAKER line in it; is it RTTM?")
    return turns


def _time(text: str, place: str, lasts: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= LONGEST or (lasts and not value):
        what = "seconds above 0" if lasts else "a start of 0 s or later"
        raise TableError(f"{place}: expected {what}, found '{text[:40]}'")
    return value


def write_rttm(turns: Iterable[Turn], stream: Writer) -> None:
    """Lines of turns, to milliseconds."""
    for turn in turns:
        line = f"{SPEAKER} {turn.recording} 1 {turn.start:.3f} {turn.seconds:.3f}"
        stream.write(f"{line} <NA> <NA> {turn.speaker} <NA> <NA>\n".encode())


def speech_of(turns: Sequence[Turn]) -> dict[str, dict[str, float]]:
    """Seconds of speech of each speaker of each recording."""
    found: dict[str, dict[str, float]] = {}
    for turn in turns:
        own = found.setdefault(turn.recording, {})
        own[turn.speaker] = own.get(turn.speaker, 0.0) + turn.seconds
    return found
