"""Kaldi matrices: written-out formats, files that Kaldi wrote, and every damage refused."""

import gzip
import pickle
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS, FULL, needs_full_golden, read_ark
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kaldi_files import binary_matrix as plain

from dcaplda.runtime.errors import TableError, UsageError
from dcaplda.runtime.tables.matrices import (
    COMPRESSION,
    iterate_matrices,
    read_matrix_file,
    write_matrices,
    write_matrix_file,
)

MATRIX = np.float32([[1, -2.5, 3], [4, 5, 0.125]])


def header(kind: bytes, rows: int, columns: int, least: float = -1.0, width: float = 4.0) -> bytes:
    """The beginning of a compressed matrix."""
    return b"\0B" + kind + struct.pack("<ffii", least, width, rows, columns)


def one(folder: Path, content: bytes) -> np.ndarray:
    """The only matrix of an archive, which holds `content` under the id a."""
    (folder / "x.ark").write_bytes(b"a " + content)
    ((key, matrix),) = iterate_matrices(f"ark:{folder}/x.ark")
    assert key == "a"
    return matrix


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_plain_matrices_keep_their_precision(tmp_path: Path, dtype: type) -> None:
    found = one(tmp_path, plain(MATRIX.astype(dtype)))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, MATRIX)


def test_text_matrices_are_doubles(tmp_path: Path) -> None:
    """kaldiio would keep float32, and whole numbers where the first has no point."""
    found = one(tmp_path, b" [\n  1 0.123456789012345\n  2.5 -1e-3 ]\n")
    np.testing.assert_array_equal(found, [[1, 0.123456789012345], [2.5, -1e-3]])


def test_two_and_one_byte_codes_divide_the_range_evenly(tmp_path: Path) -> None:
    """x = least + range * code / (largest code), within float32."""
    for kind, dtype, largest in ((b"CM2 ", "<u2", 65535), (b"CM3 ", "<u1", 255)):
        codes = np.array([[0, 1, largest], [largest // 2, 77, 200]], dtype)
        found = one(tmp_path, header(kind, 2, 3) + codes.tobytes())
        np.testing.assert_allclose(found, -1 + 4.0 * codes / largest, atol=1e-6)


def test_codes_by_column_go_through_four_percentiles(tmp_path: Path) -> None:
    """Codes 0, 64, 192 and 255 are a column's percentiles 0, 25, 75 and 100, linear between."""
    percentiles = np.array([[0, 1000, 3000, 65535], [10, 20, 40, 80]], "<u2")
    codes = np.array([[0, 64, 192, 255, 32], [255, 128, 64, 0, 224]], "<u1")  # column after column
    found = one(tmp_path, header(b"CM ", 5, 2) + percentiles.tobytes() + codes.tobytes())
    levels = -1 + 4.0 * percentiles / 65535
    expected = [np.interp(codes[c], [0, 64, 192, 255], levels[c]) for c in (0, 1)]
    np.testing.assert_allclose(found, np.stack(expected, axis=1), atol=1e-6)


def test_archives_pipes_gzip_and_scps_give_the_same(tmp_path: Path) -> None:
    pairs = [("a", MATRIX), ("b", np.float64([[7.5]])), ("c", MATRIX[:, :1])]
    write_matrices(f"ark,scp:{tmp_path}/x.ark,{tmp_path}/x.scp", pairs)
    write_matrices(f"ark,t:{tmp_path}/t.ark", pairs)
    ark = tmp_path / "x.ark"
    assert ark.read_bytes() == b"".join(key.encode() + b" " + plain(m) for key, m in pairs)
    (tmp_path / "z.gz").write_bytes(gzip.compress(ark.read_bytes()))
    names = [f"ark:{ark}", f"ark:cat {ark} |", f"ark:{tmp_path}/z.gz", f"scp:{tmp_path}/x.scp"]
    for name in [*names, f"ark,t:{tmp_path}/t.ark", f"ark:{tmp_path}/t.ark"]:
        found = list(iterate_matrices(name))
        assert [key for key, _ in found] == ["a", "b", "c"]
        for (_, ours), (_, given_) in zip(found, pairs, strict=True):
            np.testing.assert_array_equal(ours, given_)


SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, max_side=20)
VALUES = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([1, 2, 3, 5]), st.lists(hnp.arrays("f4", SHAPES, elements=VALUES), min_size=1)
)
def test_compression_loses_no_more_than_its_step(tmp_path_factory, method: int, matrices) -> None:
    """Half a step of the codes, or of the widest piece of a column; a constant has range 1 + |x|.

    The scp is right only if the sizes of all matrices before were.
    """
    folder = tmp_path_factory.mktemp("compressed")
    pairs = [(f"m{number}", matrix) for number, matrix in enumerate(matrices)]
    write_matrices(f"ark,scp:{folder}/x.ark,{folder}/x.scp", pairs, method)
    for (_, found), matrix in zip(iterate_matrices(f"scp:{folder}/x.scp"), matrices, strict=True):
        assert found.shape == matrix.shape
        width = float(np.ptp(matrix)) or 1.0 + abs(float(matrix.max()))
        by_column = method == 2 or (method == 1 and len(matrix) > 8)
        step = {3: 65535, 5: 255}.get(method, 63 if by_column else 65535)
        allowed = 0.6 * width / step + 4 * width / 65535 + 1e-6 * np.abs(matrix).max()
        np.testing.assert_allclose(found, matrix, rtol=0, atol=allowed)


@settings(max_examples=50, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from(["f4", "f8"]), SHAPES, elements=st.floats(-(2.0**99), 2.0**99, width=32)
    )
)
def test_text_brings_every_bit_back(tmp_path_factory, matrix) -> None:
    name = str(tmp_path_factory.mktemp("text") / "m")
    write_matrix_file(name, matrix / 3, as_text=True)
    found = read_matrix_file(name).astype(matrix.dtype)
    np.testing.assert_array_equal(found, (matrix / 3).astype(matrix.dtype))


