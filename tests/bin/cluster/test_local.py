"""Parts as processes of this machine, and by hand: the same bytes, whatever happens on the way."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from kaldi_files import random_vectors, write_scp
from part_cases import ROOT, PartCase, kill_part, until
from random_models import DIM

from dcaplda.bin.cluster.job import Job, read_log
from dcaplda.bin.cluster.options import Cluster
from dcaplda.bin.cluster.slurm import ranges
from dcaplda.bin.cluster.submitted import minutes
from dcaplda.bin.merge_parts import main as merge
from dcaplda.bin.search_speakers import TESTS_AT_ONCE
from dcaplda.runtime.errors import UsageError

pytestmark = pytest.mark.torch
LOCAL = ("--cluster=local", "--nj=3")
# Reads the trials; of whoever asks, an ancestor, the part tells whether it is to wait.
HOLDING = r"""
pid=$PPID
while [ "$pid" -gt 1 ]; do
  part=$(tr '\0' '\n' < /proc/$pid/cmdline | sed -n 's/^--part=//p')
  [ -z "$part" ] || break
  pid=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$pid/status)
done
while [ -n "$part" ] && [ -e hold/$part ]; do touch waits/$part; sleep 0.1; done
cat trials
"""
HELD = {"trials": "sh held.sh |"}


@pytest.fixture
def case(tmp_path: Path, small_bundle: Path) -> Iterator[PartCase]:
    made = PartCase(tmp_path, small_bundle)
    (tmp_path / "held.sh").write_text(HOLDING)
    yield made
    made.close()


@pytest.mark.slow
def test_a_killed_part_is_tried_again_and_a_killed_head_followed(case: PartCase) -> None:
    whole = case.whole()
    case.hold(2)  # one, so that a machine of one core comes to the others
    head = case.start(*LOCAL, "--threads=1", **HELD)
    case.wait_for(2)
    kill_part(case.folder, 2)
    until(lambda: case.tries().get(2) == 2)
    until(lambda: len(list(case.parts.glob(".*-of-3.stamp"))) == 2)
    head.send_signal(signal.SIGKILL)
    head.wait()
    second = case.start(*LOCAL, "--threads=1", **HELD)
    assert second.stdout is not None
    lines = [second.stdout.readline() for _ in range(3)]
    assert "2 of 3 parts are done already" in lines[1]
    # What outlived its head still holds its log.
    assert "still at work since an earlier call" in lines[2]
    case.release()
    said = second.communicate()[0]
    assert second.returncode == 0, said
    assert case.scores.read_bytes() == whole


@pytest.mark.slow
def test_a_second_head_is_kept_out(case: PartCase) -> None:
    case.hold(1)
    head = case.start(*LOCAL, **HELD)
    case.wait_for(1)
    assert "another process is having this work done" in case.run(*LOCAL, status=1, **HELD)
    head.send_signal(signal.SIGTERM)
    said = head.communicate()[0]
    assert head.returncode == 1
    assert "interrupted: its processes were ended" in said
    assert not case.scores.exists()


def test_by_hand_the_script_runs_and_its_parts_are_merged(case: PartCase) -> None:
    whole = case.whole()
    script = case.run("--cluster=none", "--nj=2", "--cluster-options=--mem=1G -c 2")
    script = script[script.index("#!/usr/bin/env bash") :]
    assert "#SBATCH --mem=1G -c 2\n" in script and "--threads=2 " in script
    (case.folder / "array.sh").write_text(script)
    assert not case.parts.exists()
    by_hand = re.findall("^#   (mkdir.*; do bash .*done)$", script, re.M)[0]
    subprocess.run(["bash", "-c", by_hand], cwd=case.folder, env=case.env, check=True)
    parts = [str(case.parts / f"{part}-of-2") for part in (2, 1)]
    out = case.folder / "merged"
    assert merge([parts[0], str(out)]) == 1
    assert not out.exists()
    assert merge([*parts, str(out)]) == 0
    assert out.read_bytes() == whole
    assert merge(["--remove", *parts, str(out)]) == 0
    assert not [path for path in case.parts.iterdir() if path.name != "log"]


@pytest.mark.slow
def test_other_inputs_are_other_parts(case: PartCase) -> None:
    case.run("--part=1", "--num-parts=2", out="s.1")
    lines = (case.folder / "trials").read_text().splitlines(keepends=True)
    (case.folder / "trials").write_text("".join(lines[::-1]))
    case.run("--part=2", "--num-parts=2", out="s.2")
    parts = [str(case.folder / f"s.{part}") for part in (1, 2)]
    assert merge([*parts, str(case.folder / "out")]) == 1
    assert not (case.folder / "out").exists()
    assert "is done already" not in case.run("--part=1", "--num-parts=2", out="s.1")
    assert "is done already" in case.run("--part=1", "--num-parts=2", "--threads=1", out="s.1")
    assert merge([*parts, str(case.folder / "out")]) == 0
    assert (case.folder / "out").read_bytes() == case.whole()


@pytest.mark.slow
def test_a_search_in_parts_is_one_search(tmp_path: Path, small_bundle: Path) -> None:
    count = 3 * TESTS_AT_ONCE + 7
    vectors = random_vectors(count, DIM, seed=2)
    write_scp(tmp_path, vectors)
    write_scp(tmp_path, {k: vectors[k] for k in list(vectors)[:50]}, "few")
    seconds = np.random.default_rng(0).uniform(2, 60, count)
    rows = zip(vectors, seconds, strict=True)
    (tmp_path / "utt2dur").write_text("".join(f"{k} {s:.2f}\n" for k, s in rows))
    words = [sys.executable, str(ROOT / "bin" / "_checkout.py"), "search-speakers"]
    words += ["--durations=utt2dur", "--top-k=3", "--prior=0.3"]
    inputs = [str(small_bundle), "scp:few.scp", "scp:x.scp"]
    subprocess.run([*words, *inputs, "whole"], cwd=tmp_path, check=True)
    subprocess.run([*words, *LOCAL, *inputs, "parts"], cwd=tmp_path, check=True)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert len((tmp_path / "whole").read_text().splitlines()) == 3 * count


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--nj=3"], "--nj and --cluster-options need --cluster"),
        (["--cluster=local"], "--nj=0: --cluster needs a number of parts"),
        (["--cluster=condor", "--nj=2"], "--cluster=condor: expected local or slurm or none"),
        (["--cluster=local", "--nj=2", "--part=1", "--num-parts=2"], "makes the parts itself"),
        (["--cluster=local", "--nj=2", "--cluster-options=-c 2"], "are for sbatch"),
        (["--cluster=slurm", "--nj=2", "--cluster-options='"], "No closing quotation"),
        (["--cluster=slurm", "--nj=2", "--retries=-1"], "cannot be negative"),
        (["--cluster=slurm", "--nj=2", "--cluster-options=--array=1-9"], "leave it out"),
    ],
)
def test_bad_options_are_one_line(case: PartCase, options: list[str], words: str) -> None:
    assert words in case.run(*options, status=1).splitlines()[-1]
    assert not case.parts.exists()


def test_what_cannot_be_in_parts_is_refused(case: PartCase) -> None:
    assert "name a file" in case.run(*LOCAL, status=1, out="-").splitlines()[-1]
    assert "read twice" in case.run(*LOCAL, status=1, trials="-").splitlines()[-1]
    assert "no such file" in case.run(*LOCAL, status=1, trials="none").splitlines()[-1]
    case.env["PATH"] = "/nowhere"
    said = case.run("--cluster=slurm", "--nj=2", status=1)
    assert "there is no 'scontrol' here" in said.splitlines()[-1]
    assert not case.scores.exists()


def test_ranges_are_as_sbatch_takes_them() -> None:
    assert ranges([1, 2, 3, 7, 9, 10]) == "1-3,7,9-10"
    assert ranges([4]) == "4"


@pytest.mark.parametrize(
    ("options", "threads"),
    [("", 1), ("-c 4", 4), ("-c4", 4), ("--mem=2G --cpus-per-task=3", 3), ("-c --mem=1", 1)],
)
def test_a_task_has_the_threads_that_sbatch_is_asked_for(options: str, threads: int) -> None:
    assert Cluster(cluster="slurm", nj=2, cluster_options=options).task_threads() == threads


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("5:30", 6), ("2:00:00", 120), ("1-0", 1440), ("1-2:30", 1590), ("0:0:5", 1)],
)
def test_times_are_read_as_slurm_reads_them(text: str, expected: int) -> None:
    assert minutes(text) == expected


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="--time=soon"):
        minutes("soon")


def test_a_script_keeps_words_whole_and_a_log_tells_the_node(tmp_path: Path) -> None:
    target = tmp_path / "it's here"
    target.mkdir()
    words = ["sh", "-c", 'echo "$0" >&2; exit 3', "a b'c$x-@PART@-@PART@."]
    job = Job("try", 9, words, tmp_path, lambda part: False, target)
    (tmp_path / "s").write_text(job.script(["--mem=1G"]))
    done = subprocess.run(
        ["bash", str(tmp_path / "s"), "7"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr == "a b'c$x-7-7.\n"
    (tmp_path / "log").write_text(done.stdout + "x: ERROR: bad\nmore\n")
    end = read_log(tmp_path / "log")
    assert end.reason == "x: ERROR: bad" and end.node
    assert read_log(tmp_path / "none").node == ""
