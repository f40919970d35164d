"""Through all recordings: threads take batches, blocks are kept as they become whole."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dcaplda.audio.corpus.blocks import Block, BlockStore
from dcaplda.audio.corpus.recordings import Recording, read_signals
from dcaplda.audio.extractor import Extraction, Extractor, Signal
from dcaplda.runtime.errors import AudioError
from dcaplda.runtime.trials.tiles import run_jobs

BATCH = 16
"""Recordings that a thread takes at once: speech is sought in them side by side."""

HELD = 1200.0
"""Seconds of audio that a thread holds before it extracts, besides the last recording."""

Report = Callable[[str, Extraction | AudioError], None]
"""Told of each utterance, in the order of the list."""


@dataclass(frozen=True)
class Batch:
    """Recordings of one block that are still to be done."""

    block: int
    recordings: list[Recording]
    last: bool
    """Whether the block is whole after it."""


def extract_blocks(
    extractor: Extractor,
    blocks: Sequence[tuple[int, list[Recording]]],
    store: BlockStore,
    channel: str,
    threads: int,
    report: Report,
) -> None:
    """Do what is not done of these blocks; what failed before is tried again."""
    kept: dict[int, Block] = {}

    def work(batch: Batch) -> tuple[Batch, list[tuple[str, Extraction | AudioError]]]:
        return batch, extract_batch(extractor, batch.recordings, channel)

    size = min(BATCH, max(1, sum(len(b) for _, b in blocks) // (4 * threads)))
    for batch, results in run_jobs(work, _batches(blocks, store, kept, size), threads):
        block = kept[batch.block]
        for name, result in results:
            report(name, result)
            if isinstance(result, AudioError):
                block.failed[name] = str(result)
            else:
                block.made[name] = result
        if batch.last:
            store.write(batch.block, kept.pop(batch.block))


def _batches(
    blocks: Sequence[tuple[int, list[Recording]]],
    store: BlockStore,
    kept: dict[int, Block],
    size: int,
) -> Iterator[Batch]:
    for number, recordings in blocks:
        done = store.read(number) or Block()
        left = [it for it in recordings if not all(name in done.made for name in it.utterances)]
        if not left:
            continue
        kept[number] = Block(done.made)
        for first in range(0, len(left), size):
            yield Batch(number, left[first : first + size], first + size >= len(left))


def extract_batch(
    extractor: Extractor, recordings: Sequence[Recording], channel: str
) -> list[tuple[str, Extraction | AudioError]]:
    """Embeddings of all utterances of a few recordings, or why there is none."""
    results: list[tuple[str, Extraction | AudioError]] = []
    waiting: list[tuple[str, Signal | AudioError]] = []
    for recording in recordings:
        waiting += zip(recording.utterances, read_signals(recording, channel), strict=True)
        held = sum(len(it.samples) / it.rate for _, it in waiting if isinstance(it, Signal))
        if held > HELD or recording is recordings[-1]:
            results += _extracted(extractor, waiting)
            waiting = []
    return results


def _extracted(
    extractor: Extractor, found: list[tuple[str, Signal | AudioError]]
) -> list[tuple[str, Extraction | AudioError]]:
    made = iter(extractor.extract_many([it for _, it in found if isinstance(it, Signal)]))
    return [(name, next(made) if isinstance(it, Signal) else it) for name, it in found]
