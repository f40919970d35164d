"""Blocks: what is done of a long job lies on disk in pieces, so that it can be gone on with.

A block is some utterances that follow each other in the list, with their embeddings or the reason
why there is none. Several processes may work on different blocks of one directory.
"""

import json
import os
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.audio.corpus.recordings import Recording
from dcaplda.audio.extractor import Extraction
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.fields import parse_json
from dcaplda.runtime.files import replacing

FOLDER = ".parts"
_JOB = "job.json"
FEWEST, UTTERANCES = 16, 128
"""Utterances of a block, by the length of the list: few are soon kept, many make few files."""
MANY_BLOCKS, MOST_BLOCKS = 64, 2000


@dataclass
class Block:
    """Results of some utterances."""

    made: dict[str, Extraction] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def cut_blocks(recordings: Sequence[Recording]) -> list[list[Recording]]:
    """Recordings in blocks; a recording stays whole."""
    count = sum(len(it.utterances) for it in recordings)
    size = max(min(UTTERANCES, max(FEWEST, count // MANY_BLOCKS)), -(-count // MOST_BLOCKS))
    blocks: list[list[Recording]] = [[]]
    held = 0
    for recording in recordings:
        if held >= size:
            blocks.append([])
            held = 0
        blocks[-1].append(recording)
        held += len(recording.utterances)
    return blocks


class BlockStore:
    """The blocks of one job below its output directory."""

    def __init__(self, directory: Path, identity: str) -> None:
        """`identity` tells one job from another; an unfinished other one is refused."""
        self.folder = directory / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)
        known = _identity(self.folder / _JOB)
        if known not in ("", identity):
            raise UsageError(
                f"{directory}: holds an unfinished extraction with another extractor, list or "
                f"settings; go on with that one, or remove {self.folder}"
            )
        with replacing(self.folder / _JOB) as path:
            path.write_text(json.dumps({"identity": identity}) + "\n", encoding="utf-8")

    def has(self, number: int) -> bool:
        """Whether a block was written, with or without failures."""
        return self._path(number).exists()

    def read(self, number: int) -> Block | None:
        """A block that was written; None if it is not there, or damaged."""
        try:
            with np.load(self._path(number), allow_pickle=False) as data:
                return _unpacked({name: data[name] for name in data.files})
        except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile, EOFError):
            return None

    def write(self, number: int, block: Block) -> None:
        """Keep a block."""
        with replacing(self._path(number)) as path, open(path, "wb") as stream:
            packed: Any = _packed(block)
            np.savez(stream, **packed)

    def remove(self) -> None:
        """The job is done."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


def _identity(path: Path) -> str:
    try:
        return str(parse_json(path.read_bytes())["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _packed(block: Block) -> dict[str, NDArray]:
    made = list(block.made.values())
    return {
        "ids": np.array(list(block.made), np.str_),
        "embeddings": np.array([it.embedding for it in made], np.float32),
        "numbers": np.array(
            [(it.seconds, it.frames, it.total, it.rate) for it in made], np.float64
        ),
        "spans": np.array([span for it in made for span in it.spans], np.float64).reshape(-1, 2),
        "span_counts": np.array([len(it.spans) for it in made], np.int64),
        "failed": np.array(list(block.failed), np.str_),
        "reasons": np.array(list(block.failed.values()), np.str_),
    }


def _unpacked(data: dict[str, NDArray]) -> Block:
    spans = np.split(data["spans"], np.cumsum(data["span_counts"])[:-1])
    made = {}
    for row, name in enumerate(data["ids"].tolist()):
        seconds, frames, total, rate = data["numbers"][row].tolist()
        where = tuple((begin, end) for begin, end in spans[row].tolist())
        embedding = data["embeddings"][row]
        made[name] = Extraction(embedding, seconds, int(frames), total, where, int(rate))
    failed = dict(zip(data["failed"].tolist(), data["reasons"].tolist(), strict=True))
    return Block(made, failed)


def is_unfinished(directory: Path) -> bool:
    """Whether blocks of a job lie there."""
    return os.path.isfile(directory / FOLDER / _JOB)
