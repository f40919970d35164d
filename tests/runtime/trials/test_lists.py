import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.runtime.errors import TableError, UsageError
from dcaplda.runtime.tables.columns import Columns
from dcaplda.runtime.trials.lists import Trials, read_trials
from dcaplda.runtime.trials.score_file import write_scores


def read(folder: Path, content: bytes | str, *args: str, name: str = "trials", **kw) -> Trials:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_trials(str(path), *args, **kw)


def pairs(trials: Trials) -> list[tuple[str, str]]:
    """The trials spelt out."""
    enroll = [trials.enroll_ids[i] for i in trials.enroll_index]
    return list(zip(enroll, [trials.test_ids[i] for i in trials.test_index], strict=True))


EXPECTED = [("b", "x"), ("a", "y"), ("b", "y")]


@pytest.mark.parametrize(
    ("content", "targets"),
    [
        ("b x\na y\nb y\n", None),
        ("b x target\na y nontarget\nb y target\n", [True, False, True]),
        ("b x tgt\na y imp\nb y imp\n", [True, False, False]),
        ("b x 1\na y 0\nb y 0\n", [True, False, False]),
        ("1 b x\n0 a y\n0 b y\n", [True, False, False]),
        ("b\tx\na\ty\nb\ty\n", None),
        ("b\tx\ttarget\na y  target\n b y\ttarget", [True, True, True]),
        ("b x\r\na y\r\nb y\r\n", None),
        ("\ufeffb x\na y\nb y\n", None),
        ("b x\na y\nb y", None),
    ],
)
def test_every_form_gives_the_same_trials(tmp_path: Path, content: str, targets) -> None:
    trials = read(tmp_path, content)
    assert pairs(trials) == EXPECTED
    assert trials.enroll_ids == ["a", "b"]
    assert trials.enroll_index.dtype == trials.test_index.dtype == np.int32
    assert (None if trials.targets is None else trials.targets.tolist()) == targets


def test_gzip_and_pipes_are_read(tmp_path: Path) -> None:
    plain = b"b x\na y\nb y\n"
    assert pairs(read(tmp_path, gzip.compress(plain), name="trials.gz")) == EXPECTED
    assert pairs(read_trials(f"gunzip -c {tmp_path}/trials.gz |")) == EXPECTED
    with pytest.raises(TableError, match="status 4"):
        read_trials(f"gunzip -c {tmp_path}/trials.gz; exit 4 |")


def test_an_explicit_form_settles_what_is_ambiguous(tmp_path: Path) -> None:
    content = "1 x 0\n0 y 1\n"
    with pytest.raises(TableError, match="both the first and the last column look like labels"):
        read(tmp_path, content)
    assert pairs(read(tmp_path, content, "enroll-test-label")) == [("1", "x"), ("0", "y")]
    assert pairs(read(tmp_path, content, "label-enroll-test")) == [("x", "0"), ("y", "1")]


def test_an_explicit_form_ignores_what_the_label_column_holds(tmp_path: Path) -> None:
    trials = read(tmp_path, "a x 0.5\nb y what\n", "enroll-test-label")
    assert pairs(trials) == [("a", "x"), ("b", "y")]
    assert trials.targets is None


MALFORMED = [
    ("", "no trials in it"),
    (" \n\n", "no trials in it"),
    ("a x\nb\nc z\n", "line 2: expected 'enroll test', found 'b'"),
    ("a x\n\nc z\n", "line 2: expected 'enroll test', found a blank line"),
    ("a x\nc z\n\n", "line 3: expected 'enroll test', found a blank line"),
    ("a x\nb y z\n", "line 2: expected 'enroll test', found 'b y z'"),
    ("a x target\nb y\n", "line 2: expected 'enroll test label'"),
    ("a x target\nb\ny z target extra\n", "line 2"),
    ("a x target\nb y tarjet\n", "line 2: expected a label such as 'target', found 'tarjet'"),
    ("1 a x\n2 b y\n", "line 2: expected a label such as '1', found '2'"),
    ("a b c\n", "line 1: neither the first nor the last word"),
    ("a b c d\n", "line 1"),
    ("a\n", "line 1"),
    (b"a x\nb \xff\n", "line 2: b'\\xff\\n' is not UTF-8"),
    (b"a x\nb \0y\n", "line 2: control character"),
    (b"a x\nb\ry z\n", "line 2: control character"),
    (b"a x\nb y\x7f\n", "line 2: control character"),
]


@pytest.mark.parametrize(("content", "says"), MALFORMED)
def test_a_malformed_line_is_named(tmp_path: Path, content: bytes | str, says: str) -> None:
    with pytest.raises(TableError) as caught:
        read(tmp_path, content)
    assert says in str(caught.value)
    assert "trials" in str(caught.value)


HEADED = {
    "tabs": "modelid\tsegmentid\tside\nb\tx\ta\na\ty\ta\nb\ty\tb\n",
    "commas": "side,modelid,segmentid\r\n,b,x\r\n1,a,y\r\n1,b,y\r\n",
    "blanks": "modelid  segmentid\nb x\na   y\nb y\n",
    "quotes": '"modelid","segmentid","note"\n"b","x","one, two"\n"a",y,""\nb,y,z\n',
}


