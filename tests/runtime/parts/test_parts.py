"""Stamps, digests and merging: what counts as done, what as equal, and what is refused."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kaldi_files import random_vectors, write_scp

from dcaplda.runtime.errors import PartError, TableError, UsageError
from dcaplda.runtime.parts import digests
from dcaplda.runtime.parts.merging import in_order, merge_lines, remove_parts
from dcaplda.runtime.parts.stamps import Work, is_done, read_stamp, stamp_path, write_stamp


def work(parts: int = 3, **inputs: str) -> Work:
    return Work("score-trials", parts, {"model": "m", "trials": "t", **inputs}, {"prior": "None"})


def make(folder: Path, count: int = 3, job: Work | None = None) -> list[Path]:
    """Stamped parts with some lines in each."""
    paths = []
    for part in range(1, count + 1):
        path = folder / f"scores.{part}"
        path.write_text("".join(f"a{part} b{n} {n}\n" for n in range(part)))
        write_stamp(path, job or work(count), part)
        paths.append(path)
    return paths


def test_a_part_is_done_only_for_its_number_and_its_job(tmp_path: Path) -> None:
    path = make(tmp_path)[1]
    assert is_done(path, work(), 2)
    assert not is_done(path, work(), 1)
    assert not is_done(path, work(trials="other"), 2)
    assert not is_done(path, work(4), 2)
    assert not is_done(tmp_path / "none", work(), 2)


@pytest.mark.parametrize("damage", ["shorter", "same size", "no stamp", "broken stamp", "gone"])
def test_a_part_that_is_not_as_it_was_written_is_not_done(tmp_path: Path, damage: str) -> None:
    path = make(tmp_path)[2]
    if damage == "shorter":
        path.write_text("a3 b0 0\n")
    elif damage == "same size":
        path.write_bytes(path.read_bytes()[:-2] + b"7\n")
    elif damage == "no stamp":
        stamp_path(path).unlink()
    elif damage == "broken stamp":
        stamp_path(path).write_text('{"format": 1, "part": 3')
    else:
        path.unlink()
    assert not is_done(path, work(), 3)


def test_a_merge_is_the_whole_whatever_the_order_of_the_files(tmp_path: Path) -> None:
    paths = make(tmp_path, 12)
    whole = b"".join(path.read_bytes() for path in paths)
    mixed = sorted(paths, key=str)
    assert mixed != paths
    assert merge_lines(in_order(mixed, work(12)), str(tmp_path / "all")) == 78
    assert (tmp_path / "all").read_bytes() == whole
    # The stamps are hidden: a shell's `cat scores.*` takes the parts alone.
    assert sorted(map(str, tmp_path.glob("scores.*"))) == sorted(map(str, paths))


def test_packed_parts_give_the_packed_whole(tmp_path: Path) -> None:
    paths = make(tmp_path)
    merge_lines(in_order(paths), str(tmp_path / "all.gz"))
    packed = []
    for part, path in enumerate(paths, 1):
        packed.append(path.with_suffix(f".{part}.gz"))
        packed[-1].write_bytes(gzip.compress(path.read_bytes()))
        write_stamp(packed[-1], work(), part)
    merge_lines(in_order(packed), str(tmp_path / "again.gz"))
    assert (tmp_path / "again.gz").read_bytes() == (tmp_path / "all.gz").read_bytes()
    assert gzip.decompress((tmp_path / "all.gz").read_bytes()).count(b"\n") == 6


def refused(paths: list[Path], job: Work | None = None) -> str:
    with pytest.raises(PartError) as caught:
        in_order(paths, job)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_merge_names_what_is_missing_or_foreign(tmp_path: Path) -> None:
    paths = make(tmp_path)
    assert "parts 1, 3 of 3 are missing" in refused(paths[1:2])
    assert "part 2 of 3 is missing" in refused([paths[0], paths[2]])
    assert "no such part" in refused([*paths[:2], tmp_path / "scores.9"])
    assert "also in" in refused([*paths, paths[0]])
    assert "made of other trials" in refused(paths, work(trials="new"))
    assert "of 3 parts, not of 4" in refused(paths, work(4))
    assert refused([]) == "there are no parts to put together; name their files"
    other = Work("score-trials", 3, {"model": "m", "trials": "t"}, {"prior": "0.1"})
    write_stamp(paths[1], other, 2)
    assert f"{paths[1]}: part 2 is made with --prior=0.1, not with --prior=None" in refused(paths)
    write_stamp(paths[1], Work("search-speakers", 3, {}, {}), 2)
    assert "made by search-speakers, not by score-trials" in refused(paths)
    write_stamp(paths[1], work(), 2)
    paths[1].write_text("a2 b0 5\n")
    assert "not as it was written" in refused(paths)
    stamp_path(paths[1]).unlink()
    assert "has no stamp" in refused(paths)


@given(
    st.sampled_from(
        ["part", "num_parts", "tool", "inputs", "settings", "size", "sha256", "format"]
    ),
    st.one_of(st.none(), st.integers(-3, 3), st.text(max_size=3), st.lists(st.integers())),
)
def test_a_damaged_stamp_is_one_line_never_a_crash(tmp_path_factory, name: str, value) -> None:
    path = make(tmp_path_factory.mktemp("stamp"), 1)[0]
    told = json.loads(stamp_path(path).read_text())
    told[name] = value
    stamp_path(path).write_text(json.dumps(told))
    try:
        stamp = read_stamp(path)
    except PartError as error:
        assert str(stamp_path(path)) in str(error)
        assert not is_done(path, work(1), 1)
    else:
        assert stamp is not None


def test_removed_parts_leave_nothing(tmp_path: Path) -> None:
    remove_parts(make(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_digest_is_of_the_content_not_of_the_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("u1 3\n")
    (tmp_path / "b").write_text("u1 3\n")
    (tmp_path / "c").write_text("u1 4\n")
    name = str(tmp_path)
    same = digests.of_table(f"{name}/a")
    assert digests.of_table(f"ark:{name}/b") == digests.of_table(f"cat {name}/b |") == same
    assert digests.of_table(f"{name}/c") != same
    with pytest.raises(TableError, match="no such file"):
        digests.of_table(f"{name}/d")
    with pytest.raises(TableError, match="status 3"):
        digests.of_table("exit 3 |")
    with pytest.raises(UsageError, match="read twice"):
        digests.of_table("-")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDWR)
    with pytest.raises(UsageError, match="read twice"):
        digests.of_table(f"{name}/pipe")
    os.close(reader)


def test_the_digest_of_an_scp_follows_what_it_points_to(tmp_path: Path) -> None:
    vectors = random_vectors(5, 4, seed=1)
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
    here = f"scp:{write_scp(tmp_path / 'here', vectors)}"
    there = f"scp:{write_scp(tmp_path / 'there', vectors)}"
    same = digests.of_vectors(here)
    assert digests.of_vectors(there) == same  # moved, not changed
    vectors["u3"] = vectors["u3"] + np.float32(1)
    write_scp(tmp_path / "there", vectors)
    assert digests.of_vectors(there) != same
    lines = (tmp_path / "here" / "x.scp").read_text().splitlines()
    (tmp_path / "here" / "x.scp").write_text("\n".join(lines[:-1]) + "\n")
    assert digests.of_vectors(here) != same
    np.savez(tmp_path / "x.npz", **vectors)
    assert digests.of_vectors(f"npz:{tmp_path}/x.npz") == digests.of_path(str(tmp_path / "x.npz"))


def test_words_are_told_apart_by_where_they_end() -> None:
    assert digests.of_text("ab", "c") != digests.of_text("a", "bc") != digests.of_text("abc")
