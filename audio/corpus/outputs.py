"""The tables of an extraction: embeddings, seconds of speech, and what was cut."""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dcaplda.audio.corpus.blocks import Block
from dcaplda.audio.extractor import Extraction
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.extractors.note import NAME, read_note
from dcaplda.runtime.files import replacing
from dcaplda.runtime.tables.text_lines import read_lines
from dcaplda.runtime.tables.vector_writer import check_wspecifier, write_entries

SCP = "xvector.scp"
LEFT_OUT = "left_out"
LABELS = ("utt2spk", "utt2sess", "utt2dom")
"""Tables beside a wav.scp that make the output a data directory for training."""

Blocks = Callable[[], Iterator[Block]]
"""Gives the blocks in the order of the list, as often as it is called."""


def check_directory(directory: Path, unfinished: bool) -> None:
    """Refuse a place that holds something else: its tables would be overwritten."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"'{directory}' is a file; name a directory")
    ours = unfinished or (directory / NAME).is_file()
    if directory.is_dir() and not ours and any(directory.iterdir()):
        raise UsageError(
            f"'{directory}': not empty, and not what extract-embeddings wrote; name a new directory"
        )


def finished_job(directory: Path) -> dict[str, Any] | None:
    """What the note of a finished extraction says of its list; None if it is not finished."""
    if not (directory / NAME).is_file() or not (directory / SCP).is_file():
        return None
    found = read_note(str(directory / NAME)).told.get("corpus")
    return found if isinstance(found, dict) else {}


def write_outputs(
    directory: Path, blocks: Blocks, record: Mapping[str, Any], labels_from: str
) -> list[str]:
    """All tables, the scp of the embeddings last; returns the labels that were copied."""
    tables: dict[str, list[str]] = {
        name: [] for name in ("utt2dur", "utt2num_frames", "utt2cut", "speech", LEFT_OUT)
    }
    names: set[str] = set()
    for block in blocks():
        for key, it in block.made.items():
            names.add(key)
            tables["utt2dur"].append(f"{key} {_number(it.seconds)}")
            tables["utt2num_frames"].append(f"{key} {it.frames}")
            tables["utt2cut"].append(f"{key} {_number(it.total - it.seconds)}")
            tables["speech"] += _span_lines(key, it)
        tables[LEFT_OUT] += [f"{key} {reason}" for key, reason in block.failed.items()]
    if not tables[LEFT_OUT]:
        del tables[LEFT_OUT]
        (directory / LEFT_OUT).unlink(missing_ok=True)
    for name, lines in tables.items():
        _write(directory / name, lines)
    copied = [name for name in LABELS if labels_from and _copy(labels_from, directory, name, names)]
    _write(directory / NAME, [json.dumps(record, indent=2)])

    from kaldiio.matio import write_array

    target = check_wspecifier(f"ark,scp:{directory / 'xvector.ark'},{directory / SCP}")
    entries = ((key, it.embedding) for block in blocks() for key, it in block.made.items())
    write_entries(target, entries, write_array)
    return copied


def _span_lines(key: str, it: Extraction) -> Iterable[str]:
    """Stretches of speech in the form of `segments`, with the utterance as the recording."""
    for number, (begin, end) in enumerate(it.spans, 1):
        yield f"{key}-{number:04d} {key} {_number(begin)} {_number(end)}"


def _number(value: float) -> str:
    """Rounded to a microsecond: 300 * 0.01 is to be written as 3, not 3.0000000000000004."""
    return f"{round(value, 6):.10g}"


def _copy(source: str, directory: Path, name: str, wanted: set[str]) -> bool:
    """The lines of a table of labels that are about these utterances; whether there are any."""
    path = os.path.join(source, name)
    if not os.path.isfile(path):
        return False
    lines = [line for line in read_lines(path) if line.partition(" ")[0] in wanted]
    if lines:
        _write(directory / name, lines)
    return bool(lines)


def _write(path: Path, lines: Iterable[str]) -> None:
    with replacing(path) as beside:
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
