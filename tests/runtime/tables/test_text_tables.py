import gzip
from pathlib import Path

import pytest
from golden import EXTRACTS
from hypothesis import given
from hypothesis import strategies as st

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.text_lines import lines_of
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_numbers, read_words


def put(folder: Path, content: bytes | str, name: str = "table") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def test_whole_numbers_after_fractions_are_read_right(tmp_path: Path) -> None:
    """kaldiio reads the second line as [2, 10]."""
    table = put(tmp_path, "u1 3.25\nu2 10\nu3 .5\nu4 1e2\nu5 007\n")
    expected = {"u1": 3.25, "u2": 10.0, "u3": 0.5, "u4": 100.0, "u5": 7.0}
    for name in (table, f"ark:{table}", f"ark,t:{table}", f"cat {table} |"):
        assert read_numbers(name) == expected


def test_blanks_tabs_windows_line_ends_gzip_and_byte_order_marks_are_fine(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfu1 \t 1.5 \r\n\tu2\t2\r\n"
    assert read_numbers(put(tmp_path, content)) == {"u1": 1.5, "u2": 2.0}
    assert read_numbers(put(tmp_path, gzip.compress(content), "x.gz")) == {"u1": 1.5, "u2": 2.0}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("u1 1\nu2\n", "line 2"),
        ("u1 1 2\n", "line 1"),
        ("u1 1\n\nu2 2\n", "line 2"),
        ("u1 x\n", "found 'u1 x'"),
        ("u1 nan\n", "expected an id and a number"),
        ("u1 inf\n", "expected an id and a number"),
        ("u1 1_0\n", "expected an id and a number"),
        ("u1 0x10\n", "expected an id and a number"),
        ("u1 \u0661\n", "expected an id and a number"),
        ("u1 1e999\n", "has the value inf"),
        ("u1 1\nu1 2\n", "'u1' occurs twice"),
        ("", "is empty"),
        (b"u1 1\nu2 \xff\n", "line 2: b'\\xff\\n' is not UTF-8"),
        (b"u1 1\nu\0 2\n", "line 2: control character"),
        (b"u1 1\ru2 2\n", "line 1: control character"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: bytes | str, says: str) -> None:
    with pytest.raises(TableError) as caught:
        read_numbers(put(tmp_path, content))
    assert says in str(caught.value)


def test_whole_refuses_fractions(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="a whole number"):
        read_numbers(put(tmp_path, "u1 3\nu2 2.5\n"), whole=True)


def test_kaldis_text_and_binary_whole_numbers_agree() -> None:
    folder = EXTRACTS / "kaldi"
    text = read_numbers(f"ark:{folder}/num_utts.ark", whole=True)
    assert text == read_numbers(f"ark:{folder}/num_utts.bin.ark", whole=True)
    lengths = {key: len(words) for key, words in read_lists(f"{folder}/enroll_spk2utt").items()}
    assert text == lengths


@pytest.mark.parametrize("cut", [7, 9, 13])
def test_a_cut_binary_table_is_an_error(tmp_path: Path, cut: int) -> None:
    content = (EXTRACTS / "kaldi" / "num_utts.bin.ark").read_bytes()[: 12 * 3 - 12 + cut]
    with pytest.raises(TableError, match="damaged or cut short"):
        read_numbers(put(tmp_path, content), whole=True)


def test_frames_become_seconds_only_when_asked(tmp_path: Path) -> None:
    table = put(tmp_path, "u1 300\nu2 1\n", "utt2num_frames")
    found = read_durations(table, frame_shift=0.01)
    assert found == pytest.approx({"u1": 3.0, "u2": 0.01})
    with pytest.raises(TableError, match="--frame-shift"):
        read_durations(table)
    with pytest.raises(TableError, match="a whole number"):
        read_durations(put(tmp_path, "u1 3.5\n", "utt2dur"), frame_shift=0.01)


def test_words_and_lists(tmp_path: Path) -> None:
    assert read_words(put(tmp_path, "u1 s1\nu2  s1\n")) == {"u1": "s1", "u2": "s1"}
    assert read_lists(put(tmp_path, "s1 u1 u2\ns2 u3\n")) == {"s1": ["u1", "u2"], "s2": ["u3"]}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("s1 u1\ns2\n", "line 2: 's2' has an empty list"),
        ("s1 u1 u1\n", "lists 'u1' twice"),
        ("s1 u1\ns1 u2\n", "'s1' occurs twice"),
        ("s1 u1\n\n", "line 2: the line is blank"),
        ("", "is empty"),
    ],
)
def test_a_bad_list_is_named(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(TableError) as caught:
        read_lists(put(tmp_path, content))
    assert says in str(caught.value)


def test_words_refuse_a_second_word(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="line 1: expected an id and one word"):
        read_words(put(tmp_path, "u1 s1 s2\n"))


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C"], exclude_characters=" "))


@given(st.lists(st.lists(WORDS.filter(len), min_size=1, max_size=4), min_size=1, max_size=5))
def test_lines_survive_any_padding(lines: list[list[str]]) -> None:
    """Words may hold exotic blanks (no-break, ideographic): only blank and tab separate."""
    padded = "\r\n".join("  " + " \t ".join(words) + "\t" for words in lines)
    assert lines_of(padded.encode(), "x") == [" ".join(words) for words in lines]
