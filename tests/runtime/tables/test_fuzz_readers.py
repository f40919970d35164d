"""Damaged files: every reader gives correct data or a clear error, and nothing else.

Each test damages a good file at random and compares the outcome with an oracle that is written
differently: re-encoding the result byte for byte, or plain Python over lines and words.
"""

import gzip
import os
import re
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import EXTRACTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kaldi_files import binary_ark, binary_vector, random_vectors, text_ark, write_scp

from dcaplda.runtime.errors import DcapldaError, TableError
from dcaplda.runtime.tables.columns import Columns
from dcaplda.runtime.tables.kaldi_objects import read_plda_file
from dcaplda.runtime.tables.matrices import iterate_matrices, read_matrix_file
from dcaplda.runtime.tables.specifiers import read_input
from dcaplda.runtime.tables.text_tables import read_lists, read_numbers
from dcaplda.runtime.tables.vectors import iterate_vectors, read_vectors
from dcaplda.runtime.trials.lists import read_trials

# FUZZ_EXAMPLES=3000 digs deeper; it takes minutes.
FUZZ = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
VECTORS = random_vectors(4, 3)
# Bytes that mean something somewhere; no '|', so that no damaged line becomes a command.
TELLING = b"\0B FVD\4\n\r\t[]:.-0123456789eau\xff\xc3\xa9\xef\xbb\xbf\x1f\x8b"


@st.composite
def damage(draw: Any, content: bytes) -> bytes:
    """One to three random edits of a file."""
    data = bytearray(content)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
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


def attempt(reader: Callable[[], Any]) -> Any:
    """What the reader gives, or None after a clear error of one line."""
    try:
        return reader()
    except DcapldaError as error:
        assert str(error)
        assert "Traceback" not in str(error)
        return None


def put(folder: Path, content: bytes, name: str = "x") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


DOUBLES = {key: vector.astype(np.float64) for key, vector in VECTORS.items()}


@FUZZ
@given(data=st.data(), base=st.sampled_from([VECTORS, DOUBLES]))
def test_binary_archives(tmp_path: Path, data, base: dict) -> None:
    """What is accepted is exactly the encoding of what is returned."""
    content = data.draw(damage(binary_ark(base)))
    path = put(tmp_path, content)
    found = attempt(lambda: list(iterate_vectors(f"ark:{path}")))
    if found is not None:
        encoded = b""
        for key, vector in found:
            end = len(encoded) + len(key.encode())
            blank = content[end : end + 1]  # Kaldi takes a tab as well
            assert blank in (b" ", b"\t")
            encoded += key.encode() + blank + binary_vector(vector)
        assert encoded == content
        assert len(dict(found)) == len(found)
    table = attempt(lambda: read_vectors(f"ark:{path}"))
    if table is not None:
        assert found is not None
        assert table.ids == [key for key, _ in found]
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(table.matrix, [v.astype(np.float32) for _, v in found])
        assert np.isfinite(table.matrix).all()


@FUZZ
@given(data=st.data())
def test_int_vectors(tmp_path: Path, data) -> None:
    """As for floats; damage may turn one kind into the other."""
    numbers = {"u0": [1, 0, 1, 1], "u1": [0], "u2": [7, -7]}

    def encoded(values: Any) -> bytes:
        if np.asarray(values).dtype.kind == "f":
            return binary_vector(values)
        return b"\0B" + b"".join(struct.pack("<Bi", 4, x) for x in (len(values), *values))

    good = b"".join(key.encode() + b" " + encoded(row) for key, row in numbers.items())
    content = data.draw(damage(good))
    found = attempt(lambda: list(iterate_vectors(f"ark:{put(tmp_path, content)}")))
    if found is not None and b"[" not in content:
        expected = b"".join(key.encode() + b" " + encoded(row) for key, row in found)
        # A tab may stand for the blank after an id; as a number's byte it is on both sides.
        assert expected.replace(b"\t", b" ") == content.replace(b"\t", b" ")


MATRICES = {"m0": np.eye(2, 3, dtype=np.float32), "m1": np.float64([[0.5], [-3]])}


@FUZZ
@given(data=st.data())
def test_binary_matrices(tmp_path: Path, data) -> None:
    """What is accepted is exactly the encoding of what is returned."""

    def encoded(matrix: np.ndarray) -> bytes:
        kind = b"FM" if matrix.dtype == np.float32 else b"DM"
        return b"\0B" + kind + struct.pack("<sBiBi", b" ", 4, len(matrix), 4, len(matrix.T))

    good = b"".join(
        key.encode() + b" " + encoded(matrix) + matrix.tobytes() for key, matrix in MATRICES.items()
    )
    content = data.draw(damage(good))
    found = attempt(lambda: list(iterate_matrices(f"ark:{put(tmp_path, content)}")))
    if found is not None and b"[" not in content:
        again = (key.encode() + b" " + encoded(m) + m.tobytes() for key, m in found)
        assert b"".join(again) == re.sub(rb"(m\d)\t", rb"\1 ", content)
        assert all(np.isfinite(matrix).all() for _, matrix in found)


