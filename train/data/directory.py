"""Kaldi data directories and vector tables as training data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.tables.sessions import default_sessions, read_recordings
from dcaplda.runtime.tables.text_tables import read_durations, read_words
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.runtime.values import check_seconds
from dcaplda.train.data.columns import Columns
from dcaplda.train.data.guesses import complete
from dcaplda.train.data.labelled import Labels, TrainingData, assemble
from dcaplda.train.recipe.sections import DataSection

LONG_SPEECH = 1800.0
"""Seconds of speech that hardly half of any training's utterances have."""


def load_training_data(
    directory: str, vectors: str, section: DataSection, need_durations: bool = True
) -> TrainingData:
    """The utterances of a data directory that have a vector and labels, ready to train on."""
    labels = read_labels(directory, section, need_durations)
    table = read_vectors(vectors, section.scp_root)
    guess = complete(table.ids, table.matrix, labels, section)
    data = assemble(
        table.ids, table.matrix, guess.labels, section.allow_shared_sessions, in_place=True
    )
    return replace(data, notes=[*guess.notes, *_doubts(data.seconds, directory)])


def _doubts(seconds: NDArray[np.float32], place: str) -> list[str]:
    """A word about durations that no recordings have; NaN are unknown ones."""
    middle = float(np.median(seconds)) if len(seconds) else 0.0
    if not middle > LONG_SPEECH:
        return []
    return [
        f"{place}: half of the utterances have more than {middle / 3600:.1f} hours of speech; are "
        "the durations milliseconds or frames? (compute-durations --num-frames takes frames)"
    ]


def read_labels(directory: str, section: DataSection, need_durations: bool = True) -> Labels:
    """utt2spk, sessions, domains, durations and recordings of a data directory."""
    root = Path(directory)
    if not root.is_dir():
        raise InputError(f"{directory}: no such data directory")
    if not (root / "utt2spk").is_file():
        raise InputError(f"{directory}: has no utt2spk; is it a Kaldi data directory?")
    columns = Columns()
    speaker = columns.words(read_words(str(root / "utt2spk")))
    recording = read_recordings(root / "segments")
    if (root / "utt2sess").is_file():
        session = columns.words(read_words(str(root / "utt2sess")))
    else:
        session = columns.words(default_sessions(speaker, recording))
    domain = None
    if (root / "utt2dom").is_file():
        domain = columns.words(read_words(str(root / "utt2dom")))
    whole = None
    if recording is not None:
        whole = columns.words({name: recording.get(name, name) for name in speaker})
    seconds = _durations(root, section.frame_shift, need_durations)
    return Labels(
        place=directory,
        speaker=speaker,
        session=session,
        domain=domain,
        seconds=None if seconds is None else columns.numbers(seconds),
        recording=whole,
        own_sessions=recording is None and not (root / "utt2sess").is_file(),
    )


def _durations(root: Path, frame_shift: float, needed: bool) -> dict[str, float] | None:
    if (root / "utt2dur").is_file():
        place = str(root / "utt2dur")
        seconds = read_durations(place)
    elif (root / "utt2num_frames").is_file():
        place = str(root / "utt2num_frames")
        seconds = read_durations(place, frame_shift)
    elif needed:
        raise InputError(
            f"{root}: has neither utt2dur nor utt2num_frames; make one with compute-durations, "
            "or train a --variant without durations"
        )
    else:
        return None
    check_seconds(seconds, place)
    return seconds
