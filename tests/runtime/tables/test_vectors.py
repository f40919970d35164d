import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS, FULL, needs_full_golden
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kaldi_files import binary_ark, binary_vector, random_vectors, text_ark, write_scp

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.runtime.tables.vectors import iterate_vectors, read_vectors

VECTORS = random_vectors(5, 4)
MATRIX = np.stack(list(VECTORS.values()))


def put(folder: Path, content: bytes, name: str = "x.ark") -> str:
    (folder / name).write_bytes(content)
    return f"ark:{folder / name}"


@pytest.fixture
def scp(tmp_path: Path) -> Path:
    return write_scp(tmp_path, VECTORS)


def test_binary_float_and_double_are_read(tmp_path: Path) -> None:
    double = {key: vector.astype(np.float64) for key, vector in VECTORS.items()}
    for vectors in (VECTORS, double):
        table = read_vectors(put(tmp_path, binary_ark(vectors)))
        assert table.ids == list(VECTORS)
        assert table.matrix.dtype == np.float32
        np.testing.assert_array_equal(table.matrix, MATRIX)


def test_text_is_read_with_or_without_the_t(tmp_path: Path) -> None:
    """Nine significant digits carry a float32 exactly."""
    specifier = put(tmp_path, text_ark(VECTORS))
    for name in (specifier, specifier.replace("ark:", "ark,t:")):
        np.testing.assert_array_equal(read_vectors(name).matrix, MATRIX)


def test_text_allows_tabs_windows_line_ends_and_no_last_newline(tmp_path: Path) -> None:
    table = read_vectors(put(tmp_path, b"a\t[ 1 2 ]\r\nb  [ 3\t4e0 ]"))
    assert table.ids == ["a", "b"]
    np.testing.assert_array_equal(table.matrix, [[1, 2], [3, 4]])


def test_binary_and_text_may_alternate(tmp_path: Path) -> None:
    one = {"a": np.float32([1, 2])}
    content = binary_ark(one) + b"b  [ 3 4 ]\n" + binary_ark({"c": np.float32([5, 6])})
    table = read_vectors(put(tmp_path, content))
    np.testing.assert_array_equal(table.matrix, [[1, 2], [3, 4], [5, 6]])


def test_pipes_stdin_and_gzip_give_the_same(tmp_path: Path, scp: Path, monkeypatch) -> None:
    ark = tmp_path / "x.ark"
    packed = tmp_path / "x.ark.gz"
    packed.write_bytes(gzip.compress(ark.read_bytes()))
    names = [f"ark:cat {ark} |", f"ark:{packed}", f"ark,s,cs:gunzip -c {packed} |", f"scp:{scp}"]
    names += [f"scp:tac {scp} | tac |"]
    for name in names:
        np.testing.assert_array_equal(read_vectors(name).matrix, MATRIX)
    with open(ark) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        np.testing.assert_array_equal(read_vectors("ark:-").matrix, MATRIX)


def test_scp_entries_may_be_pipes_or_whole_files(tmp_path: Path, scp: Path) -> None:
    (tmp_path / "one").write_bytes(binary_vector(VECTORS["u1"]))
    (tmp_path / "two.gz").write_bytes(gzip.compress(binary_vector(VECTORS["u2"])))
    lines = [f"u1 {tmp_path}/one", f"u2 {tmp_path}/two.gz", f"u1b cat {tmp_path}/one |"]
    (tmp_path / "mixed.scp").write_text("\n".join(lines) + "\n")
    table = read_vectors(f"scp:{tmp_path}/mixed.scp")
    np.testing.assert_array_equal(table.matrix, MATRIX[[1, 2, 1]])


