"""The utterances of recordings, as the tools that compare within a recording read them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dcaplda.bin.common.likeness import judge_tables
from dcaplda.bin.common.option_groups import OfRecordings
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.sides import need_seconds, report_missing
from dcaplda.bin.common.utterances import Source, Utterances, load
from dcaplda.runtime.backend import Backend
from dcaplda.runtime.clustering.recording import Recording, recording
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.tables.text_tables import read_lists


@dataclass(frozen=True)
class Recordings:
    """What was read: utterances, and those of each recording by their rows."""

    utterances: Utterances
    members: dict[str, list[int]]

    def compared(self, backend: Backend, own_place: bool | None) -> Iterator[tuple[str, Recording]]:
        """Each recording, ready to be scored or clustered."""
        table = self.utterances
        for name, rows in self.members.items():
            seconds = None if table.seconds is None else table.seconds[rows]
            ids = [table.ids[row] for row in rows]
            yield name, recording(backend, table.matrix[rows], seconds, own_place, ids)


def read_recordings(
    options: OfRecordings, backend: Backend, reco2utt: str, vectors: str, log: Log
) -> Recordings:
    """Recordings with at least one utterance that is there."""
    timed = backend.info.uses_durations
    if timed:
        need_seconds(options.durations, "--durations=utt2dur")
    listed = read_lists(reco2utt)
    wanted = [name for names in listed.values() for name in names]
    if len(set(wanted)) < len(wanted):
        counts = dict(zip(*np.unique(wanted, return_counts=True), strict=True))
        twice = next(name for name in wanted if counts[name] > 1)
        raise InputError(
            f"'{reco2utt}': '{twice}' is in it twice; an utterance is of one recording"
        )
    source = Source(
        vectors=vectors,
        durations=options.durations,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
    )
    table = load(source, set(wanted), backend, timed, log)
    missing = {name: table.missing[name] for name in wanted if name in table.missing}
    report_missing(missing, "utterances cannot be compared", options.allow_missing, log)
    members = {
        name: [table.row[one] for one in names if one in table.row]
        for name, names in listed.items()
    }
    members = {name: rows for name, rows in members.items() if rows}
    if not members:
        raise InputError(f"'{reco2utt}': no utterance of it is in '{vectors}'")
    judge_tables(options, backend.familiarity, [table], log)
    return Recordings(table, members)
