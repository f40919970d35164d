"""Every format of embeddings: the same table in and out, bit by bit; one line for all damage."""

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kaldi_files import binary_ark

from dcaplda.runtime.errors import DcapldaError, TableError, UsageError
from dcaplda.runtime.tables.formats import child
from dcaplda.runtime.tables.formats.registry import find_format, known_formats
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.runtime.tables.vectors import names_vectors, read_vectors

IDS = ["b", "a/1", "ü-3"]
MATRIX = np.float32([[1.5, -2.0], [0.1, 3e20], [-0.0, 1e-45]])
TARGETS = {"npz": "x.npz", "npy": "x", "h5": "x.h5", "hdf5": "x.hdf5", "parquet": "x.parquet"}
FORMS = ["ark:{}/x.ark", "ark,t:{}/x.txt", "{}/x.npz", "npy:{}/x", "{}/x.h5", "{}/x.parquet"]


def rows(table) -> dict[str, bytes]:
    """The bytes of each row; a folder has no order of its own."""
    return {key: row.tobytes() for key, row in zip(table.ids, table.matrix, strict=True)}


def test_every_registered_format_is_tested_here() -> None:
    assert set(known_formats()) == set(TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_prefix_and_bare_name_mean_the_same(tmp_path: Path, name: str) -> None:
    path = f"{tmp_path}/{TARGETS[name]}"
    write_vectors(f"{name}:{path}", IDS, MATRIX)
    for text in (f"{name}:{path}", path):
        table = read_vectors(text)
        assert table.matrix.dtype == np.float32 and table.matrix.flags.writeable
        assert table.ids == (sorted(IDS) if name == "npy" else IDS)
        assert rows(table) == dict(zip(IDS, (row.tobytes() for row in MATRIX), strict=True))
        assert names_vectors(text)
    assert sorted(os.listdir(tmp_path)) == [TARGETS[name]]


KEYS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], exclude_characters="/."),
    min_size=1,
    max_size=9,
)
FLOATS = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@settings(max_examples=15, deadline=None)
@given(matrix=FLOATS, keys=st.data())
def test_a_table_comes_back_bit_by_bit_through_every_format(tmp_path_factory, matrix, keys) -> None:
    """One after the other, so that what one reader gives is what the next writer takes."""
    ids = keys.draw(st.lists(KEYS, min_size=len(matrix), max_size=len(matrix), unique=True))
    folder = tmp_path_factory.mktemp("chain")
    expected = dict(zip(ids, (row.tobytes() for row in matrix), strict=True))
    for form in FORMS:
        target = form.format(folder)
        write_vectors(target, ids, matrix)
        table = read_vectors(target)
        assert rows(table) == expected, form
        ids, matrix = table.ids, table.matrix


@pytest.mark.parametrize("form", FORMS)
def test_only_the_wanted_ids_are_given(tmp_path: Path, form: str) -> None:
    target = form.format(tmp_path)
    write_vectors(target, IDS, MATRIX)
    table = read_vectors(target, only={"ü-3", "b", "absent"})
    assert table.ids == ["b", "ü-3"]
    np.testing.assert_array_equal(table.matrix, MATRIX[[0, 2]])
    assert read_vectors(target, only={"absent"}).ids == []


def test_libraries_read_what_is_written(tmp_path: Path) -> None:
    for name in ("x.npz", "x.h5", "x.parquet", "x/"):
        write_vectors(f"{tmp_path}/{name}", IDS, MATRIX)
    with np.load(tmp_path / "x.npz", allow_pickle=False) as content:
        assert content["ids"].tolist() == IDS
        np.testing.assert_array_equal(content["vectors"], MATRIX)
    with h5py.File(tmp_path / "x.h5") as content:
        assert content["ids"].asstr()[()].tolist() == IDS
        assert content["vectors"].dtype == np.float32
        np.testing.assert_array_equal(content["vectors"], MATRIX)
    frame = pl.read_parquet(tmp_path / "x.parquet")
    assert frame["ids"].to_list() == IDS
    np.testing.assert_array_equal(np.stack(frame["vectors"].to_list()), MATRIX)
    np.testing.assert_array_equal(np.load(tmp_path / "x" / "a" / "1.npy"), MATRIX[1])


