"""Tables that tell when utterances are and how many speak."""

import math

from dcaplda.bin.recordings.reading import Recordings
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.tables.sessions import read_segments
from dcaplda.runtime.tables.text_tables import read_numbers


def read_counts(reco2num_spk: str, found: Recordings) -> dict[str, int]:
    """The number of speakers of each recording."""
    told = read_numbers(reco2num_spk, whole=True)
    for name in found.members:
        if not told.get(name, 0) >= 1:
            raise InputError(
                f"'{reco2num_spk}': '{name}': {told.get(name, 'not in it')}; expected the number "
                "of its speakers, 1 or more"
            )
    return {name: int(told[name]) for name in found.members}


def read_spans(segments: str, found: Recordings) -> dict[str, tuple[str, float, float]]:
    """Recording of each utterance, start and length in it; nothing where no table is named.

    The recording is that of the table, which is what its times are of: what is clustered together
    may be a group of recordings.
    """
    if not segments:
        return {}
    spans = {
        it.utterance: (it.recording, it.start, it.end - it.start) for it in read_segments(segments)
    }
    for row in (row for own in found.members.values() for row in own):
        utterance = found.utterances.ids[row]
        if not math.isfinite(spans.get(utterance, ("", 0.0, math.inf))[2]):
            raise InputError(
                f"'{segments}': '{utterance}' has no start and end in it; RTTM needs both"
            )
    return spans
