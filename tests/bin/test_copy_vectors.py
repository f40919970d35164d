"""copy-vectors: from any format to any other, whole or not at all."""

import os
from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS
from kaldi_files import binary_ark, random_vectors

from dcaplda.bin.copy_vectors import main
from dcaplda.runtime.tables.vectors import read_vectors

VECTORS = random_vectors(7, 5)
ARK = binary_ark(VECTORS)
FORMS = {
    "ark": ("ark:{}.ark", "ark:{}.ark"),
    "text": ("ark,t:{}.txt", "ark:{}.txt"),
    "scp": ("ark,scp:{0}-s.ark,{0}-s.scp", "scp:{}-s.scp"),
    "npz": ("npz:{}.npz", "{}.npz"),
    "npy": ("npy:{}-folder", "{}-folder"),
    "h5": ("{}.h5", "hdf5:{}.h5"),
    "parquet": ("{}.parquet", "parquet:{}.parquet"),
}


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "in.ark").write_bytes(ARK)
    return f"ark:{tmp_path}/in.ark"


@pytest.mark.parametrize("first", FORMS)
@pytest.mark.parametrize("second", FORMS)
def test_from_any_to_any_and_back_is_the_same_archive(
    tmp_path: Path, source: str, first: str, second: str
) -> None:
    """Kaldi's bytes are written out in the test; nothing of them may change on the way."""
    stops = [(first, "one"), (second, "two")]
    place = source
    for form, name in stops:
        target, again = (text.format(tmp_path / name) for text in FORMS[form])
        assert main(["--print-args=false", place, target]) == 0
        place = again
    assert main(["--print-args=false", place, f"ark:{tmp_path}/out.ark"]) == 0
    assert (tmp_path / "out.ark").read_bytes() == ARK


def test_kaldis_own_archive_survives(tmp_path: Path, capfdbinary) -> None:
    golden = EXTRACTS / "kaldi" / "test_xvector.ark"
    assert main(["--print-args=false", f"ark:{golden}", f"{tmp_path}/x.h5"]) == 0
    capfdbinary.readouterr()
    assert main(["--print-args=false", f"{tmp_path}/x.h5", "ark:-"]) == 0
    assert capfdbinary.readouterr().out == golden.read_bytes()


def test_names_of_an_scp_start_at_a_root(tmp_path: Path, source: str) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "y.ark").write_bytes(ARK)
    (tmp_path / "y.scp").write_text("u0 y.ark:3\n")
    options = ["--print-args=false", f"--scp-root={tmp_path}/root"]
    assert main([*options, f"{tmp_path}/y.scp", f"{tmp_path}/x.npz"]) == 0
    np.testing.assert_array_equal(read_vectors(f"{tmp_path}/x.npz").matrix[0], VECTORS["u0"])


@pytest.mark.parametrize("target", ["x.npz", "x.h5", "x.parquet", "ark:x.ark", "npy:x"])
def test_bad_input_leaves_nothing_and_an_older_file_alone(
    tmp_path: Path, target: str, capfd, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.ark").write_bytes(ARK[:-1])
    older = target.partition(":")[2] or target
    if "npy" not in target:
        Path(older).write_bytes(b"older")
    before = sorted(os.listdir())
    assert main(["--print-args=false", "ark:in.ark", target]) == 1
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and "'u6': truncated" in lines[0]
    assert sorted(os.listdir()) == before
    assert "npy" in target or Path(older).read_bytes() == b"older"


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("x", "'x' is not a wspecifier"),
        ("scp:x.scp", "an scp alone holds no data"),
        ("npz:nowhere/x", "there is no directory"),
        ("npz:-", "takes a file name"),
        ("npy:full", "is there already"),
        ("npy:file", "is there already"),
        ("npy:in.ark", "is an input too"),
    ],
)
def test_an_impossible_target_is_refused_before_anything_is_read(
    tmp_path: Path, target: str, says: str, capfd, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.ark").write_bytes(b"not even an archive")
    Path("full").mkdir()
    Path("file").touch()
    Path("full/a").touch()
    assert main(["--print-args=false", "ark:in.ark", target]) == 1
    assert says in capfd.readouterr().err


def test_what_a_permissive_table_skips_is_counted(tmp_path: Path, source: str, capfd) -> None:
    (tmp_path / "y.scp").write_text("u0 in.ark:3\nbad nowhere:3\n")
    assert main([f"scp,p:{tmp_path}/y.scp", f"{tmp_path}/x.npz"]) == 0
    err = capfd.readouterr().err
    assert "WARNING" in err and "'bad' points to" in err
    assert "copied 1 vectors of 5 values, 1 unreadable entries passed over" in err
