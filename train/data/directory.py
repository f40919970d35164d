"""Kaldi data directories and vector tables as training data."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError, TableError
from dcaplda.runtime.tables.text_lines import read_lines
from dcaplda.runtime.tables.text_tables import read_durations, read_words
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.train.data.guesses import complete
from dcaplda.train.data.labelled import Labels, TrainingData, assemble
from dcaplda.train.recipe.sections import DataSection

# What Kaldi's augmentation scripts append to the ids of degraded copies.
_AUGMENTED = re.compile(r"(-(noise|music|babble|reverb|aug))+$")


def load_training_data(
    directory: str, vectors: str, section: DataSection, need_durations: bool = True
) -> TrainingData:
    """The utterances of a data directory that have a vector and labels, ready to train on."""
    labels = read_labels(directory, section, need_durations)
    ids, matrix = load_vectors(vectors, section.scp_root)
    guess = complete(ids, matrix, labels, section)
    data = assemble(ids, matrix, guess.labels, section.allow_shared_sessions)
    return replace(data, notes=guess.notes)


def load_vectors(source: str, scp_root: str = "") -> tuple[list[str], NDArray[np.float32]]:
    """Ids and vectors from an rspecifier, or from an npz or hdf5 file with `ids` and `data`."""
    if source.endswith(".npz"):
        return _from_arrays(source, *_npz_arrays(source))
    if source.endswith((".h5", ".hdf5")):
        return _from_arrays(source, *_hdf5_arrays(source))
    table = read_vectors(source, scp_root)
    return table.ids, table.matrix


def _npz_arrays(source: str) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    try:
        # Pickled objects could run code when they are loaded; ids are plain strings.
        with np.load(source, allow_pickle=False) as content:
            return content["ids"], content["data"]
    except KeyError:
        raise TableError(f"'{source}': needs the arrays 'ids' and 'data'") from None
    except (OSError, ValueError, EOFError) as error:
        raise TableError(f"'{source}': cannot be read as npz ({error})") from None


def _hdf5_arrays(source: str) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    import h5py

    try:
        with h5py.File(source, "r") as content:
            return np.asarray(content["ids"]), np.asarray(content["data"])
    except KeyError:
        raise TableError(f"'{source}': needs the datasets 'ids' and 'data'") from None
    except OSError as error:
        raise TableError(f"'{source}': cannot be read as hdf5 ({error})") from None


def _from_arrays(
    source: str, ids: NDArray[np.generic], data: NDArray[np.generic]
) -> tuple[list[str], NDArray[np.float32]]:
    if data.ndim != 2 or ids.ndim != 1 or len(ids) != len(data) or not len(ids):
        shapes = f"ids {ids.shape}, data {data.shape}"
        raise TableError(f"'{source}': expected n ids and n rows of data, found {shapes}")
    if not np.issubdtype(data.dtype, np.floating):
        raise TableError(f"'{source}': 'data' holds {data.dtype}, expected float32 or float64")
    # hdf5 gives strings as bytes.
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in ids.tolist()]
    if len(set(names)) != len(names):
        seen: set[str] = set()
        twice = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise TableError(f"'{source}': '{twice}' occurs twice; ids must be unique")
    return names, np.ascontiguousarray(data, dtype=np.float32)


def read_labels(directory: str, section: DataSection, need_durations: bool = True) -> Labels:
    """utt2spk, sessions, domains, durations and recordings of a data directory."""
    root = Path(directory)
    if not root.is_dir():
        raise InputError(f"{directory}: no such data directory")
    if not (root / "utt2spk").is_file():
        raise InputError(f"{directory}: has no utt2spk; is it a Kaldi data directory?")
    speaker = read_words(str(root / "utt2spk"))
    recording = _recordings(root)
    if (root / "utt2sess").is_file():
        session = read_words(str(root / "utt2sess"))
    else:
        session = {name: source_id((recording or {}).get(name, name)) for name in speaker}
    domain = read_words(str(root / "utt2dom")) if (root / "utt2dom").is_file() else None
    if recording is not None:
        recording = {name: recording.get(name, name) for name in speaker}
    return Labels(
        place=directory,
        speaker=speaker,
        session=session,
        domain=domain,
        seconds=_durations(root, section.frame_shift, need_durations),
        recording=recording,
        own_sessions=recording is None and not (root / "utt2sess").is_file(),
    )


def source_id(name: str) -> str:
    """The id of the original of a degraded copy: `call7-noise` and `call7` are one session."""
    return _AUGMENTED.sub("", name)


def _recordings(root: Path) -> dict[str, str] | None:
    if not (root / "segments").is_file():
        return None
    recordings = {}
    for number, line in enumerate(read_lines(str(root / "segments")), 1):
        words = line.split(" ")
        if len(words) != 4:
            raise TableError(
                f"'{root / 'segments'}' line {number}: expected utterance, recording, start and "
                f"end, found {line[:60]!r}"
            )
        recordings[words[0]] = words[1]
    return recordings


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
    check_seconds(place, seconds)
    return seconds


def check_seconds(place: str, seconds: dict[str, float]) -> None:
    """Refuse durations that have no logarithm."""
    for name, value in seconds.items():
        if not value > 0:
            raise InputError(f"{place}: '{name}' has {value:g} seconds of speech; expected above 0")