def test_what_libraries_write_is_read_in_every_layout(tmp_path: Path) -> None:
    """Values that float16 holds, so that every precision gives the same table."""
    ids, matrix = ["a", "b"], np.array([[1.0, 0.5], [2.0, -0.25]])
    made = []

    def path(name: str) -> str:
        made.append(str(tmp_path / name))
        return made[-1]

    for kind in ("f2", "f4", "f8", ">f4"):
        np.savez(path(f"data{kind}.npz"), ids=ids, data=matrix.astype(kind))
        a, b = matrix.astype(kind)
        np.savez_compressed(path(f"each{kind}.npz"), a=a, b=b)
    np.savez(path("fortran.npz"), ids=np.array(ids, "S"), vectors=np.asfortranarray(matrix))
    with h5py.File(path("fixed.h5"), "w") as content:
        content["ids"], content["data"] = np.array(ids, "S"), matrix
    with h5py.File(path("packed.hdf5"), "w") as content:
        content["ids"] = ids
        content.create_dataset("vectors", data=matrix, chunks=(1, 2), compression="gzip")
    with h5py.File(path("each.h5"), "w") as content:
        content["a"], content["b"] = matrix[0], matrix[1:]
    columns = {"ids": ids, "more": [1, 2]}
    pl.DataFrame({**columns, "data": matrix.tolist()}).write_parquet(path("list.parquet"))
    pl.DataFrame({**columns, "vectors": matrix.astype("f4")}).write_parquet(path("array.parquet"))
    for name in made:
        table = read_vectors(name)
        assert table.ids == ids, name
        np.testing.assert_array_equal(table.matrix, matrix.astype(np.float32), err_msg=name)


