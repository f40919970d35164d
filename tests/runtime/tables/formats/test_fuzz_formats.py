"""Damaged npy, npz, HDF5 and Parquet files: the right vectors or one clear line, nothing else.

The oracles are the libraries' own readers on the same damaged file (numpy without pickles, h5py,
polars), and plain checksums: what we accept, they read as the same numbers.
"""

import io
import os
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcaplda.runtime.errors import DcapldaError, TableError
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.runtime.tables.vectors import read_vectors

# FUZZ_EXAMPLES=3000 digs deeper; it takes minutes.
FUZZ = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
IDS = ["u0", "u1", "ü2"]
MATRIX = np.float32([[1.5, -2, 0.25], [3, 4, 5], [-1, 1e-3, 7]])
TELLING = b"\0\1\4 (),:'<>|fUO0123456789LTF\x93NUMPYPK\x03\x04\xff\xc3"


@st.composite
def damage(draw: Any, content: bytes) -> bytes:
    """One to three random edits of a file, half of them in its first bytes."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)) | st.integers(0, min(len(data), 200)))
        length = draw(st.integers(1, 8))
        kind = draw(st.sampled_from(["set", "insert", "delete", "cut", "repeat", "nudge"]))
        noise = bytes(draw(st.lists(st.sampled_from(TELLING), min_size=1, max_size=length)))
        if kind == "set":
            data[place : place + len(noise)] = noise
        elif kind == "insert":
            data[place:place] = noise
        elif kind == "delete":
            del data[place : place + length]
        elif kind == "cut":
            del data[place:]
        elif kind == "repeat":
            data[place:place] = data[max(0, place - 4 * length) : place]
        elif place < len(data):
            data[place] = (data[place] + draw(st.sampled_from([1, 2, 128, 255]))) % 256
    return bytes(data)


def attempt(name: str) -> Any:
    """What the reader gives, or None after a clear error of one line."""
    try:
        table = read_vectors(name)
    except DcapldaError as error:
        assert str(error) and "\n" not in str(error)
        assert "Traceback" not in str(error)
        return None
    assert len(set(table.ids)) == len(table.ids) == len(table.matrix) > 0
    assert np.isfinite(table.matrix).all()
    return table


def npy_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@FUZZ
@given(data=st.data(), kind=st.sampled_from(["<f4", ">f8"]))
def test_npy_files(tmp_path: Path, data, kind: str) -> None:
    """numpy, which evaluates the header where we only match it, sees the same values."""
    content = data.draw(damage(npy_bytes(MATRIX[0].astype(kind))))
    folder = tmp_path / "npy"
    folder.mkdir(exist_ok=True)
    (folder / "u.npy").write_bytes(content)
    (tmp_path / "x.scp").write_text(f"u {folder}/u.npy\n")
    for name in (f"npy:{folder}", f"scp:{tmp_path}/x.scp"):
        table = attempt(name)
        if table is not None and content.startswith(b"\x93NUMPY"):
            theirs = np.load(io.BytesIO(content), allow_pickle=False).reshape(-1)
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(table.matrix[0], theirs.astype(np.float32))


def npz_bytes(compressed: bool, per_id: bool) -> bytes:
    stream = io.BytesIO()
    save = np.savez_compressed if compressed else np.savez
    if per_id:
        save(stream, **dict(zip(IDS, MATRIX, strict=True)))
    else:
        save(stream, ids=np.array(IDS), vectors=MATRIX)
    return stream.getvalue()


@FUZZ
@given(data=st.data(), compressed=st.booleans(), per_id=st.booleans())
def test_npz_files(tmp_path: Path, data, compressed: bool, per_id: bool) -> None:
    """Checksums find damaged numbers: only names of arrays can change unnoticed."""
    content = data.draw(damage(npz_bytes(compressed, per_id)))
    (tmp_path / "x.npz").write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = attempt(f"{tmp_path}/x.npz")
    if table is not None:
        known = {row.tobytes() for row in MATRIX}
        assert {row.tobytes() for row in table.matrix} <= known
        if not per_id:
            assert table.ids == IDS
            np.testing.assert_array_equal(table.matrix, MATRIX)


# A child reads, so that a crash of the HDF5 library or an abort of polars fails this test alone.
READER = """
import sys
from dcaplda.runtime.errors import DcapldaError
from dcaplda.runtime.tables.vectors import read_vectors
for name in sys.stdin.read().split("\\n"):
    try:
        table = read_vectors(name)
        print("read", table.ids, table.matrix.tolist(), flush=True)
    except DcapldaError as error:
        assert "\\n" not in str(error)
        print("refused", error, flush=True)
