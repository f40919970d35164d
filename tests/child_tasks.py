"""What tests run in child processes: importable by name, as `spawn` needs it."""

import time

import numpy as np

from dcaplda.runtime import Backend
from dcaplda.runtime.gallery.speakers import Gallery


def verify_one(task: tuple[Backend, np.ndarray, np.ndarray]) -> float:
    """LLR of row 1 against row 0."""
    backend, x, d = task
    return backend.verify(backend.enroll(x[0], d[0]), x[1], d[1], prior=0.5).llr


def add_and_search(task: tuple[str, str, int, np.ndarray]) -> bool:
    """Add speakers one by one; each must be found at once, and best by itself."""
    directory, path, number, prints = task
    with Gallery.open(path, Backend.load(directory, threads=1)) as gallery:
        for i, row in enumerate(prints):
            gallery.add(f"p{number}-{i}", row)
            if f"p{number}-{i}" not in {match.speaker for match in gallery.search(row, 1000)}:
                return False
    return True


def make_gallery(task: tuple[str, str, float]) -> str:
    """Open a new gallery at the stroke of a clock that all processes share."""
    directory, path, when = task
    backend = Backend.load(directory, threads=1)
    time.sleep(max(0.0, when - time.time()))
    with Gallery.open(path, backend) as gallery:
        return gallery.storage


def add_speaker(task: tuple[str, str, str, np.ndarray]) -> float:
    """Add one speaker; returns when it was there."""
    directory, path, name, row = task
    with Gallery.open(path, Backend.load(directory, threads=1)) as gallery:
        gallery.add(name, row)
        return time.monotonic()


def listed(task: tuple[str, str]) -> list[str]:
    """The ids of a gallery."""
    directory, path = task
    with Gallery.open(path, Backend.load(directory, threads=1), create=False) as gallery:
        return list(gallery)
