"""A whole extraction: a list of recordings in, a directory of tables out."""

import contextlib
import fcntl
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcaplda.audio.corpus.blocks import Block, BlockStore, cut_blocks, is_unfinished
from dcaplda.audio.corpus.outputs import check_directory, finished_job, write_outputs
from dcaplda.audio.corpus.recordings import (
    AUTO,
    Recording,
    folder_of,
    missing_files,
    read_recordings,
)
from dcaplda.audio.corpus.work import Report, extract_blocks
from dcaplda.audio.extractor import Extractor
from dcaplda.runtime.errors import InputError, UsageError

_LOCK = ".lock"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is extracted, and where to."""

    table: str
    """scp:wav.scp, or a folder of sound files."""
    directory: Path
    segments: str = AUTO
    channel: str = ""
    scp_root: str = ""
    allow_missing: bool = False
    threads: int = 1
    part: int = 1
    num_parts: int = 1
    """Blocks are dealt to so many processes; the last one to end puts all together."""


@dataclass
class Outcome:
    """What came out, over all runs of the job."""

    utterances: int = 0
    left_out: int = 0
    total: float = 0.0
    speech: float = 0.0
    rates: Counter[int] = field(default_factory=Counter)
    """Utterances by the sample rate of their recording."""
    labels: list[str] = field(default_factory=list)
    waiting: int = 0
    """Blocks of other parts that are not there yet: nothing was put together."""
    before: bool = False
    """Whether it had been finished before."""


def run_job(
    job: Job, extractor: Extractor, report: Report, begin: Callable[[int], None]
) -> Outcome:
    """Extract what is not done yet; put all together if nothing is missing.

    `begin` is told how many utterances are still to be done, `report` of each.
    """
    check_directory(job.directory, is_unfinished(job.directory))
    recordings = read_recordings(job.table, job.scp_root, job.segments)
    identity = _identity(job, extractor, recordings)
    done = finished_job(job.directory)
    if done is not None:
        return _finished(job, done, identity)
    _check_files(job, recordings)
    store = BlockStore(job.directory, identity)
    blocks = list(enumerate(cut_blocks(recordings)))
    mine = [it for it in blocks if it[0] % job.num_parts == job.part - 1]
    begin(sum(_left(store, number, of) for number, of in mine))
    extract_blocks(extractor, mine, store, job.channel, job.threads, report)
    with _locked(store):
        done = finished_job(job.directory)
        if done is not None:  # by another part, while this one waited
            return _finished(job, done, identity)
        return _put_together(job, extractor, store, blocks, identity)


def _identity(job: Job, extractor: Extractor, recordings: list[Recording]) -> str:
    """Hash over all that shapes the outputs."""
    made = {name: value for name, value in extractor.record.items() if name != "versions"}
    lines = [(it.source, it.utterances, it.segments) for it in recordings]
    told = json.dumps([made, job.channel, lines], sort_keys=True)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _finished(job: Job, done: dict[str, Any], identity: str) -> Outcome:
    if done.get("identity") != identity:
        raise UsageError(
            f"{job.directory}: holds embeddings of another extractor, list or setting; name "
            "another directory"
        )
    outcome = Outcome(before=True)
    outcome.utterances, outcome.left_out = int(done["utterances"]), int(done["left_out"])
    outcome.total, outcome.speech = float(done["seconds"]), float(done["speech"])
    return outcome


def _check_files(job: Job, recordings: list[Recording]) -> None:
    """Say at once which files are not there, before hours of work."""
    missing = [] if job.allow_missing else missing_files(recordings)
    if missing:
        first = missing[0]
        raise InputError(
            f"'{job.table}': {len(missing)} of {len(recordings)} recordings are not there, the "
            f"first is '{first.source}' ('{first.utterances[0]}'); mend the paths (--scp-root), "
            "or leave them out with --allow-missing"
        )


def _left(store: BlockStore, number: int, recordings: list[Recording]) -> int:
    """Utterances of a block that are still to be done."""
    names = [name for it in recordings for name in it.utterances]
    done = store.read(number) if store.has(number) else None
    return len(names) if done is None else sum(name not in done.made for name in names)


@contextlib.contextmanager
def _locked(store: BlockStore) -> Iterator[None]:
    """One process at a time puts things together."""
    try:
        stream = open(store.folder / _LOCK, "w")  # noqa: SIM115
    except FileNotFoundError:
        yield  # another part has just finished
        return
    with stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _put_together(
    job: Job,
    extractor: Extractor,
    store: BlockStore,
    blocks: list[tuple[int, list[Recording]]],
    identity: str,
) -> Outcome:
    outcome = Outcome(waiting=sum(not store.has(number) for number, _ in blocks))
    if outcome.waiting:
        return outcome

    def all_blocks() -> Iterator[Block]:
        for number, recordings in blocks:
            found = store.read(number)
            if found is None:
                raise InputError(f"{store.folder}: part {number} is damaged; run this again")
            names = [name for it in recordings for name in it.utterances]
            assert all(name in found.made or name in found.failed for name in names)
            yield Block(
                {name: found.made[name] for name in names if name in found.made},
                {name: found.failed[name] for name in names if name in found.failed},
            )

    failed: dict[str, str] = {}
    for block in all_blocks():
        failed |= block.failed
        outcome.utterances += len(block.made)
        for it in block.made.values():
            outcome.total += it.total
            outcome.speech += it.seconds
            outcome.rates[it.rate] += 1
    outcome.left_out = len(failed)
    _check_failed(job, outcome, failed)
    record = {
        **extractor.record,
        "corpus": {
            "identity": identity,
            "utterances": outcome.utterances,
            "left_out": outcome.left_out,
            "seconds": round(outcome.total, 3),
            "speech": round(outcome.speech, 3),
        },
    }
    outcome.labels = write_outputs(job.directory, all_blocks, record, folder_of(job.table))
    store.remove()
    return outcome


def _check_failed(job: Job, outcome: Outcome, failed: dict[str, str]) -> None:
    if not failed:
        return
    name, reason = next(iter(failed.items()))
    count = outcome.utterances + outcome.left_out
    told = f"{len(failed)} of {count} utterances have no embedding, the first is '{name}': {reason}"
    if not outcome.utterances:
        raise InputError(f"{told}; nothing is left to write")
    if not job.allow_missing:
        raise InputError(
            f"{told}; mend them and run this again, which keeps what is done, or leave them out "
            "with --allow-missing"
        )
