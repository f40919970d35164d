"""Recordings put together from utterances: what is drawn, and confusion counted by hand."""

import subprocess
import sys
from pathlib import Path

import pytest
from training_world import draw, write_data_dir

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


def test_a_domain_has_the_same_recordings_with_and_without_the_others(folder):
    names = [line.split()[0] for line in (folder / "utt2dom").read_text().splitlines()]
    there = (f"{n} {'there' if n[1] in '23' else 'here'}\n" for n in names)
    (folder / "utt2dom").write_text("".join(there))
    assert run("make", folder, folder / "both").returncode == 0
    assert run("make", "--domains=there", folder, folder / "one").returncode == 0
    both = (folder / "both/reco2utt").read_text().splitlines()
    one = (folder / "one/reco2utt").read_text().splitlines()
    assert one == [line for line in both if line.startswith("there-")] and len(both) == 60
    refused = run("make", "--domains=nowhere", folder, folder / "none")
    assert refused.returncode == 1 and "no domain 'nowhere'" in refused.stderr


@pytest.fixture
def clustered(tmp_path):
    """Two corpora left out, one of two domains, with two systems; bad confuses 1 of 4 s, 2 of 4."""
    parts = {"x": [("x", "ann"), ("x_tel", "ann")], "y": [("y", "bob")]}
    wrong = {"x": 1, "x_tel": 1, "y": 2}
    for part, domains in parts.items():
        place = tmp_path / "left-out" / part
        place.mkdir(parents=True)
        lines, good, bad = [], [], []
        for domain, speaker in domains:
            for second in range(4):
                name = f"{domain}-{second}"
                lines.append(f"{name} {domain}-000 {speaker} 1.0 {domain}\n")
                good.append(f"{name} s\n")
                bad.append(f"{name} {'t' if second < wrong[domain] else 's'}\n")
        for name, text in (("reference", lines), ("good.utt2spk", good), ("bad.utt2spk", bad)):
            (place / name).write_text("".join(text))
    return tmp_path


def test_a_table_is_over_all_parts_of_a_set(clustered):
    said = run("table", clustered, "good", "bad", "none").stdout.splitlines()
    assert said[0] == "| clusters by | left-out |"
    assert said[2:] == [
        "| good | 0.00 %, +0.00 (0.00) |",
        "| bad | 33.33 %, +1.00 (1.00) |",  # 4 of 12 s
        "| none |  |",
    ]


def test_a_paired_difference_is_over_corpora(clustered):
    """25 and 50 points worse: mean 37.5, t of one degree of freedom 12.706, error 12.5."""
    parts = sorted((clustered / "left-out").iterdir())
    said = run("paired", *parts, "--", "good", "bad").stdout.splitlines()
    assert said[:2] == ["x: 0.00 25.00 +25.00", "y: 0.00 50.00 +50.00"]
    assert said[2] == "mean of 2 corpora: +37.50 (-121.33 to +196.33)"


PLAN = """
train = ["train"]
[[dev]]
name = "seen"
folder = "dev_seen"
trials = "trials"
"""


@pytest.mark.slow
@pytest.mark.torch
def test_the_whole_comparison(tmp_path):
    """Every way to cluster, on corpora left out and two development sets of a small world."""
    import kaldiio

    root, exp = tmp_path / "root", tmp_path / "exp"
    for seed, name, own in (
        (2, "train", {}),
        (5, "dev_seen", {"prefix": "v"}),
        (9, "dev_unseen", {}),
    ):
        sample = draw(seed, speakers=9, sessions=2, chunks=4, **own)
        sample.seconds = {u: 2.0 + number % 3 for number, u in enumerate(sample.ids)}
        write_data_dir(root / name, sample)
        table = dict(zip(sample.ids, sample.vectors, strict=True))
        kaldiio.save_ark(str(root / name / "x.ark"), table, scp=str(root / name / "xvector.scp"))
        (root / name / "trials").write_text(f"{sample.ids[0]} {sample.ids[-1]} nontarget\n")
    (tmp_path / "plan.toml").write_text(PLAN)
    options = ["--each=4", f"--data={tmp_path}/plan.toml", "--options=--set=model.lda_dim=10"]
    command = [SCRIPT.parents[1] / "conversations.sh", *options, root, exp]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = (exp / "conversations.md").read_text().splitlines()
    assert text[0] == "| clusters by | left-out | seen | unseen |"
    assert [line.split(" | ")[0] for line in text[2:10]] == [
        f"| {name}"
        for name in (
            "cosine vbx-recipe vbx-chosen mean-llrs joint joint-own-place recordings-no-place "
            "recordings"
        ).split()
    ]
    assert all(line.count(" %, ") == 3 for line in text[2:10])
    assert "mean of 3 corpora: " in text[-1]
    shares = [float(line.split(" | ")[1].split(" %")[0]) for line in text[2:10]]
    assert max(shares) < 100 and min(shares) < 20  # a world in which people can be told apart
    # Again: nothing is left to do, and the table is the same.
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "training" not in again.stderr
    assert (exp / "conversations.md").read_text().splitlines() == text
    wrong = subprocess.run(
        [*command[:1], "--systems=magic", root, exp], capture_output=True, text=True
    )
    assert wrong.returncode == 1 and "no system 'magic'" in wrong.stderr
