"""Ctrl-C at every bytecode of a change: memory and file stay alike, and nothing stays locked."""

import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from interruptions import CHANGES, OURS, TWO, Interruption, in_memory
from random_models import DIM

from dcaplda.export import parity
from dcaplda.runtime import Backend
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def backend(small_bundle: Path) -> Backend:
    return Backend.load(small_bundle, threads=1)


@pytest.fixture(scope="module")
def prints(backend: Backend) -> np.ndarray:
    return backend.voiceprints(*parity.random_side(DIM, 8, 7))


@pytest.fixture
def path() -> Iterator[Path]:
    """In memory where that can be had: thousands of changes are waited for here."""
    home = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=home) as folder:
        yield Path(folder) / "g.db"


def in_file(reader: sqlite3.Connection) -> dict[str, bytes]:
    return dict(reader.execute("SELECT id, voiceprints FROM speakers ORDER BY number"))


def check_utterances(reader: sqlite3.Connection) -> None:
    """Utterances are of speakers who are there, and as many as they have voiceprints."""
    rows = reader.execute(
        "SELECT speaker, count(*), max(length(voiceprints)) FROM utterances "
        "LEFT JOIN speakers ON id = speaker GROUP BY speaker"
    )
    for name, count, size in rows:
        assert size is not None, f"utterances of nobody: {name}"
        assert size % count == 0 and size // count > 4, name


def interrupt_everywhere(
    backend: Backend, prints: np.ndarray, path: Path, name: str, stride: int, everywhere: bool
) -> int:
    """Interrupt a change at every `stride`-th bytecode; returns how many there were."""
    change, undo = CHANGES[name]
    gallery = Gallery.open(path, backend)
    gallery.add_many((f"s{k}", prints[k]) for k in range(3))
    if name in TWO:
        gallery.replace("s1", prints[1:3])
    before = in_memory(gallery)
    change(gallery, prints)
    after = in_memory(gallery)
    undo(gallery, prints)
    reader = sqlite3.connect(path, timeout=0, isolation_level=None)
    done = undone = at = 0
    while True:
        interruption = Interruption(at, everywhere)
        caught = interruption.hits(lambda: change(gallery, prints))
        stored = in_file(reader)
        if caught is None:
            assert stored == after
            break
        # Others can write, though the traceback of the interrupt is still at hand.
        reader.execute("BEGIN IMMEDIATE")
        reader.execute("ROLLBACK")
        assert stored in (before, after), f"half a change, interrupted at bytecode {at}"
        assert list(in_memory(gallery).items()) == list(stored.items()), (
            f"stale after an interrupt at bytecode {at}"
        )
        check_utterances(reader)
        if stored == after:
            done += 1
            undo(gallery, prints)
        else:
            undone += 1
        before = in_file(reader)  # the same speakers, maybe in another order
        at += stride
    assert done and undone
    reader.close()
    gallery.close()
    return done + undone


@pytest.mark.parametrize("name", ["add", "remove", "replace"])
def test_memory_is_the_file_wherever_a_change_is_interrupted(backend, prints, path, name) -> None:
    assert interrupt_everywhere(backend, prints, path, name, 1, False) > 1000


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in ("add", "remove")])
def test_also_where_the_life_of_a_speaker_is_interrupted(backend, prints, path, name) -> None:
    """At every 41st bytecode; the slow test leaves out none."""
    assert interrupt_everywhere(backend, prints, path, name, 41, False) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_also_inside_of_what_is_called(backend, prints, path, name) -> None:
    assert interrupt_everywhere(backend, prints, path, name, 1, True) > 2000


class Handler:
    """A tracing function that uses the gallery itself in the middle of a change, once."""

    def __init__(self, at: int, act: Callable[[], object]) -> None:
        self.left, self.act = at, act

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                self.act()
                return None
        return self


@pytest.mark.parametrize("what", ["search", "add", "remove"])
@pytest.mark.parametrize("name", ["add", "replace"])
def test_a_handler_of_signals_may_use_the_gallery(backend, prints, path, name, what) -> None:
    """In the middle of a change, on the same thread: both happen, and memory is the file."""
    change, undo = CHANGES[name]
    gallery = Gallery.open(path, backend)
    gallery.add_many((f"s{k}", prints[k]) for k in range(3))
    reader = sqlite3.connect(path, timeout=0, isolation_level=None)
    acts = {
        "search": lambda: gallery.search(prints[2], 9),
        "add": lambda: gallery.add("his", prints[7]),
        "remove": lambda: gallery.remove("s2"),
    }
    at = 0
    while True:
        before = set(in_file(reader))
        handler = Handler(at, acts[what])
        sys.settrace(handler)
        try:
            change(gallery, prints)
        finally:
            sys.settrace(None)
        stored = in_file(reader)
        assert list(in_memory(gallery).items()) == list(stored.items()), f"at bytecode {at}"
        expected = before | ({"new", "other"} if name == "add" else set())
        if handler.left >= 0:
            break
        expected = expected | {"his"} if what == "add" else expected
        expected = expected - {"s2"} if what == "remove" else expected
        assert set(stored) == expected, f"at bytecode {at}"
        undo(gallery, prints)
        if what == "add":
            gallery.remove("his")
        if what == "remove":
            gallery.add("s2", prints[2])
        at += 23
    assert at > 800
    reader.close()