@pytest.mark.parametrize("form", HEADED)
def test_tables_with_a_header_are_read_by_column_name(tmp_path: Path, form: str) -> None:
    trials = read(tmp_path, HEADED[form], columns=Columns())
    assert pairs(trials) == EXPECTED


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("modelid\tsegment\nb\tx\n", "line 1: expected one column named segmentid"),
        ("modelid\tmodelid\tsegmentid\nb\tx\ty\n", "line 1: expected one column named modelid"),
        ("modelid\tsegmentid\nb\n", "line 2: expected 2 columns"),
        ("modelid\tsegmentid\nb\tx\tz\n", "line 2: expected 2 columns"),
        ("modelid\tsegmentid\nb\tx\tz\na\n", "line 2: expected 2 columns"),
        ("modelid\tsegmentid\na\tx\n\nb\ty\n", "line 3: expected 2 columns"),
        ("modelid\tsegmentid\na\tx\nb\t\n", "line 3: the test id ''"),
        ("modelid,segmentid\na b,x\n", "line 2: the enroll id 'a b'"),
        ("modelid,segmentid\n", "no trials after the header"),
        ('modelid,segmentid\n"a,x\n', "line 2"),
        ('modelid,segmentid\n"a\nb",x\n', "line 3"),
        (b"modelid,segmentid\na,\xff\n", "line 2"),
    ],
)
def test_a_malformed_table_is_named(tmp_path: Path, content: bytes | str, says: str) -> None:
    with pytest.raises(TableError) as caught:
        read(tmp_path, content, columns=Columns(enroll=("modelid",), test=("segmentid",)))
    assert says in str(caught.value)


def test_half_named_columns_leave_the_usual_names_of_the_rest(tmp_path: Path) -> None:
    columns = Columns.chosen(False, enroll="Voice", test="")
    content = "MODEL\tvoice\tSegmentId\tkey\nq\tb\tx\t1\nq\ta\ty\t0\nq\tb\ty\t0\n"
    assert pairs(read(tmp_path, content, columns=columns)) == EXPECTED
    assert Columns.chosen(False, enroll="", test="") is None
    assert Columns.chosen(True, enroll="") == Columns()
    named = Columns.chosen(False, label="truth")
    with pytest.raises(TableError, match="expected one column named truth, found: MODEL"):
        read(tmp_path, content, columns=named)


def test_unknown_forms_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="trial form 'odd'"):
        read(tmp_path, "a x\n", "odd")


def test_the_result_does_not_depend_on_chance(tmp_path: Path, rng) -> None:
    """Ids come sorted, however threads of the parser met them; the trials are as written."""
    names = [f"spk{i:04d}" for i in rng.permutation(3000)]
    chosen = rng.integers(0, 3000, (50_000, 2))
    lines = [f"{names[a]} {names[b]}" for a, b in chosen]
    trials = read(tmp_path, "\n".join(lines) + "\n")
    assert trials.enroll_ids == sorted(trials.enroll_ids)
    assert [" ".join(pair) for pair in pairs(trials)] == lines


def test_take_keeps_ids_and_order(tmp_path: Path) -> None:
    trials = read(tmp_path, "b x target\na y nontarget\nb y target\n")
    assert pairs(trials.take(slice(1, 3))) == EXPECTED[1:]
    some = trials.take(np.array([True, False, True]))
    assert pairs(some) == [EXPECTED[0], EXPECTED[2]]
    assert some.targets is not None
    assert some.targets.tolist() == [True, True]


# Score files


def make_trials(count: int) -> Trials:
    index = np.arange(count, dtype=np.int32) % 2
    return Trials("made", ["a", "b"], ["x", "y"], index, index[::-1].copy())


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=300))
def test_scores_are_the_shortest_decimals_that_read_back(tmp_path_factory, bits) -> None:
    """numpy's own shortest digits tell what shortest means."""
    values = np.array(bits, np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    path = tmp_path_factory.mktemp("scores") / "scores"
    write_scores(str(path), make_trials(len(values)), values)
    words = [line.split(" ")[2] for line in path.read_text().splitlines()]
    back = np.array([np.float32(word) for word in words], np.float32)
    np.testing.assert_array_equal(back.view(np.uint32), values.view(np.uint32))
    assert [digits(word) for word in words] == [digits(str(value)) for value in values]


def digits(number: str) -> str:
    """Significant digits of a decimal."""
    mantissa = number.lower().split("e")[0].replace(".", "").lstrip("-0")
    return mantissa.rstrip("0")


def test_score_lines_keep_the_order_of_the_trials(tmp_path: Path) -> None:
    trials = read(tmp_path, "b x\na y\nb y\n")
    scores = np.float32([1.5, -0.25, 3e-5])
    write_scores(str(tmp_path / "out"), trials, scores)
    assert (tmp_path / "out").read_text() == "b x 1.5\na y -0.25\nb y 0.00003\n"
    write_scores(str(tmp_path / "out.gz"), trials, scores, scores > 0)
    lines = gzip.decompress((tmp_path / "out.gz").read_bytes()).decode().splitlines()
    assert lines == ["b x 1.5 accept", "a y -0.25 reject", "b y 0.00003 accept"]


def test_more_lines_than_are_formatted_at_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("dcaplda.runtime.trials.score_file._LINES_AT_ONCE", 7)
    values = np.arange(50, dtype=np.float32)
    write_scores(str(tmp_path / "out"), make_trials(50), values)
    lines = (tmp_path / "out").read_text().splitlines()
    assert [float(line.split()[2]) for line in lines] == list(range(50))
    assert all(re.fullmatch(r"[ab] [xy] \S+", line) for line in lines)


def test_ids_with_quotes_and_commas_are_written_as_they_are(tmp_path: Path) -> None:
    trials = read(tmp_path, "a\"b x,y\n'c' z\n")
    write_scores(str(tmp_path / "out"), trials, np.float32([1, 2]))
    assert (tmp_path / "out").read_text() == "a\"b x,y 1.0\n'c' z 2.0\n"