@FUZZ
@given(data=st.data(), kind=st.sampled_from([b"CM ", b"CM2 ", b"CM3 "]))
def test_compressed_matrices(tmp_path: Path, data, kind: bytes) -> None:
    """What is accepted is finite and has the announced shape, which fills the file."""
    body = {b"CM ": 5 * 2 + 8 * 2, b"CM2 ": 2 * 5 * 2, b"CM3 ": 5 * 2}[kind]
    codes = bytes(range(1, body + 1))
    content = data.draw(damage(b"\0B" + kind + struct.pack("<ffii", -1, 4, 5, 2) + codes))
    found = attempt(lambda: read_matrix_file(put(tmp_path, content)))
    if found is not None and content[2:3] == b"C":
        rows, columns = found.shape
        start = content.index(b" ") + 9
        assert struct.unpack_from("<ii", content, start) == (rows, columns)
        stored = {b"CM ": rows + 8, b"CM2 ": 2 * rows, b"CM3 ": rows}[content[2 : start - 8]]
        assert not content[start + 8 + stored * columns :].strip()
        assert np.isfinite(found).all()


NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"


def text_oracle(content: bytes) -> list[tuple[str, list[float]]] | None:
    """Lines of `id [ numbers ]`, or None if any line is something else."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    entries = []
    for line in text.rstrip("\n").split("\n"):
        match = re.fullmatch(r"([^\x00-\x20\x7f]+)[ \t]+\[(.+)\][ \t\r]*", line)
        words = match[2].split() if match else []
        if not words or not all(re.fullmatch(NUMBER, word, re.ASCII) for word in words):
            return None
        assert match
        entries.append((match[1], [float(word) for word in words]))
    return entries


@FUZZ
@given(data=st.data())
def test_text_archives(tmp_path: Path, data) -> None:
    """Whatever is accepted, the oracle reads the same from it."""
    content = data.draw(damage(text_ark(VECTORS)))
    found = attempt(lambda: list(iterate_vectors(f"ark,t:{put(tmp_path, content)}")))
    if found is not None:
        assert [(key, list(vector)) for key, vector in found] == text_oracle(content)


@FUZZ
@given(data=st.data())
def test_scps(tmp_path: Path, data, monkeypatch) -> None:
    """An accepted line gives the vector that starts at its offset."""
    monkeypatch.chdir(tmp_path)
    scp = write_scp(tmp_path, VECTORS)
    good = scp.read_text().replace(f"{tmp_path}/", "")
    starts = {
        int(line.rsplit(":", 1)[1]): key
        for line, key in zip(good.splitlines(), VECTORS, strict=True)
    }
    content = data.draw(damage(good.encode()))
    found = attempt(lambda: list(iterate_vectors(f"scp:{put(tmp_path, content, 'bad.scp')}")))
    if found is not None:
        lines = content.decode("utf-8-sig").rstrip("\n").split("\n")
        words = [line.replace("\t", " ").strip(" \r").split(" ") for line in lines]
        assert [key for key, _ in found] == [word[0] for word in words]
        for word, (_, vector) in zip(words, found, strict=True):
            offset = int(word[-1].rsplit(":", 1)[1])
            np.testing.assert_array_equal(vector, VECTORS[starts[offset]])


LABELS = {"target", "nontarget", "tgt", "imp", "0", "1"}


def trials_oracle(content: bytes) -> list[tuple[str, str]] | None:
    """The trials by plain Python, or None if the list is malformed."""
    content = content.removeprefix(b"\xef\xbb\xbf")
    if re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n|\Z)", content):
        return None
    try:
        text = content.decode("utf-8").replace("\r", "")
    except UnicodeDecodeError:
        return None
    lines = [re.split("[ \t]+", line.strip(" \t")) for line in text.removesuffix("\n").split("\n")]
    width = len(lines[0])
    if width not in (2, 3) or any(len(words) != width or "" in words for words in lines):
        return None
    if width == 2:
        return [(words[0], words[1]) for words in lines]
    last = all(words[2] in LABELS for words in lines)
    first = all(words[0] in LABELS for words in lines)
    if first == last:
        return None
    return [(words[0], words[1]) if last else (words[1], words[2]) for words in lines]


@FUZZ
@given(
    data=st.data(),
    good=st.sampled_from(
        [
            b"u0 u1\nu1 u2\nu0 u3\n",
            b"u0 u1 target\nu1 u2 nontarget\nu0 u3 target\n",
            b"u0\tu1\ttgt\nu1\tu2\timp\n",
            b"1 u0 u1\n0 u1 u2\n",
        ]
    ),
)
def test_trials(tmp_path: Path, data, good: bytes) -> None:
    """Accepted exactly when the oracle accepts, with the same trials."""
    content = data.draw(damage(good))
    trials = attempt(lambda: read_trials(put(tmp_path, content)))
    found = None
    if trials is not None:
        enroll = [trials.enroll_ids[i] for i in trials.enroll_index]
        found = list(zip(enroll, [trials.test_ids[i] for i in trials.test_index], strict=True))
    assert found == trials_oracle(content)


@FUZZ
@given(data=st.data())
def test_trials_with_a_header(tmp_path: Path, data) -> None:
    content = data.draw(damage(b"model\tside\tsegment\nm1\ta\ts1\nm2\tb\ts2\n"))
    columns = Columns(enroll=("model",), test=("segment",))
    trials = attempt(lambda: read_trials(put(tmp_path, content), columns=columns))
    if trials is not None:
        text = content.decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n")
        header, *rows = [line.split("\t") for line in text.split("\n")]
        names = [name.strip().lower() for name in header]
        places = names.index("model"), names.index("segment")
        assert [len(row) for row in rows] == [len(header)] * len(rows)
        enroll = [trials.enroll_ids[i] for i in trials.enroll_index]
        assert enroll == [row[places[0]] for row in rows]


@FUZZ
@given(data=st.data())
def test_numbers(tmp_path: Path, data) -> None:
    content = data.draw(damage(b"u1 3.25\nu2 10\nu3 0.5\nu4 1e2\n"))
    found = attempt(lambda: read_numbers(put(tmp_path, content)))
    if found is not None and b"\0" not in content:
        text = content.decode("utf-8-sig").replace("\r", "").removesuffix("\n")
        rows = [re.split("[ \t]+", line.strip(" \t")) for line in text.split("\n")]
        assert all(re.fullmatch(NUMBER, row[1], re.ASCII) for row in rows)
        assert found == {key: float(word) for key, word in rows}
        assert len(found) == len(rows)


@FUZZ
@given(data=st.data())
def test_lists(tmp_path: Path, data) -> None:
    content = data.draw(damage(b"s1 u1 u2\ns2 u3\n"))
    found = attempt(lambda: read_lists(put(tmp_path, content)))
    if found is not None:
        text = content.decode("utf-8-sig").replace("\r", "").removesuffix("\n")
        rows = [re.split("[ \t]+", line.strip(" \t")) for line in text.split("\n")]
        assert [[key, *words] for key, words in found.items()] == rows


PLDA = (EXTRACTS / "kaldi" / "plda").read_bytes()


def small_plda() -> bytes:
    """A binary PLDA of two dimensions."""
    mean, psi = (binary_vector(np.array(v))[2:] for v in ([0.5, -1.0], [3.0, 2.0]))
    matrix = b"DM \4" + struct.pack("<i", 2) + b"\4" + struct.pack("<i", 2) + np.eye(2).tobytes()
    return b"\0B<Plda> " + mean + matrix + psi + b"</Plda> "


@FUZZ
@given(data=st.data())
def test_plda_objects(tmp_path: Path, data) -> None:
    content = data.draw(damage(small_plda()))
    found = attempt(lambda: read_plda_file(put(tmp_path, content)))
    if found is not None:
        size = len(found.mean)
        assert found.transform.shape == (size, size)
        assert np.isfinite(found.transform).all()
        assert (found.psi >= 0).all()
        for array in (found.mean, found.transform, found.psi):
            with np.errstate(over="ignore"):
                stored = any(array.astype(kind).tobytes() in content for kind in ("<f4", "<f8"))
            assert stored or content[:2] != b"\0B"


def test_the_undamaged_plda_is_read() -> None:
    assert len(read_plda_file(str(EXTRACTS / "kaldi" / "plda")).psi) == 40


@FUZZ
@given(data=st.data())
def test_gzip(tmp_path: Path, data) -> None:
    """The checksum finds every damage of the content."""
    good = b"u0 u1 target\n" * 20
    content = data.draw(damage(gzip.compress(good, mtime=0)))
    found = attempt(lambda: bytes(read_input(put(tmp_path, content, "x"))))
    assert (
        found is None
        or found in (good, content)
        or content.startswith(gzip.compress(good, mtime=0))
    )


@pytest.mark.parametrize("kind", [b"FV ", b"DV "])
@pytest.mark.parametrize("size", [2**31 - 1, 2**28, -(2**31)])
def test_a_size_out_of_proportion_allocates_nothing(tmp_path: Path, kind: bytes, size: int) -> None:
    content = b"a \0B" + kind + b"\4" + struct.pack("<i", size) + b"\0" * 64
    path = put(tmp_path, content)
    tracemalloc.start()
    with pytest.raises(TableError):
        read_vectors(f"ark:{path}")
    with pytest.raises(TableError):
        read_plda_file(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