def test_scp_order_counts_and_many_archives_can_be_mixed(tmp_path: Path) -> None:
    lines, rows = [], []
    for number in range(150):  # more archives than are kept open
        vectors = random_vectors(2, 3, seed=number, prefix=f"a{number}-")
        lines.append(
            (tmp_path / write_scp(tmp_path, vectors, f"a{number}")).read_text().splitlines()
        )
        rows.append(np.stack(list(vectors.values())))
    shuffled = [pair[k] for k in (1, 0) for pair in lines]
    (tmp_path / "all.scp").write_text("\n".join(shuffled) + "\n")
    table = read_vectors(f"scp:{tmp_path}/all.scp")
    expected = np.concatenate([np.stack([pair[k] for pair in rows]) for k in (1, 0)])
    np.testing.assert_array_equal(table.matrix, expected)


def test_scp_names_start_here_then_at_the_scps_folder_and_a_root_wins(
    tmp_path: Path, scp: Path, monkeypatch
) -> None:
    """The same relative name in three places: -MATRIX here, MATRIX beside the scp, 2 at a root."""
    relative = scp.read_text().replace(f"{tmp_path}/", "")
    (tmp_path / "relative.scp").write_text(relative)
    name = f"scp:{tmp_path}/relative.scp"
    here, root = tmp_path / "here", tmp_path / "root"
    for folder, factor in ((here, -1), (root, 2)):
        folder.mkdir()
        vectors = {key: factor * vector for key, vector in VECTORS.items()}
        (folder / "x.ark").write_bytes(binary_ark(vectors))
    monkeypatch.chdir(here)
    np.testing.assert_array_equal(read_vectors(name).matrix, -MATRIX)
    np.testing.assert_array_equal(read_vectors(name, scp_root=str(root)).matrix, 2 * MATRIX)
    (here / "x.ark").unlink()
    np.testing.assert_array_equal(read_vectors(name).matrix, MATRIX)
    monkeypatch.chdir(tmp_path)
    np.testing.assert_array_equal(read_vectors("scp:relative.scp").matrix, MATRIX)
    (root / "x.ark").unlink()
    with pytest.raises(TableError, match=r"'u0' points to 'x.ark:3'.*names start at '.*root'"):
        read_vectors(name, scp_root=str(root))
    monkeypatch.chdir(here)
    (tmp_path / "x.ark").unlink()
    says = r"'u0' points to 'x.ark:3'.*the working directory or '.*'; see --scp-root"
    with pytest.raises(TableError, match=says):
        read_vectors(name)
    with pytest.raises(TableError, match=r"names start at the working directory; see --scp-root"):
        read_vectors(f"scp:cat {tmp_path}/relative.scp |")


def test_an_scp_may_point_to_npy_files(tmp_path: Path, scp: Path) -> None:
    """Of any float kind and byte order, as a vector or as one row or column."""
    forms = [np.float32, ">f4", np.float64, np.float16]
    exact = {f"n{i}": np.arange(4, dtype=kind) / 4 for i, kind in enumerate(forms)}
    shaped = {**exact, "row": exact["n0"][None, :], "column": exact["n0"][:, None]}
    for key, array in shaped.items():
        np.save(tmp_path / f"{key}.npy", array)
    (tmp_path / "n.scp").write_text("".join(f"{key} {key}.npy\n" for key in shaped))
    table = read_vectors(f"{tmp_path}/n.scp")
    assert table.ids == list(shaped)
    np.testing.assert_array_equal(table.matrix, [[0, 0.25, 0.5, 0.75]] * 6)
    (tmp_path / "mixed.scp").write_text(f"n0 n0.npy\n{scp.read_text()}")
    np.testing.assert_array_equal(read_vectors(f"scp:{tmp_path}/mixed.scp").matrix[1:], MATRIX)


@pytest.mark.parametrize(
    ("name", "prefix"), [("x.ark", "ark:"), ("x.scp", "scp:"), ("y.ark.gz", "ark:")]
)
def test_a_bare_name_with_kaldis_ending_means_the_table(
    tmp_path: Path, scp: Path, name: str, prefix: str
) -> None:
    (tmp_path / "y.ark.gz").write_bytes(gzip.compress(binary_ark(VECTORS)))
    bare, named = (read_vectors(f"{start}{tmp_path}/{name}") for start in ("", prefix))
    assert bare.ids == named.ids == list(VECTORS)
    np.testing.assert_array_equal(bare.matrix, MATRIX)
    write_vectors(f"{tmp_path}/bare.ark", VECTORS, MATRIX)
    assert (tmp_path / "bare.ark").read_bytes() == binary_ark(VECTORS)


