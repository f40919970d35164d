"""Recordings that utterances are parts of, and sessions where no table tells them."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import table_source
from dcaplda.runtime.tables.text_lines import read_lines
from dcaplda.runtime.tables.text_tables import NUMBER

# What Kaldi's augmentation scripts append to the ids of degraded copies.
_AUGMENTED = re.compile(r"(-(noise|music|babble|reverb|aug))+$")


class Segment(NamedTuple):
    """A line of `segments`."""

    utterance: str
    recording: str
    start: float
    end: float
    """Seconds; infinite for Kaldi's -1, the end of the recording."""
    channel: str
    """Kaldi's number, from 0; empty where the line has none."""
    line: int


def read_segments(table: str) -> Iterator[Segment]:
    """The lines of a `segments` file."""
    for number, line in enumerate(read_lines(table_source(table)), 1):
        words = line.split(" ")
        if len(words) not in (4, 5) or not all(NUMBER.fullmatch(word) for word in words[2:4]):
            raise TableError(
                f"'{table}' line {number}: expected 'utterance recording start end', "
                f"found {line[:60]!r}"
            )
        start, end = float(words[2]), float(words[3])
        if not 0 <= start < (math.inf if end == -1 else end) or end == math.inf:
            raise TableError(
                f"'{table}' line {number}: '{words[0]}' goes from {start:g} to {end:g} s; the end "
                "must lie after the start"
            )
        channel = words[4] if len(words) == 5 else ""
        end = math.inf if end == -1 else end
        yield Segment(words[0], words[1], start, end, channel, number)


def source_id(name: str) -> str:
    """The id of the original of a degraded copy: `call7-noise` and `call7` are one session."""
    return _AUGMENTED.sub("", name)


def read_recordings(segments: Path) -> dict[str, str] | None:
    """The recording of each utterance of a `segments` file; None where there is no such file."""
    if not segments.is_file():
        return None
    return {it.utterance: it.recording for it in read_segments(str(segments))}


def default_sessions(
    utterances: Iterable[str], recordings: Mapping[str, str] | None
) -> dict[str, str]:
    """Sessions without utt2sess: the recording, else the utterance; a copy has its original's."""
    return {name: source_id((recordings or {}).get(name, name)) for name in utterances}