def test_single_files(tmp_path: Path) -> None:
    for number in COMPRESSION:
        write_matrix_file(f"{tmp_path}/m", MATRIX, number)
        tolerance = 7.5 / 200 if number else 0
        np.testing.assert_allclose(read_matrix_file(f"{tmp_path}/m"), MATRIX, atol=tolerance)
    write_matrix_file(f"| cat > {tmp_path}/p", MATRIX)
    assert (tmp_path / "p").read_bytes() == plain(MATRIX)


BROKEN = {
    "empty": (b"", "no data|neither"),
    "cut in a header": (plain(MATRIX)[:9], "truncated"),
    "cut in the values": (plain(MATRIX)[:-1], "truncated: 6 values announced"),
    "CM cut": ((header(b"CM ", 1, 1) + bytes(9))[:-1], "truncated"),
    "CM2 cut": (header(b"CM2 ", 2, 1) + bytes(3), "truncated"),
    "CM3 cut in a header": (header(b"CM3 ", 2, 1)[:-1], "truncated"),
    "data behind": (plain(MATRIX) + b"\0", "no id"),
    "text behind": (b"[ 1 2\n 3 4 ] 5\n", "data behind the ']'"),
    "nan": (plain(np.float32([[1, np.nan]])), "'a' holds nan in row 1, column 2"),
    "infinite": (plain(np.float64([[1], [np.inf]])), "'a' holds inf in row 2"),
    "text nan": (b"[ 1 nan ]\n", "'a' holds nan"),
    "nan header": (header(b"CM3 ", 1, 1, np.nan) + b"\0", "a corrupt header"),
    "no range": (header(b"CM3 ", 1, 1, 0, 0) + b"\0", "a range of 0"),
    "beyond float32": (header(b"CM3 ", 1, 1, 3e38, 3e38) + b"\xff", "holds inf"),
    "no rows": (b"\0BFM \4" + struct.pack("<i", 0) + b"\4" + struct.pack("<i", 3), "a size of 0"),
    "negative": (header(b"CM2 ", -1, -1) + bytes(2), "a size of -1"),
    "width": (plain(MATRIX).replace(b"\4", b"\x08", 1), "a corrupt header"),
    "vector": (b"\0BFV \4" + struct.pack("<if", 1, 1), "instead of a matrix"),
    "CM4": (header(b"CM4 ", 1, 1) + bytes(9), "instead of a matrix"),
    "unequal rows": (b"[\n 1 2\n 3 ]\n", "rows of unequal length"),
    "a word": (b"[\n 1 two ]\n", "'two'"),
    "not closed": (b"[\n 1 2\n", "no ']'"),
    "no numbers": (b"[ ]\n", "without rows"),
    "a pickle": (b"PKL" + pickle.dumps([1.0]), "neither a binary matrix"),
    "a numpy file": (b"NPY\1\0", "neither a binary matrix"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_damage_is_named_with_its_place(tmp_path: Path, what: str) -> None:
    content, says = BROKEN[what]
    with pytest.raises(TableError, match=says) as caught:
        one(tmp_path, content)
    assert "x.ark" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [plain(MATRIX) + b"x", b"[ 1 2 ]\n[ 3 ]\n", b"", b" "])
def test_a_single_file_holds_one_matrix_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(TableError, match="'.*m'"):
        read_matrix_file(f"{tmp_path}/m")


@pytest.mark.parametrize("kind", [b"FM ", b"DM ", b"CM ", b"CM2 ", b"CM3 "])
@pytest.mark.parametrize("size", [2**31 - 1, 2**14, -(2**31)])
def test_a_size_out_of_proportion_allocates_nothing(tmp_path: Path, kind: bytes, size: int) -> None:
    sizes = (b"\4" + struct.pack("<i", size)) * 2
    start = header(kind, size, size) if kind[:1] == b"C" else b"\0B" + kind + sizes
    (tmp_path / "m").write_bytes(start + bytes(64))
    (tmp_path / "x.ark").write_bytes(b"a " + start + bytes(64))
    tracemalloc.start()
    with pytest.raises(TableError):
        read_matrix_file(f"{tmp_path}/m")
    with pytest.raises(TableError):
        list(iterate_matrices(f"ark:{tmp_path}/x.ark"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_a_failing_pipe_and_a_repeated_id_are_errors(tmp_path: Path) -> None:
    (tmp_path / "x.ark").write_bytes((b"a " + plain(MATRIX)) * 2)
    with pytest.raises(TableError, match="'a' occurs twice"):
        list(iterate_matrices(f"ark:{tmp_path}/x.ark"))
    write_matrix_file(f"{tmp_path}/m", MATRIX)
    for read in (read_matrix_file, lambda name: list(iterate_matrices(f"ark:{name}"))):
        with pytest.raises(TableError, match="ended with status 3"):
            read(f"cat {tmp_path}/m; exit 3 |")


@pytest.mark.parametrize(
    ("matrix", "compression", "says"),
    [
        (np.float32([[1, np.nan]]), 0, "'b' holds nan"),
        (np.float64([[1e300]]), 1, "'b' holds inf"),
        (np.float32([[3e38, -3e38]]), 3, "too large to be compressed"),
        (np.float32([1, 2]), 0, r"the shape \(2,\)"),
        (np.empty((0, 3), np.float32), 0, r"the shape \(0, 3\)"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(tmp_path, matrix, compression: int, says) -> None:
    with pytest.raises(TableError, match=says):
        write_matrices(f"ark:{tmp_path}/x.ark", [("a", MATRIX), ("b", matrix)], compression)
    assert not list(tmp_path.iterdir())


def test_methods_with_a_fixed_range_are_not_offered(tmp_path: Path) -> None:
    for number in (4, 6, 7, 99):
        with pytest.raises(UsageError, match="is not offered"):
            write_matrix_file(f"{tmp_path}/m", MATRIX, number)
    with pytest.raises(UsageError, match="cannot be compressed"):
        write_matrices(f"ark,t:{tmp_path}/m", [("a", MATRIX)], 1)


def test_a_transform_of_kaldi_comes_back_byte_for_byte(tmp_path: Path) -> None:
    golden = EXTRACTS / "kaldi" / "transform.mat"
    write_matrix_file(f"{tmp_path}/m", read_matrix_file(str(golden)).astype(np.float32))
    assert (tmp_path / "m").read_bytes() == golden.read_bytes()


@needs_full_golden
def test_matrices_of_kaldi_are_read_and_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(FULL / "kaldi-golden")
    found = list(iterate_matrices("ark:test_matrix.ark"))
    rows = np.concatenate([matrix for _, matrix in found])
    np.testing.assert_array_equal(rows, read_ark(Path("test_xvector.ark"))[1])
    write_matrices(f"ark:{tmp_path}/x.ark", found)
    assert (tmp_path / "x.ark").read_bytes() == Path("test_matrix.ark").read_bytes()


@needs_full_golden
@pytest.mark.parametrize("name", ["test_matrix", "test_matrix60"])
def test_compressed_matrices_of_kaldi_unpack_as_kaldi_does(monkeypatch, name: str) -> None:
    """Kaldi's text has seven digits."""
    monkeypatch.chdir(FULL / "kaldi-golden")
    ours = list(iterate_matrices(f"ark:{name}.compressed.ark"))
    theirs = list(iterate_matrices(f"ark,t:{name}.compressed.txt"))
    assert [key for key, _ in ours] == [key for key, _ in theirs]
    for (_, found), (_, expected) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=5e-7 * np.abs(expected).max())


@needs_full_golden
@pytest.mark.parametrize("name", ["test_matrix", "test_matrix60"])
def test_compressed_matrices_are_written_as_kaldi_does(tmp_path, monkeypatch, name: str) -> None:
    """Sizes are equal; where a value lies between two codes, rounding may choose the other."""
    monkeypatch.chdir(FULL / "kaldi-golden")
    matrices = list(iterate_matrices("ark:test_matrix.ark"))
    if name == "test_matrix60":
        matrices = [("all", np.concatenate([matrix for _, matrix in matrices]))]
    write_matrices(f"ark:{tmp_path}/x.ark", matrices, 1)
    ours, theirs = (tmp_path / "x.ark").read_bytes(), Path(f"{name}.compressed.ark").read_bytes()
    assert len(ours) == len(theirs)
    assert sum(a != b for a, b in zip(ours, theirs, strict=True)) < len(theirs) / 200


BASE_INSTALL = """
import sys, importlib, pathlib
sys.modules["kaldiio"] = None
for name in sys.argv[2:]:
    importlib.import_module(f"dcaplda.runtime.tables.{name}")
from dcaplda.runtime.tables.vectors import read_vectors
print(read_vectors(f"ark:{sys.argv[1]}").matrix.shape)
"""


def test_embeddings_are_read_where_there_is_no_kaldiio() -> None:
    folder = Path(__file__).parents[3] / "runtime" / "tables"
    modules = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    ark = str(EXTRACTS / "kaldi" / "test_xvector.ark")
    command = [sys.executable, "-c", BASE_INSTALL, ark, *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("("), done.stderr


def test_importing_the_runtime_does_not_import_kaldiio() -> None:
    program = "import sys, dcaplda.runtime, dcaplda.runtime.tables.matrices; print(*sys.modules)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "dcaplda.runtime.tables.vector_writer" in done.stdout.split()
    assert "kaldiio" not in done.stdout.split()
