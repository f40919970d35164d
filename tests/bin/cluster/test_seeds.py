"""Training seeds as parts: the model that one process selects, through kills and preemption."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from part_cases import ROOT, until
from slurm_site import SlurmSite
from training_world import draw, write_data_dir, write_dev, write_recipe

pytestmark = [pytest.mark.torch, pytest.mark.slow]
MODEL = "model.safetensors"


class Seeds:
    """A small world, and train-backend in it."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = {**env, "OMP_NUM_THREADS": "1"}
        write_data_dir(folder / "train", draw(0))
        write_dev(folder / "dev")
        write_recipe(folder / "recipe.toml")

    def start(self, out: str, *options: str, seeds: str = "0-2") -> subprocess.Popen:
        words = [sys.executable, str(ROOT / "bin" / "_checkout.py"), "train-backend"]
        options = ("--config=recipe.toml", f"--seeds={seeds}", "--export=false", *options)
        return subprocess.Popen(
            [*words, "--threads=1", *options, "train", "npz:train/xvector.npz", out],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, out: str, *options: str, status: int = 0, **changed: str) -> str:
        child = self.start(out, *options, **changed)
        said = child.communicate()[0]
        assert child.returncode == status, said
        return said

    def model(self, out: str) -> bytes:
        return (self.folder / out / MODEL).read_bytes()


def selected(said: str) -> str:
    return re.findall("seed [0-9]+ is selected", said)[0]


def test_seeds_over_an_array_select_the_model_of_one_process(
    tmp_path: Path, slurm: SlurmSite
) -> None:
    case = Seeds(tmp_path, slurm.env)
    alone = case.run("alone")
    said = case.run("array", "--cluster=slurm", "--nj=3")
    assert "3 of 3 parts: Slurm job" in said
    assert selected(said) == selected(alone)
    assert case.model("array") == case.model("alone")
    again = case.run("array", "--cluster=slurm", "--nj=3")
    assert "3 of 3 parts are done already" in again and "Slurm job" not in again
    # Other data in the same directory would mix two experiments.
    lines = (tmp_path / "train" / "utt2dur").read_text().splitlines()
    (tmp_path / "train" / "utt2dur").write_text("\n".join([*lines[:-1], lines[-1] + "1"]) + "\n")
    said = case.run("array", "--cluster=slurm", "--nj=3", status=1)
    assert "seed-0: is made of other data" in said.splitlines()[-1]


LONG = ("--set=stage1.steps=250", "--set=run.checkpoint_every=1")


def begun(case: Seeds, out: str, seed: int) -> bool:
    return (case.folder / out / f"seed-{seed}" / "checkpoint.safetensors").exists()


def test_a_preempted_seed_goes_on_by_submitit(tmp_path: Path, slurm: SlurmSite) -> None:
    pytest.importorskip("submitit")
    case = Seeds(tmp_path, slurm.env)
    alone = case.run("alone", *LONG, seeds="0-1")
    head = case.start("array", *LONG, "--cluster=submitit", "--nj=2", seeds="0-1")
    until(lambda: begun(case, "array", 1))
    job = slurm.call("squeue", "--noheader", "--format=%F").split()[0]
    # What Slurm does before the time of a task is over, or when it is preempted.
    slurm.call("scancel", "--signal=USR2", f"{job}_1")
    said = head.communicate()[0]
    assert head.returncode == 0, said
    log = (tmp_path / "array" / "seed-1" / "train.log").read_text()
    steps = [int(n) for n in re.findall("going on after ([0-9]+) steps", log)]
    assert steps and 0 < steps[0] < 250, log
    assert "tried again" not in said
    assert selected(said) == selected(alone)
    assert case.model("array") == case.model("alone")


def test_a_killed_seed_goes_on_where_its_checkpoint_is(tmp_path: Path) -> None:
    case = Seeds(tmp_path, dict(os.environ))
    alone = case.run("alone", *LONG, seeds="0-1")
    head = case.start("parts", *LONG, "--cluster=local", "--nj=2", seeds="0-1")
    until(lambda: begun(case, "parts", 0))
    head.send_signal(signal.SIGINT)
    said = head.communicate()[0]
    assert head.returncode == 1 and "the same command goes on" in said
    said = case.run("parts", *LONG, "--cluster=local", "--nj=2", seeds="0-1")
    log = (tmp_path / "parts" / "seed-0" / "train.log").read_text()
    assert re.search("going on after [1-9][0-9]* steps", log)
    assert selected(said) == selected(alone)
    assert case.model("parts") == case.model("alone")


def test_selection_of_named_seeds_needs_all_of_them(tmp_path: Path) -> None:
    case = Seeds(tmp_path, dict(os.environ))
    for part in (1, 3):
        case.run("exp", f"--part={part}", "--num-parts=3")
    select = [sys.executable, str(ROOT / "bin" / "_checkout.py"), "train-backend", "--select"]
    done = subprocess.run(
        [*select, "--seeds=0-2", "--export=false", "exp"],
        cwd=tmp_path,
        env=case.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "1 of 3 seeds are not finished (1)" in done.stderr
    assert not (tmp_path / "exp" / MODEL).exists()
