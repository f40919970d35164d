"""Arrays on a real Slurm: equal to one run, whatever is killed, preempted or fails."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from part_cases import PartCase, kill_part, until
from slurm_site import LONGEST_ARRAY, SlurmSite

pytestmark = pytest.mark.torch
ARRAY = ("--cluster=slurm", "--nj=8")
HELD = {"trials": "sh trials.sh |"}


@pytest.fixture
def case(tmp_path: Path, small_bundle: Path, slurm: SlurmSite) -> Iterator[PartCase]:
    made = PartCase(tmp_path, small_bundle, slurm.env)
    yield made
    made.close()


def job_of(case: PartCase) -> str:
    """The array that was submitted last."""
    return json.loads((case.parts / "submitted.json").read_text())[-1]["id"]


def test_an_array_of_8_is_one_run_and_a_part_that_always_fails_is_named(case: PartCase) -> None:
    whole = case.whole()
    (case.parts / "3-of-8").mkdir(parents=True)  # in the way of its file
    said = case.run(*ARRAY, "--retries=1", status=1)
    error = said.splitlines()[-1]
    assert "ERROR: part 3 of 8 failed 2 times, nothing was put together: part 3 on " in error
    assert "scores.parts/log/3.log" in error and "is a directory" in error
    assert not case.scores.exists()
    assert case.tries() == {part: 2 if part == 3 else 1 for part in range(1, 9)}
    (case.parts / "3-of-8").rmdir()
    said = case.run(*ARRAY)
    assert "7 of 8 parts are done already" in said
    assert "1 of 8 parts: Slurm job" in said
    assert case.scores.read_bytes() == whole
    assert not case.parts.exists()
    assert "all is done already" in case.run(*ARRAY)


@pytest.mark.slow
def test_a_part_killed_in_the_middle_is_run_again(case: PartCase) -> None:
    whole = case.whole()
    case.hold(3)
    head = case.start(*ARRAY, **HELD)
    case.wait_for(3)
    kill_part(case.folder, 3)
    case.release()
    said = head.communicate()[0]
    assert head.returncode == 0, said
    assert "failed, and tried again: part 3 on " in said
    assert case.scores.read_bytes() == whole


@pytest.mark.slow
def test_after_a_killed_head_nothing_is_done_twice(case: PartCase) -> None:
    whole = case.whole()
    case.hold(5, 6)
    head = case.start(*ARRAY, **HELD)
    case.wait_for(5, 6)
    until(lambda: len(list(case.parts.glob(".*-of-8.stamp"))) == 6)
    head.send_signal(signal.SIGKILL)
    head.wait()
    second = case.start(*ARRAY, **HELD)
    # Held parts are counted while the second head waits for them.
    assert second.stdout is not None
    lines = [second.stdout.readline() for _ in range(3)]
    assert "6 of 8 parts are done already" in lines[1]
    assert "2 parts are still at work since an earlier call" in lines[2]
    assert case.tries() == dict.fromkeys(range(1, 9), 1)
    case.release()
    said = second.communicate()[0]
    assert second.returncode == 0, said
    assert "Slurm job" not in said
    assert case.scores.read_bytes() == whole


@pytest.mark.slow
def test_after_a_lost_array_only_what_is_missing_is_submitted(
    case: PartCase, slurm: SlurmSite
) -> None:
    whole = case.whole()
    case.hold(2, 7)
    head = case.start(*ARRAY, **HELD)
    case.wait_for(2, 7)
    until(lambda: len(list(case.parts.glob(".*-of-8.stamp"))) == 6)
    head.send_signal(signal.SIGINT)
    said = head.communicate()[0]
    assert head.returncode == 1
    assert "interrupted: scancel" in said and "the same command goes on" in said
    until(lambda: not slurm.call("squeue", "--noheader").strip())
    assert not case.scores.exists()
    case.release()
    said = case.run(*ARRAY, **HELD)
    assert "6 of 8 parts are done already" in said
    assert "2 of 8 parts: Slurm job" in said
    assert case.scores.read_bytes() == whole


@pytest.mark.slow
def test_a_preempted_part_is_run_again_by_slurm(case: PartCase, slurm: SlurmSite) -> None:
    whole = case.whole()
    case.hold(4)
    head = case.start(*ARRAY, **HELD)
    case.wait_for(4)
    slurm.call("scontrol", "requeue", f"{job_of(case)}_4")
    # Slurm ends the first try in its own time, and that one may say until then that it waits.
    until(lambda: case.tries()[4] == 2)
    case.release()
    said = head.communicate()[0]
    assert head.returncode == 0, said
    assert "tried again" not in said and said.count("Slurm job") == 1
    assert case.scores.read_bytes() == whole


@pytest.mark.slow
def test_arrays_are_cut_where_the_site_has_shorter_ones(case: PartCase) -> None:
    whole = case.whole()
    parts = LONGEST_ARRAY + 3
    last = f"{parts}-of-{parts}"
    (case.parts / last).mkdir(parents=True)
    said = case.run("--cluster=slurm", f"--nj={parts}", "--retries=0", status=1)
    assert f"{parts} of {parts} parts: Slurm jobs " in said
    submitted = json.loads((case.parts / "submitted.json").read_text())
    assert [row["offset"] for row in submitted] == [0, LONGEST_ARRAY]
    assert case.tries() == dict.fromkeys(range(1, parts + 1), 1)
    assert f"part {parts} of {parts} failed once" in said
    assert f"log/{LONGEST_ARRAY}+3.log" in said
    (case.parts / last).rmdir()
    case.run("--cluster=slurm", f"--nj={parts}")
    assert case.scores.read_bytes() == whole


def test_what_sbatch_refuses_is_one_line(case: PartCase) -> None:
    said = case.run(*ARRAY, "--cluster-options=--partition=nowhere", status=1)
    error = said.splitlines()[-1]
    assert "ERROR: sbatch refused the array" in error and "partition" in error
    assert not case.scores.exists()
