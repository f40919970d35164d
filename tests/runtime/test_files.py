"""Outputs keep the permissions of what they replace, and killed writers leave nothing for good."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from dcaplda.eval.protocol.directories import all_at_once
from dcaplda.runtime import files
from dcaplda.runtime.bundle import writing
from dcaplda.runtime.bundle.writing import write_files
from dcaplda.runtime.files import new_folder, replacing
from dcaplda.runtime.tables.vector_writer import write_vectors


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def umask():
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_a_file_keeps_the_permissions_of_the_one_it_replaces(tmp_path: Path, umask) -> None:
    path = tmp_path / "out"
    for permissions in (0o600, 0o644, 0o660):
        path.write_text("old")
        path.chmod(permissions)
        with replacing(path) as beside:
            assert mode(beside) == 0o600, "nobody reads what is not finished"
            beside.write_text("new")
        assert (mode(path), path.read_text()) == (permissions, "new")
    path.unlink()
    with replacing(path) as beside:
        beside.write_text("new")
    assert mode(path) == 0o640, "a new one follows the mask"


def test_every_format_keeps_them(tmp_path: Path) -> None:
    for ending in ("npz", "h5", "parquet", "ark"):
        path = tmp_path / f"x.{ending}"
        path.write_bytes(b"old")
        path.chmod(0o600)
        name = f"ark:{path}" if ending == "ark" else str(path)
        write_vectors(name, ["a", "b"], np.eye(2, 3, dtype=np.float32))
        assert mode(path) == 0o600 and path.stat().st_size > 30


def test_a_bundle_keeps_them(tmp_path: Path, umask) -> None:
    place = tmp_path / "bundle"
    write_files(place, {"model.json": b"{}"})
    assert (mode(place), mode(place / "model.json")) == (0o750, 0o640)
    place.chmod(0o700)
    (place / "model.json").chmod(0o600)
    write_files(place, {"model.json": b"[]", "pairs.onnx": b""})
    assert (mode(place), mode(place / "model.json")) == (0o700, 0o600)
    assert (place / "model.json").read_bytes() == b"[]"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_bundle_is_replaced_where_names_cannot_be_exchanged(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(writing, "exchange", lambda one, other: False)
    place = tmp_path / "bundle"
    for content in (b"{}", b"[]"):
        write_files(place, {"model.json": content})
        assert (place / "model.json").read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_tables_of_a_split_keep_them(tmp_path: Path) -> None:
    (tmp_path / "utt2spk").write_text("old")
    (tmp_path / "utt2spk").chmod(0o600)
    with all_at_once(tmp_path) as beside:
        (beside / "utt2spk").write_text("new")
    assert mode(tmp_path / "utt2spk") == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["utt2spk"]


WRITERS = {
    "file": """
with replacing(sys.argv[1]) as beside:
    beside.write_text("half")
    wait()
""",
    "folder": """
with new_folder(sys.argv[1]) as beside:
    (beside / "a").write_text("half")
    wait()
""",
    "bundle": """
class Slow(dict):
    def items(self):
        yield "model.json", b"{}"
        wait()
write_files(sys.argv[1], Slow())
""",
}
HEAD = """
import sys, time
from dcaplda.runtime.files import new_folder, replacing
from dcaplda.runtime.bundle.writing import write_files
def wait():
    print("ready", flush=True)
    time.sleep(60)
"""


def started(kind: str, target: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", HEAD + WRITERS[kind], str(target)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("kind", WRITERS)
def test_what_a_killed_writer_left_is_gone_with_the_next(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "out"
    process = started(kind, target)
    other = started(kind, target)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(tmp_path.iterdir())) == 2, "a killed process cannot clean up"
    try:
        if kind == "file":
            with replacing(target) as beside:
                beside.write_text("whole")
        elif kind == "folder":
            with new_folder(target) as beside:
                (beside / "a").write_text("whole")
        else:
            write_files(target, {"model.json": b"whole"})
        left = sorted(path.name for path in tmp_path.iterdir())
        assert len(left) == 2 and left[1] == "out", "that of the one alive stays"
    finally:
        other.kill()
        other.wait()
    content = target if kind == "file" else next(target.iterdir())
    assert content.read_text() == "whole"


def test_a_bundle_is_there_at_every_moment(tmp_path: Path) -> None:
    """While one thread writes it again and again, another always finds it whole."""
    if not files.exchange(tmp_path, tmp_path):
        pytest.skip("this system cannot exchange two names in one step")
    place = tmp_path / "bundle"
    write_files(place, {"model.json": b"0"})
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            write_files(place, {"model.json": b"1"})

    thread = threading.Thread(target=write)
    thread.start()
    end, reads = time.monotonic() + 1.0, 0
    try:
        while time.monotonic() < end:
            assert (place / "model.json").exists()
            reads += 1
    finally:
        stop.set()
        thread.join()
    assert reads > 100


def test_other_peoples_hidden_files_stay(tmp_path: Path) -> None:
    for name in (".out.part", ".out.abcdefgh", ".other.abcdefgh.part", ".out.ABCDEFGH.part"):
        (tmp_path / name).write_text("mine")
    with replacing(tmp_path / "out") as beside:
        beside.write_text("x")
    assert len(list(tmp_path.iterdir())) == 5


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    for folder in ("nowhere", "file"):
        path = tmp_path / folder / "page.html"
        with pytest.raises(OSError) as caught, replacing(path):
            raise AssertionError("nothing can be written there")
        assert caught.value.filename == str(path)


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("ü" * 127)
    with replacing(path) as beside:
        beside.write_text("x")
    assert path.read_text() == "x"


def test_hdf5_does_not_mind_the_lock(tmp_path: Path) -> None:
    write_vectors(str(tmp_path / "x.h5"), ["a"], np.ones((1, 2), np.float32))
    with h5py.File(tmp_path / "x.h5") as content:
        assert content["vectors"].shape == (1, 2)
