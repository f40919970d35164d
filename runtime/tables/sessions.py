"""Sessions of utterances where no table tells them: the recording, copies cut back to originals."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.text_lines import read_lines

# What Kaldi's augmentation scripts append to the ids of degraded copies.
_AUGMENTED = re.compile(r"(-(noise|music|babble|reverb|aug))+$")


def source_id(name: str) -> str:
    """The id of the original of a degraded copy: `call7-noise` and `call7` are one session."""
    return _AUGMENTED.sub("", name)


def read_recordings(segments: Path) -> dict[str, str] | None:
    """The recording of each utterance of a `segments` file; None where there is no such file."""
    if not segments.is_file():
        return None
    recordings = {}
    for number, line in enumerate(read_lines(str(segments)), 1):
        words = line.split(" ")
        if len(words) != 4:
            raise TableError(
                f"'{segments}' line {number}: expected utterance, recording, start and "
                f"end, found {line[:60]!r}"
            )
        recordings[words[0]] = words[1]
    return recordings


def default_sessions(
    utterances: Iterable[str], recordings: Mapping[str, str] | None
) -> dict[str, str]:
    """Sessions without utt2sess: the recording, else the utterance; a copy has its original's."""
    return {name: source_id((recordings or {}).get(name, name)) for name in utterances}