def test_an_ark_that_is_an_scp_and_the_reverse_are_recognised(tmp_path: Path, scp: Path) -> None:
    with pytest.raises(TableError, match=r"looks like an scp: write 'scp:.*x.scp'"):
        read_vectors(f"ark:{scp}")
    (tmp_path / "files.scp").write_text("a files/a.npy\n")
    with pytest.raises(TableError, match=r"write 'scp:.*files.scp'"):
        read_vectors(f"ark,p:{tmp_path}/files.scp")
    with pytest.raises(TableError, match=r"write 'ark:.*x.ark'"):
        read_vectors(f"scp:{tmp_path}/x.ark")
    with pytest.raises(TableError) as caught:
        read_vectors(put(tmp_path, b"a [ 1 2\nb [ 3 4 ]\n"))
    assert "scp:" not in str(caught.value)


def test_only_the_wanted_ids_are_loaded(tmp_path: Path, scp: Path) -> None:
    for name in (f"scp:{scp}", f"ark:{tmp_path}/x.ark"):
        table = read_vectors(name, only={"u3", "u1", "absent"})
        assert table.ids == ["u1", "u3"]
        np.testing.assert_array_equal(table.matrix, MATRIX[[1, 3]])


HEADER = b"a \0BFV \4"
BROKEN = {
    "empty": (b"", "the table is empty"),
    "truncated values": (binary_ark(VECTORS)[:-1], "'u4': truncated"),
    "truncated header": (HEADER[:-1], "'a': truncated"),
    "id without data": (b"a\nb\n", "the id 'a' at byte 0 has no data"),
    "id at the end": (b"a ", "no data at byte 2"),
    "huge size": (HEADER + struct.pack("<i", 2**31 - 1) + b"1234", "2147483647 values announced"),
    "negative size": (HEADER + struct.pack("<i", -4) + b"1234" * 9, "a size of -4"),
    "zero size": (HEADER + struct.pack("<i", 0), "an empty vector"),
    "wrong width": (b"a \0BFV \x08" + struct.pack("<i", 1) + b"1234", "corrupt header"),
    "matrix": (b"a \0BFM \4" + b"\0" * 20, "a float matrix"),
    "compressed": (b"a \0BCM2" + b"\0" * 20, "a compressed matrix"),
    "unknown kind": (b"a \0BXY \4" + b"\0" * 20, "unknown binary data"),
    "duplicate": (binary_ark(VECTORS) * 2, "'u0' occurs twice"),
    "unequal": (binary_ark({"a": np.float32([1]), "b": np.float32([1, 2])}), "'b' has 2 values"),
    "nan": (binary_ark({"a": np.float32([1, 2]), "b": np.float32([1, np.nan])}), "'b' holds nan"),
    "infinite": (binary_ark({"a": np.float32([-np.inf])}), "'a' holds -inf"),
    "text nan": (b"a [ 1 nan ]\n", "'a' holds nan"),
    "beyond float32": (binary_ark({"a": np.float64([1e300])}), "'a' holds inf"),
    "not UTF-8": (b"\xff\xfe " + binary_vector(np.float32([1])), "is not UTF-8"),
    "nul in id": (b"a\0b " + binary_vector(np.float32([1])), "no id at byte 0"),
    "no id": (b" [ 1 2 ]\n", "no id at byte 0"),
    "a blank line": (b"a [ 1 ]\n\nb [ 2 ]\n", "no id at byte 8"),
    "no blank at all": (b"x" * 10000, "no id at byte 0"),
    "an scp": (b"a x.ark:5\n", "neither a binary vector nor"),
    "text not closed": (b"a [ 1 2\nb [ 3 4 ]\n", "no ']'"),
    "text with a word": (b"a [ 1 two ]\n", "'two'"),
    "text with an underscore": (b"a [ 1_0 ]\n", "not all numbers"),
    "text without numbers": (b"a [ ]\n", "an empty vector"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_archive_is_named_with_its_place(tmp_path: Path, what: str) -> None:
    content, says = BROKEN[what]
    with pytest.raises(TableError) as caught:
        read_vectors(put(tmp_path, content))
    assert says in str(caught.value)
    assert "x.ark" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("u9 {ark}:999999", "no data at byte 999999"),
        ("u9 {ark}:4", "neither a binary vector"),
        ("u9 {ark}", "neither a binary vector"),
        ("u9 {ark}:3[0:2]", "ranges such as"),
        ("u9 {folder}/nowhere.ark:3", "no such file"),
        ("u9 {packed}:3", "offset into a gzipped file"),
        ("u9 false |", "ended with status 1"),
        ("u9 -", "not a file"),
        ("u9", "expected 'id file'"),
        ("", "expected 'id file'"),
        ("u0 {ark}:3", "'u0' occurs twice"),
    ],
)
def test_a_bad_scp_line_is_an_error(tmp_path: Path, scp: Path, line: str, says: str) -> None:
    packed = tmp_path / "p.gz"
    packed.write_bytes(gzip.compress(b"x"))
    filled = line.format(ark=tmp_path / "x.ark", folder=tmp_path, packed=packed)
    scp.write_text(scp.read_text() + filled + "\nu10 nowhere\n")
    with pytest.raises(TableError) as caught:
        read_vectors(f"scp:{scp}")
    assert says in str(caught.value)
    assert "u9" in str(caught.value) or "line 6" in str(caught.value)