"""


def outcomes(paths: list[Path]) -> list[str]:
    command = [sys.executable, "-c", READER]
    text = "\n".join(map(str, paths))
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    broken = paths[len(lines)] if len(lines) < len(paths) else ""
    assert done.returncode == 0, (broken, done.stderr[-2000:])
    return lines


@pytest.mark.parametrize("ending", ["h5", "parquet"])
def test_hdf5_and_parquet_files(tmp_path: Path, ending: str) -> None:
    """Seeded damage; what is accepted, the library itself reads as the same numbers."""
    write_vectors(f"{tmp_path}/good.{ending}", IDS, MATRIX)
    good = (tmp_path / f"good.{ending}").read_bytes()
    rng = np.random.default_rng(14)
    paths = []
    # Each Parquet file is read by a child process.
    for number in range(
        int(os.environ.get("FUZZ_EXAMPLES", "120")) // (4 if ending == "parquet" else 1)
    ):
        data = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            place = int(rng.integers(0, len(data)))
            kind = rng.integers(0, 4)
            if kind == 0:
                data[place] = int(rng.integers(0, 256))
            elif kind == 1:
                data[place : place + 8] = rng.bytes(8)
            elif kind == 2:
                del data[place : place + int(rng.integers(1, 9))]
            else:
                data[place] = (data[place] + 1) % 256
        if number % 5 == 0:
            del data[int(rng.integers(1, len(data))) :]
        paths.append(tmp_path / f"{number}.{ending}")
        paths[-1].write_bytes(data)
    lines = outcomes(paths)
    refused = [line for line in lines if line.startswith("refused")]
    assert refused and len(refused) < len(lines)
    for path, line in zip(paths, lines, strict=True):
        if line.startswith("read") and ending == "h5":
            with h5py.File(path) as content:
                ids, matrix = content["ids"].asstr()[()].tolist(), content["vectors"][()]
            assert line == f"read {ids} {matrix.astype(np.float32).tolist()}"
        elif line.startswith("read"):
            frame = pl.read_parquet(path)
            rows = [list(row) for row in frame["vectors"].to_list()]
            assert line == f"read {frame['ids'].to_list()} {rows}"


def announced(shape: str, kind: str = "<f4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}".ljust(117) + "\n"
    return b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text.encode() + b"\0" * 64


@pytest.mark.parametrize("shape", ["2000000000,", "99999999999999999,", "4, 500000000"])
def test_an_npy_size_out_of_proportion_allocates_nothing(tmp_path: Path, shape: str) -> None:
    (tmp_path / "u.npy").write_bytes(announced(shape))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as content:
        content.writestr("ids.npy", npy_bytes(np.array(IDS)))
        content.writestr("vectors.npy", announced(shape))
    for name in (f"npy:{tmp_path}", f"{tmp_path}/x.npz"):
        tracemalloc.start()
        with pytest.raises(TableError):
            read_vectors(name)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000


def test_a_zip_that_forges_its_sizes_allocates_nothing(tmp_path: Path) -> None:
    """The directory and the array's header agree on 4 GB; 200 bytes are stored."""
    path = tmp_path / "x.npz"
    size = 1_000_000_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as content:
        content.writestr("u.npy", announced(f"{size},"))
    stored = len(announced(f"{size},"))
    data = path.read_bytes()
    real, forged = (n.to_bytes(4, "little") for n in (stored, 4 * size + stored - 64))
    assert data.count(real) >= 2
    path.write_bytes(data.replace(real, forged))
    tracemalloc.start()
    with pytest.raises(TableError, match="announces 4000000128 bytes"):
        read_vectors(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
