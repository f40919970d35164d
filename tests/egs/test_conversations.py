"""Recordings put together from utterances: what is drawn, and confusion counted by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "egs" / "recordings" / "local" / "conversations.py"


def run(*words):
    return subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path):
    """Four people, two sessions of four utterances each, one of them too long."""
    names = [f"p{p}-s{s}-{u}" for p in range(4) for s in range(2) for u in range(4)]
    rows = {
        "xvector.scp": lambda n: "xvector.ark:7",
        "utt2spk": lambda n: n[:2],
        "utt2sess": lambda n: n[:5],
        "utt2dom": lambda n: "here",
        "utt2dur": lambda n: "9.0" if n.endswith("-3") else "2.0",
    }
    for table, value in rows.items():
        (tmp_path / table).write_text("".join(f"{n} {value(n)}\n" for n in names))
    return tmp_path


def test_a_person_brings_one_session_and_nothing_long(folder):
    assert run("make", "--each=20", folder, folder / "out").returncode == 0
    lists = [line.split() for line in (folder / "out/reco2utt").read_text().splitlines()]
    assert len(lists) == 20
    for name, *own in lists:
        original = [u.removeprefix(f"{name}-") for u in own]
        people = {u[:2] for u in original}
        assert 2 <= len(people) <= 4 and len({u[:5] for u in original}) == len(people)
        assert not any(u.endswith("-3") for u in original) and len(set(own)) == len(own)


def test_confusion_is_what_the_best_match_leaves(tmp_path):
    """Six seconds of ann and four of bob; 2 s of ann are with bob, bob is in two clusters."""
    rows = [("a1", "ann", 4), ("a2", "ann", 2), ("b1", "bob", 3), ("b2", "bob", 1)]
    (tmp_path / "reference").write_text("".join(f"{u} r {s} {t} d\n" for u, s, t in rows))
    (tmp_path / "utt2spk").write_text("a1 x\na2 y\nb1 y\nb2 z\n")
    said = run("judge", tmp_path / "reference", tmp_path / "utt2spk").stdout
    assert said.startswith("all: 30.00 % of the seconds confused, +1.00 speakers (off by 1.00), 1 ")