def test_a_permissive_scp_skips_and_counts_what_cannot_be_read(tmp_path: Path, scp: Path) -> None:
    bad = f"bad1 nowhere:3\nbad2 {tmp_path}/x.ark:1\nbad3 false |\n"
    scp.write_text(bad + scp.read_text())
    table = read_vectors(f"scp,p:{scp}")
    assert table.ids == list(VECTORS)
    assert len(table.skipped) == 3
    assert "bad1" in table.skipped[0]
    np.testing.assert_array_equal(table.matrix, MATRIX)


def test_a_permissive_archive_ends_at_the_damage(tmp_path: Path) -> None:
    specifier = put(tmp_path, binary_ark(VECTORS)[:-3]).replace("ark:", "ark,p:")
    table = read_vectors(specifier)
    assert table.ids == list(VECTORS)[:-1]
    assert len(table.skipped) == 1


def test_a_permissive_table_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.scp").write_text("a nowhere\n")
    with pytest.raises(TableError, match="no entry can be read"):
        read_vectors(f"scp,p:{tmp_path}/x.scp")


@pytest.mark.parametrize("kind", ["ark", "scp"])
def test_an_empty_table_is_an_error_even_if_little_is_wanted(tmp_path: Path, kind: str) -> None:
    (tmp_path / "x").touch()
    with pytest.raises(TableError, match="the table is empty"):
        read_vectors(f"{kind}:{tmp_path}/x", only={"u1"})


def test_vectors_of_any_size_are_iterated(tmp_path: Path) -> None:
    vectors = {"a": np.float32([1, 0, 1]), "b": np.float32([1])}
    found = dict(iterate_vectors(put(tmp_path, binary_ark(vectors))))
    assert {key: list(value) for key, value in found.items()} == {"a": [1, 0, 1], "b": [1]}


def int_vector(*values: int) -> bytes:
    """A vector of int32 as Kaldi writes it: each number behind a byte 4."""
    return b"\0B" + b"".join(b"\4" + struct.pack("<i", x) for x in (len(values), *values))


def test_int_vectors_are_iterated_but_are_no_embeddings(tmp_path: Path) -> None:
    specifier = put(tmp_path, b"a " + int_vector(1, 0, -7) + b"b " + int_vector(5))
    found = {key: value.tolist() for key, value in iterate_vectors(specifier)}
    assert found == {"a": [1, 0, -7], "b": [5]}
    with pytest.raises(TableError, match="unknown binary data"):
        read_vectors(specifier)