def test_whole_numbers_are_ids_and_groups_are_paths(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", ids=np.arange(2), vectors=np.eye(2))
    assert read_vectors(str(tmp_path / "x.npz")).ids == ["0", "1"]
    with h5py.File(tmp_path / "x.h5", "w") as content:
        content["spk/u1"], content["spk/u2"] = np.ones(3), np.zeros(3)
    table = read_vectors(str(tmp_path / "x.h5"), only={"spk/u2"})
    assert table.ids == ["spk/u2"]
    np.testing.assert_array_equal(table.matrix, [[0, 0, 0]])


class Bomb:
    """Would leave a file behind if it were unpickled."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


GOOD = np.ones((2, 2), np.float32)


def bad_npz(path: Path, what: str) -> None:
    ids, objects = np.array(["u", "v"]), np.array([Bomb(path.parent / "ran"), None], object)
    arrays = {
        "no vectors": {"ids": ids},
        "both": {"ids": ids, "data": GOOD, "vectors": GOOD},
        "three rows": {"ids": ids, "data": np.ones((3, 2))},
        "a vector": {"ids": ids, "data": np.ones(2)},
        "a cube": {"ids": ids, "data": np.ones((2, 1, 1))},
        "no values": {"ids": ids, "data": np.ones((2, 0))},
        "nothing": {"ids": ids[:0], "data": GOOD[:0]},
        "ids in rows": {"ids": ids[:, None], "data": GOOD},
        "twice": {"ids": np.array(["u", "u"]), "data": GOOD},
        "blank": {"ids": np.array(["u", "a b"]), "data": GOOD},
        "no text": {"ids": np.array([0.5, 1]), "data": GOOD},
        "bad bytes": {"ids": np.array([b"u", b"\xff"]), "data": GOOD},
        "objects": {"ids": ids, "data": objects},
        "object ids": {"ids": objects, "data": GOOD},
        "object vectors": {"u": objects},
        "ints": {"ids": ids, "data": np.ones((2, 2), int)},
        "nan": {"ids": ids, "data": np.float32([[1, 2], [3, np.nan]])},
        "beyond float32": {"ids": ids, "data": np.array([[1, 2], [3, 1e300]])},
        "unequal": {"u": np.ones(2), "v": np.ones(3)},
        "a matrix each": {"u": GOOD},
        "a number each": {"u": np.float32(1)},
        "words": {"names": np.array(["u"])},
    }
    if what in arrays:
        with open(path, "wb") as stream:
            np.savez(stream, **arrays[what])
    elif what == "npy":
        with open(path, "wb") as stream:
            np.save(stream, GOOD)
    elif what == "pickle":
        path.write_bytes(pickle.dumps(Bomb(path.parent / "ran")))
    elif what == "empty":
        path.touch()
    elif what == "no zip":
        path.write_bytes(b"no zip")
    elif what == "empty zip":
        zipfile.ZipFile(path, "w").close()
    elif what == "a pickle inside":
        with zipfile.ZipFile(path, "w") as content:
            content.writestr("u", pickle.dumps(Bomb(path.parent / "ran")))
    elif what == "cut":
        bad_npz(path, "good")
        path.write_bytes(path.read_bytes()[:-40])
    elif what == "flipped":
        bad_npz(path, "good")
        data = bytearray(path.read_bytes())
        data[data.index(GOOD.tobytes())] ^= 1
        path.write_bytes(data)
    else:
        np.savez(path, ids=ids, vectors=GOOD)


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("no vectors", "needs the arrays 'ids' and 'vectors' (or 'data')"),
        ("both", "needs the arrays"),
        ("three rows", "found 2 ids and 'data' of the shape (3, 2)"),
        ("a vector", "of the shape (2,)"),
        ("a cube", "of the shape (2, 1, 1)"),
        ("no values", "of the shape (2, 0)"),
        ("nothing", "the table is empty"),
        ("ids in rows", "'ids' of the shape (2, 1)"),
        ("twice", "'u' occurs twice"),
        ("blank", "the id 'a b' is not one word"),
        ("no text", "'ids' holds float64; expected text"),
        ("bad bytes", "the id b'\\xff' is not UTF-8"),
        ("objects", "'data' holds Python objects, which are never loaded"),
        ("object ids", "'ids' holds Python objects"),
        ("object vectors", "'u' holds Python objects"),
        ("ints", "'data' holds int64; expected float32"),
        ("nan", "'v' holds nan as value 2"),
        ("beyond float32", "'v' holds inf as value 2"),
        ("unequal", "'v' has 3 values, 'u' has 2"),
        ("a matrix each", "'u': an array of the shape (2, 2); expected one vector"),
        ("a number each", "'u': an array of the shape ()"),
        ("words", "'names' holds <U1; expected float32"),
        ("npy", "one array without ids (npy)"),
        ("pickle", "cannot be read as npz"),
        ("empty", "cannot be read as npz"),
        ("no zip", "cannot be read as npz"),
        ("empty zip", "the table is empty"),
        ("a pickle inside", "holds 'u', which is no array"),
        ("cut", "cannot be read as npz"),
        ("flipped", "Bad CRC-32"),
    ],
)
def test_a_bad_npz_is_one_line_and_nothing_is_unpickled(
    tmp_path: Path, what: str, says: str
) -> None:
    bad_npz(tmp_path / "x.npz", what)
    with pytest.raises(TableError) as caught:
        read_vectors(f"{tmp_path}/x.npz")
    assert says in str(caught.value)
    assert "x.npz" in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def bad_hdf5(path: Path, what: str) -> None:
    with h5py.File(path, "w") as content:
        if what == "other file":
            with h5py.File(path.parent / "other.h5", "w") as other:
                other["ids"], other["vectors"] = ["u", "v"], GOOD
            content["ids"] = h5py.ExternalLink("other.h5", "ids")
            content["vectors"] = GOOD
            return
        if what == "nothing":
            return
        if what in ("unequal", "a matrix each"):
            content["u"], content["v"] = np.ones(2), np.ones(3)
            if what == "a matrix each":
                del content["u"]
                content["u"] = GOOD
            return
        ids = {"bad bytes": [b"u", b"\xff\xfe"], "twice": ["u", "u"], "no text": [0.5, 1.0]}
        content["ids"] = ids.get(what, ["u", "v"])
        if what == "huge":
            content.create_dataset("vectors", (2, 1 << 40), np.float32, chunks=(1, 1024))
        elif what == "virtual":
            content.create_virtual_dataset("vectors", h5py.VirtualLayout((2, 2), np.float32))
        elif what == "outside":
            (path.parent / "raw").write_bytes(GOOD.tobytes())
            outside = [(str(path.parent / "raw"), 0, 16)]
            content.create_dataset("vectors", (2, 2), np.float32, external=outside)
        elif what == "a group":
            content.create_group("vectors")
        elif what == "objects":
            kind = h5py.vlen_dtype(np.float32)
            content.create_dataset("vectors", (2,), kind)[0] = np.ones(3, np.float32)
        else:
            data = {"three rows": np.ones((3, 2)), "ints": np.ones((2, 2), int)}
            content["vectors"] = data.get(what, np.float32([[1, 2], [np.inf, 1]]))


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("other file", "'ids' is a link to another place"),
        ("nothing", "or one dataset per id"),
        ("unequal", "'v' has 3 values, 'u' has 2"),
        ("a matrix each", "'u': an array of the shape (2, 2)"),
        ("bad bytes", "the id b'\\xff\\xfe' is not UTF-8"),
        ("twice", "'u' occurs twice"),
        ("no text", "'ids' holds float64"),
        ("huge", "announces 8796093022208 bytes, but 0 are stored"),
        ("virtual", "has its data in another file"),
        ("outside", "has its data in another file"),
        ("a group", "'vectors' is no dataset"),
        ("objects", "'vectors' holds Python objects"),
        ("three rows", "of the shape (3, 2)"),
        ("ints", "'vectors' holds int64"),
        ("infinite", "'v' holds inf as value 1"),
    ],
)
def test_a_bad_hdf5_is_one_line(tmp_path: Path, what: str, says: str) -> None:
    bad_hdf5(tmp_path / "x.h5", what)
    with pytest.raises(TableError) as caught:
        read_vectors(f"{tmp_path}/x.h5")
    assert says in str(caught.value)
    assert "x.h5" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"id": ["u"]}, "needs the columns 'ids' and 'vectors'"),
        ({"ids": ["u"]}, "needs the columns 'ids' and 'vectors'"),
        ({"ids": ["u"], "data": [1.5]}, "the column 'data' holds Float64"),
        ({"ids": ["u"], "data": [[1, 2]]}, "the column 'data' holds List(Int64)"),
        ({"ids": [], "data": []}, "the column 'data' holds"),
        ({"ids": ["u", None], "data": [[1.0], [2.0]]}, "row 2 has no id"),
        ({"ids": ["u", "v"], "data": [[1.0], None]}, "'v' has no vector"),
        ({"ids": ["u", "v"], "data": [[1.0, 2.0], [1.0]]}, "'v' has 1 values, 'u' has 2"),
        ({"ids": ["u", "v"], "data": [[1.0], [None]]}, "'v' has a hole"),
        ({"ids": ["u", "v"], "data": [[], []]}, "the column 'data' holds List(Null)"),
        ({"ids": ["u", "u"], "data": [[1.0], [2.0]]}, "'u' occurs twice"),
        ({"ids": ["u", "a\tb"], "data": [[1.0], [2.0]]}, "the id 'a\\tb' is not one word"),
        ({"ids": [1.5], "data": [[1.0]]}, "the id '1.5' is no text"),
        ({"ids": ["u"], "data": [[float("nan")]]}, "'u' holds nan"),
    ],
)
def test_a_bad_parquet_is_one_line(tmp_path: Path, columns: dict, says: str) -> None:
    pl.DataFrame(columns).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(TableError) as caught:
        read_vectors(f"{tmp_path}/x.parquet")
    assert says in str(caught.value)
    assert "x.parquet" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["x.parquet", "x.h5"])
@pytest.mark.parametrize("code", ["import os; os.abort()", "print('{')", "while True: pass"])
def test_a_file_that_takes_its_reader_down_is_one_line(
    tmp_path: Path, name: str, code: str, monkeypatch
) -> None:
    write_vectors(f"{tmp_path}/{name}", IDS, MATRIX)
    monkeypatch.setattr(child, "CODE", code)
    monkeypatch.setattr(child, "PATIENCE", 0.5)
    with pytest.raises(TableError, match=r"x.\w+': cannot be read as \w+ \(damaged\)"):
        read_vectors(f"{tmp_path}/{name}")


def test_a_parquet_of_empty_lists_and_one_without_rows_are_refused(tmp_path: Path) -> None:
    kind = {"ids": pl.String, "vectors": pl.List(pl.Float32)}
    for content, says in ((["u"], "has no values"), ([], "the table is empty")):
        frame = pl.DataFrame({"ids": content, "vectors": [[] for _ in content]}, schema=kind)
        frame.write_parquet(tmp_path / "x.parquet")
        with pytest.raises(TableError, match=says):
            read_vectors(f"{tmp_path}/x.parquet")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "'u.npy': no npy data"),
        (b"\x93NUMPY\1\0", "cut short"),
        (b"\x93NUMPY\1\0\xff\xff" + b" " * 99, "cut short"),
        (b"\x93NUMPY\1\0\x76\0" + b"{}".ljust(118), "no plain array"),
        (np.ones(3, int), "holds int64"),
        (np.ones((2, 2)), "of the shape (2, 2)"),
        (np.ones(0), "of the shape (0,)"),
        (np.array([{}], object), "holds Python objects"),
        (np.ones(1, [("a", "f4")]), "no plain array"),
    ],
)
def test_a_bad_npy_in_a_folder_is_named(tmp_path: Path, content, says: str) -> None:
    if isinstance(content, bytes):
        (tmp_path / "u.npy").write_bytes(content)
    else:
        np.save(tmp_path / "u.npy", content)
    (tmp_path / "x.scp").write_text(f"u {tmp_path}/u.npy\n")
    with pytest.raises(TableError) as caught:
        read_vectors(f"npy:{tmp_path}")
    assert says in str(caught.value) and "u.npy" in str(caught.value)
    with pytest.raises(TableError, match=r"'u' points to '.*u.npy'"):
        read_vectors(f"scp:{tmp_path}/x.scp")


def test_a_cut_or_a_too_long_npy_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "u.npy", MATRIX[0])
    whole = (tmp_path / "u.npy").read_bytes()
    for content, says in ((whole[:-1], "8 bytes announced"), (whole + b"x", "1 bytes behind")):
        (tmp_path / "u.npy").write_bytes(content)
        with pytest.raises(TableError, match=says):
            read_vectors(str(tmp_path))


def test_a_folder_without_npy_and_names_of_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"no .npy file in it"):
        read_vectors(f"npy:{tmp_path}")
    for name in ("npz:{}/none", "{}/none.h5", "{}/none.parquet", "npy:{}/none"):
        with pytest.raises(TableError, match="no such f"):
            read_vectors(name.format(tmp_path))
    for name in ("npz:-", "h5:cat x |", "parquet:"):
        with pytest.raises(UsageError, match="takes a file name"):
            read_vectors(name)
    with pytest.raises(UsageError, match="is not an rspecifier"):
        read_vectors(f"{tmp_path}/x.nzp")
    with pytest.raises(UsageError, match="no format 'nzp:' is known here; known: ark: scp: .*npz:"):
        read_vectors(f"nzp:{tmp_path}/x")
    np.save(tmp_path / "x.npy", MATRIX)
    with pytest.raises(TableError, match="one file has no ids"):
        read_vectors(f"{tmp_path}/x.npy")
    with pytest.raises(TableError, match="vectors go to a folder"):
        write_vectors(f"{tmp_path}/y.npy", IDS, MATRIX)
    assert find_format("scp:x.npz") is None
    assert find_format("ark:cat x.npz |") is None


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    for bad in ("../out", "/etc/x", "a//b", "."):
        with pytest.raises(TableError, match="cannot be a file name"):
            write_vectors(f"npy:{tmp_path}/x", ["good", bad], MATRIX[:2])
    # A file and a folder of one name.
    with pytest.raises(OSError):
        write_vectors(f"npy:{tmp_path}/x", ["a", "a.npy/b"], MATRIX[:2])
    assert not list(tmp_path.iterdir())
    write_vectors(f"npy:{tmp_path}/x", IDS, MATRIX)
    with pytest.raises(UsageError, match="is there already"):
        write_vectors(f"npy:{tmp_path}/x", IDS, MATRIX)
    (tmp_path / "empty").mkdir()
    write_vectors(f"npy:{tmp_path}/empty", IDS, MATRIX)
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o777 & ~_umask()
    with pytest.raises(UsageError, match="there is no directory"):
        write_vectors(f"npy:{tmp_path}/none/x", IDS, MATRIX)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("name", ["x.npz", "x.h5", "x.parquet"])
def test_a_failed_write_keeps_the_older_file(tmp_path: Path, name: str, monkeypatch) -> None:
    target = tmp_path / name
    write_vectors(str(target), IDS, MATRIX)
    before = target.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        write_vectors(str(target), IDS, 2 * MATRIX[:, ::-1])
    assert target.read_bytes() == before
    assert os.listdir(tmp_path) == [name]


WITHOUT = """
import sys
for name in ("h5py", "polars", "kaldiio"):
    sys.modules[name] = None
from dcaplda.bin.copy_vectors import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("source", "target", "status", "says"),
    [
        ("x.npz", "npy:{}/y", 0, "copied 3 vectors of 2 values"),
        ("x.h5", "npy:{}/y", 1, "needs 'h5py'; install it with: pip install 'dcaplda[hdf5]'"),
        ("x.parquet", "npy:{}/y", 1, "pip install 'dcaplda[tools]'"),
        ("x.npz", "{}/y.h5", 1, "pip install 'dcaplda[hdf5]'"),
    ],
)
def test_a_missing_package_is_named_and_numpy_suffices_for_npz(
    tmp_path: Path, source: str, target: str, status: int, says: str
) -> None:
    write_vectors(f"{tmp_path}/{source}", IDS, MATRIX)
    command = [sys.executable, "-c", WITHOUT, f"{tmp_path}/{source}", target.format(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_a_new_format_is_one_file(tmp_path: Path) -> None:
    """A module laid into the folder of a copied package is known to read_vectors."""
    import shutil

    root = Path(__file__).parents[4]
    shutil.copytree(root / "runtime", tmp_path / "dcaplda" / "runtime")
    (tmp_path / "dcaplda/runtime/tables/formats/json_lines.py").write_text(
        "import json\nimport numpy as np\n"
        "from dcaplda.runtime.tables.formats.registry import VectorFormat, register\n"
        "def read(name, only):\n"
        "    found = json.load(open(name))\n"
        "    return list(found), np.array(list(found.values()))\n"
        "register(VectorFormat(names=('json',), endings=('.json',), read=read, write=print))\n"
    )
    (tmp_path / "x.json").write_text(json.dumps({"a": [1.0, 2.0]}))
    program = (
        "import sys, types\n"
        "package = types.ModuleType('dcaplda')\n"
        f"package.__path__ = [{str(tmp_path / 'dcaplda')!r}]\n"
        "sys.modules['dcaplda'] = package\n"
        "from dcaplda.runtime.tables.vectors import read_vectors\n"
        f"print(read_vectors({str(tmp_path / 'x.json')!r}).matrix.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[[1.0, 2.0]]", done.stderr


def test_every_error_is_ours(tmp_path: Path) -> None:
    """A Kaldi archive under the ending of each format."""
    for name in ("x.npz", "x.h5", "x.parquet"):
        (tmp_path / name).write_bytes(binary_ark(dict(zip(IDS, MATRIX, strict=True))))
        with pytest.raises(DcapldaError, match="cannot be read as"):
            read_vectors(f"{tmp_path}/{name}")
