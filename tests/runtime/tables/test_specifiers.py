import gzip
import os
from pathlib import Path

import pytest

from dcaplda.runtime.errors import TableError, UsageError
from dcaplda.runtime.tables.specifiers import (
    check_output,
    parse_rspecifier,
    parse_wspecifier,
    read_input,
    split_offset,
    table_source,
    writing,
)


@pytest.mark.parametrize(
    ("text", "kind", "source", "permissive"),
    [
        ("ark:x.ark", "ark", "x.ark", False),
        ("scp:data/x.scp", "scp", "data/x.scp", False),
        ("ark,t:-", "ark", "-", False),
        ("ark,s,cs:x.ark", "ark", "x.ark", False),
        ("scp,p:x.scp", "scp", "x.scp", True),
        ("p,o,scp:x.scp", "scp", "x.scp", True),
        ("ark:copy-vector scp:x.scp ark:- |", "ark", "copy-vector scp:x.scp ark:- |", False),
    ],
)
def test_rspecifiers_are_understood(text: str, kind: str, source: str, permissive: bool) -> None:
    found = parse_rspecifier(text)
    assert (found.kind, found.source, found.permissive) == (kind, source, permissive)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x.scp", "write 'scp:x.scp'"),
        ("x.ark", "write 'ark:x.ark'"),
        ("ark,scp:x,y", "either ark or scp"),
        ("ark,q:x", "unknown option 'q'"),
        ("ark:", "no file name"),
        ("", "not an rspecifier"),
    ],
)
def test_bad_rspecifiers_are_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_rspecifier(text)


def test_wspecifiers_are_understood() -> None:
    both = parse_wspecifier("ark,scp:a.ark,b.scp")
    assert (both.ark, both.scp, both.as_text) == ("a.ark", "b.scp", False)
    text = parse_wspecifier("ark,t:-")
    assert (text.ark, text.scp, text.as_text) == ("-", "", True)


@pytest.mark.parametrize("text", ["x", "scp:x", "ark,scp:x", "ark,z:x", "ark:", "ark,scp:-,b"])
def test_bad_wspecifiers_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_wspecifier(text)


def test_a_table_may_have_a_prefix_or_none() -> None:
    assert table_source("utt2dur") == "utt2dur"
    assert table_source("ark,t:utt2dur") == "utt2dur"
    assert table_source("ark:cat utt2dur |") == "cat utt2dur |"
    with pytest.raises(UsageError, match="plain text"):
        table_source("scp:utt2dur")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("x.ark:12", ("x.ark", 12)),
        ("x.ark", ("x.ark", None)),
        ("a:b:7", ("a:b", 7)),
        ("x:-3", ("x:-3", None)),
        ("x:\u0663", ("x:\u0663", None)),
        (":5", (":5", None)),
    ],
)
def test_offsets_are_split_off(name: str, expected: tuple) -> None:
    assert split_offset(name) == expected


def test_a_pipe_gives_its_output(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello")
    assert bytes(read_input(f"cat {tmp_path}/x |")) == b"hello"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("false", "'false' ended with status 1"),
        ("echo data; exit 7", "status 7"),
        ("no-such-command-here 2>/dev/null", "command not found"),
        ("kill -9 $$", "was killed"),
    ],
)
def test_a_failing_pipe_is_an_error_whatever_it_wrote(command: str, says: str) -> None:
    with pytest.raises(TableError, match=says):
        read_input(command + " |")


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "plain-name").write_bytes(gzip.compress(b"first") + gzip.compress(b" second"))
    assert bytes(read_input(str(tmp_path / "plain-name"))) == b"first second"
    assert bytes(read_input(f"gzip -c < {tmp_path}/plain-name | gunzip -c |")) == b"first second"


@pytest.mark.parametrize("cut", [3, 12, 20, -5, -1])
def test_cut_gzip_is_an_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(b"some text that is packed")[:cut])
    with pytest.raises(TableError, match=r"broken gzip|not a gzip"):
        read_input(str(path))


def test_a_gz_name_on_something_else_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"text")
    with pytest.raises(TableError, match="not a gzip file"):
        read_input(str(tmp_path / "x.gz"))


def test_missing_file_and_directory_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no such file"):
        read_input(str(tmp_path / "nope"))
    with pytest.raises(TableError, match="cannot be read"):
        read_input(str(tmp_path))
    with pytest.raises(TableError, match="cannot be read"):
        read_input("a\0b")


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert bytes(read_input(f"(echo via fifo > {fifo}) & cat {fifo} |")) == b"via fifo\n"


def test_a_written_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with pytest.raises(RuntimeError), writing(str(target)) as stream:
        stream.write(b"new")
        raise RuntimeError
    assert target.read_bytes() == b"old"
    with writing(str(target)) as stream:
        stream.write(b"new")
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    with writing(str(tmp_path / "link")) as stream:
        stream.write(b"x")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_bytes() == b"x"


def test_a_device_is_written_and_not_replaced(tmp_path: Path) -> None:
    with writing("/dev/null") as stream:
        stream.write(b"x")
    assert not os.path.isfile("/dev/null")


def test_gz_names_are_packed_and_reproducible(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        with writing(str(tmp_path / name)) as stream:
            stream.write(b"text" * 1000)
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"text" * 1000
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_an_output_pipe_is_fed_and_checked(tmp_path: Path) -> None:
    with writing(f"| cat > {tmp_path}/out") as stream:
        stream.write(b"x")
    assert (tmp_path / "out").read_bytes() == b"x"
    with (
        pytest.raises(TableError, match="status 3"),
        writing("| cat > /dev/null; exit 3") as stream,
    ):
        stream.write(b"x")


def test_impossible_outputs_are_refused_before_work_starts(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no directory"):
        check_output(str(tmp_path / "no" / "out"))
    with pytest.raises(UsageError, match="is a directory"):
        check_output(str(tmp_path))
    with pytest.raises(UsageError, match="starts with"):
        check_output("gzip -c > x |")
    for fine in ("-", "| cat", str(tmp_path / "out")):
        check_output(fine)