ITERATED = {
    "truncated header": (HEADER[:-1], "truncated"),
    "huge size": (HEADER + struct.pack("<i", 2**31 - 1) + b"1234", "2147483647 values announced"),
    "negative size": (HEADER + struct.pack("<i", -4) + b"1234" * 9, "a size of -4"),
    "zero size": (HEADER + struct.pack("<i", 0), "a size of 0"),
    "wrong width": (b"a \0BFV \x08" + struct.pack("<i", 1) + b"1234", "corrupt header"),
    "truncated ints": (b"a " + int_vector(1, 2)[:-1], "truncated: 2 values announced"),
    "huge ints": (b"a \0B\4" + struct.pack("<i", 2**31 - 1) + b"1234", "truncated"),
    "no ints": (b"a " + int_vector(), "a size of 0"),
    "a damaged int": (b"a " + int_vector(1, 2, 3).replace(b"\4\2", b"\5\2"), "corrupt values"),
    "single ints": (b"a \0B\4\1\0\0\0b \0B\4\1\0\0\0", "corrupt values"),
    "matrix": (b"a \0BFM \4" + b"\0" * 20, "instead of a vector"),
    "compressed": (b"a \0BCM2" + b"\0" * 20, "instead of a vector"),
    "unknown kind": (b"a \0BXY \4" + b"\0" * 20, "instead of a vector"),
    "a pickle": (b"a PKL" + b"\x80\4]\x94.", "neither a binary vector"),
}


@pytest.mark.parametrize(
    "what",
    [*(what for what in BROKEN if what not in ("unequal", "beyond float32", *ITERATED)), *ITERATED],
)
def test_what_is_iterated_is_checked_as_strictly(tmp_path: Path, what: str) -> None:
    content, says = ITERATED.get(what) or BROKEN[what]
    with pytest.raises(TableError) as caught:
        list(iterate_vectors(put(tmp_path, content)))
    assert says in str(caught.value)
    assert "x.ark" in str(caught.value)


def test_what_is_written_is_byte_for_byte_as_kaldi_writes_it(tmp_path: Path, monkeypatch) -> None:
    golden = EXTRACTS / "kaldi"
    table = read_vectors(f"ark:{golden}/test_xvector.ark")
    monkeypatch.chdir(tmp_path)
    write_vectors("ark,scp:test_xvector.ark,test_xvector.scp", table.ids, table.matrix)
    for name in ("test_xvector.ark", "test_xvector.scp"):
        assert (tmp_path / name).read_bytes() == (golden / name).read_bytes()


def test_stdout_pipes_gzip_and_text_hold_the_same(tmp_path: Path, capfdbinary) -> None:
    expected = binary_ark(VECTORS)
    write_vectors("ark:-", VECTORS, MATRIX)
    assert capfdbinary.readouterr().out == expected
    write_vectors(f"ark:| cat > {tmp_path}/piped", VECTORS, MATRIX)
    assert (tmp_path / "piped").read_bytes() == expected
    write_vectors(f"ark:{tmp_path}/x.gz", VECTORS, MATRIX)
    assert gzip.decompress((tmp_path / "x.gz").read_bytes()) == expected
    write_vectors(f"ark,t:{tmp_path}/x.txt", ["a", "b"], np.float32([[0.1, 1], [-2.5e-9, 3e20]]))
    assert (tmp_path / "x.txt").read_text() == "a  [ 0.1 1.0 ]\nb  [ -2.5e-09 3e+20 ]\n"


def test_a_table_that_cannot_be_finished_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="argument 2 is longer"):
        write_vectors(f"ark,scp:{tmp_path}/x.ark,{tmp_path}/x.scp", ["a", "b"], MATRIX)
    with pytest.raises(TableError, match="status 3"):
        write_vectors("ark:| cat > /dev/null; exit 3", VECTORS, MATRIX)
    assert not list(tmp_path.iterdir())


def test_many_archives_do_not_use_up_descriptors(tmp_path: Path) -> None:
    """Each file is opened by itself; a leak would pass the limit of most systems."""
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    lines = []
    for number in range(300):
        (tmp_path / f"{number}").write_bytes(binary_vector(np.float32([number])))
        lines.append(f"u{number} {tmp_path}/{number}")
    (tmp_path / "x.scp").write_text("\n".join(lines) + "\n")
    assert read_vectors(f"scp:{tmp_path}/x.scp").matrix[:, 0].tolist() == list(range(300))
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + 2


# Independent oracles: the kaldiio package, and files that Kaldi wrote.

KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)
FLOATS = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(width=32, allow_nan=False, allow_infinity=False),
)


@settings(max_examples=60, deadline=None)
@given(matrix=FLOATS, keys=st.data(), form=st.sampled_from(["ark", "ark,t", "ark,scp"]))
def test_kaldiio_reads_what_we_write(tmp_path_factory, matrix, keys, form: str) -> None:
    kaldiio = pytest.importorskip("kaldiio")
    ids = keys.draw(st.lists(KEYS, min_size=len(matrix), max_size=len(matrix), unique=True))
    folder = tmp_path_factory.mktemp("written")
    target = f"{form}:{folder}/x.ark" + (f",{folder}/x.scp" if "scp" in form else "")
    write_vectors(target, ids, matrix)
    ours = read_vectors(f"scp:{folder}/x.scp" if "scp" in form else f"{form}:{folder}/x.ark")
    assert ours.ids == ids
    # Bit for bit: the shortest decimals of a text archive read back as the same float32.
    np.testing.assert_array_equal(ours.matrix.view(np.uint32), matrix.view(np.uint32))
    if form != "ark,t":
        theirs = dict(kaldiio.load_ark(f"{folder}/x.ark"))
        assert list(theirs) == ids
        np.testing.assert_array_equal(np.stack(list(theirs.values())), matrix)


@settings(max_examples=40, deadline=None)
@given(matrix=FLOATS, double=st.booleans(), text=st.booleans())
def test_we_read_what_kaldiio_writes(tmp_path_factory, matrix, double: bool, text: bool) -> None:
    kaldiio = pytest.importorskip("kaldiio")
    folder = tmp_path_factory.mktemp("kaldiio")
    form = "ark,t" if text else "ark"
    with kaldiio.WriteHelper(f"{form},scp:{folder}/x.ark,{folder}/x.scp") as writer:
        for row, vector in enumerate(matrix):
            writer(f"utt{row}", vector.astype(np.float64) if double else vector)
    for name in (f"ark:{folder}/x.ark", f"scp:{folder}/x.scp"):
        table = read_vectors(name)
        assert table.ids == [f"utt{row}" for row in range(len(matrix))]
        np.testing.assert_array_equal(table.matrix, matrix)


def test_files_written_by_kaldi_are_read(monkeypatch) -> None:
    kaldiio = pytest.importorskip("kaldiio")
    monkeypatch.chdir(EXTRACTS / "kaldi")
    expected = dict(kaldiio.load_ark("test_xvector.ark"))
    for name in ("ark:test_xvector.ark", "scp:test_xvector.scp"):
        table = read_vectors(name)
        assert table.ids == list(expected)
        np.testing.assert_array_equal(table.matrix, np.stack(list(expected.values())))


@needs_full_golden
def test_all_forms_of_kaldis_own_table_agree(monkeypatch) -> None:
    """Text has seven digits, so it is close, not equal; the double archive holds the floats."""
    monkeypatch.chdir(FULL / "kaldi-golden")
    names = ("ark:test_xvector.ark", "ark:test_xvector.double.ark", "ark,t:test_xvector.txt")
    binary, double, text = (read_vectors(name) for name in names)
    assert binary.ids == double.ids == text.ids
    np.testing.assert_array_equal(binary.matrix, double.matrix)
    np.testing.assert_allclose(binary.matrix, text.matrix, rtol=5e-7)
