"""The recipe fragment egs/kaldi/local, with a stand-in for Kaldi's run.pl."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from golden import read_columns
from kaldi_files import write_scp

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]

RUN = """#!{python}
import os, re, subprocess, sys
words = [w for w in sys.argv[1:]]
while words[0] in ("--mem", "--max-jobs-run"):
    words = words[2:]
jobs = [""]
match = re.fullmatch("JOB=([0-9]+):([0-9]+)", words[0])
if match:
    words, jobs = words[1:], [str(j) for j in range(int(match[1]), int(match[2]) + 1)]
for job in jobs:
    log, *command = (w.replace("JOB", job) if job else w for w in words)
    with open(log, "w") as stream:
        if subprocess.call(command, stdout=stream, stderr=stream):
            sys.exit("failed, log is in " + log)
"""

RECIPE = """
[model]
lda_dim = 8
side_hidden_dim = 6
side_info_dim = 2
[init]
em_iterations = 5
[batch]
size = 40
[stage1]
steps = 4
evaluate_every = 2
[stage2]
steps = 2
evaluate_every = 1
[stage3]
steps = 1
evaluate_every = 1
"""


class Recipe:
    """A Kaldi recipe directory with two data directories and x-vectors."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "egs" / "kaldi" / "local", folder / "local")
        (folder / "tools").mkdir()
        runner = folder / "tools" / "run.pl"
        runner.write_text(RUN.format(python=sys.executable))
        runner.chmod(0o755)
        (folder / "conf.toml").write_text(RECIPE)
        rng = np.random.default_rng(0)
        for name, speakers in (("train", 30), ("test", 8)):
            self.make_set(name, speakers, rng)
        pairs = [(a, b) for a in self.utterances[:12] for b in self.utterances[12:]]
        same = {True: "target", False: "nontarget"}
        lines = [f"{a} {b} {same[a.split('-')[0] == b.split('-')[0]]}\n" for a, b in pairs]
        (folder / "trials").write_text("".join(lines))

    def make_set(self, name: str, speakers: int, rng: np.random.Generator) -> None:
        data, vectors_dir = self.folder / "data" / name, self.folder / "xv" / name
        data.mkdir(parents=True)
        vectors_dir.mkdir(parents=True)
        vectors, vad = {}, {}
        for speaker in range(speakers):
            center = 2 * rng.standard_normal(12)
            for number in range(4):
                key = f"{name}{speaker:03d}-u{number}"
                vectors[key] = (center + rng.standard_normal(12)).astype(np.float32)
                vad[key] = (rng.random(rng.integers(300, 900)) < 0.7).astype(np.float32)
        write_scp(vectors_dir, vectors, "xvector")
        write_scp(data, vad, "vad")
        (data / "utt2spk").write_text("".join(f"{u} {u.split('-')[0]}\n" for u in vectors))
        # Kaldi's own durations, silence included: must not be used where there is a vad.scp.
        (data / "utt2dur").write_text("".join(f"{u} 100\n" for u in vectors))
        self.utterances = sorted(vectors, key=lambda u: u.split("-")[1])

    def run(self, script: str, *arguments: str, status: int = 0) -> str:
        path = os.pathsep.join([str(self.folder / "tools"), str(ROOT / "bin"), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", f"local/{script}", *arguments],
            cwd=self.folder,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        logs = "".join(p.read_text() for p in self.folder.glob("exp/**/*.log"))
        assert done.returncode == status, done.stdout + done.stderr + logs
        return done.stdout + done.stderr


@pytest.mark.slow
def test_the_whole_fragment_runs_and_jobs_do_not_change_the_scores(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    sets = ["data/train", "xv/train", "data/test", "xv/test", "trials", "exp"]
    options = ["--nj", "3", "--cmd", "run.pl --mem 4G", "--config=conf.toml"]
    said = recipe.run("dcaplda.sh", *options, *sets)
    assert "EER" in said
    found = read_columns(tmp_path / "exp" / "test_utt2dur")
    assert max(float(row[1]) for row in found) < 10
    scores = (tmp_path / "exp" / "scores" / "scores").read_bytes()
    trials = read_columns(tmp_path / "trials")
    rows = read_columns(tmp_path / "exp" / "scores" / "scores")
    assert [row[:2] for row in rows] == [row[:2] for row in trials]
    targets = [float(r[2]) for r, t in zip(rows, trials, strict=True) if t[2] == "target"]
    others = [float(r[2]) for r, t in zip(rows, trials, strict=True) if t[2] == "nontarget"]
    assert np.mean(targets) > np.mean(others) + 1
    assert sorted(p.name for p in (tmp_path / "exp/scores").iterdir()) == [
        "log",
        "report.html",
        "results.txt",
        "scores",
    ]
    recipe.run("dcaplda.sh", "--stage", "2", "--nj=1", *sets)
    assert (tmp_path / "exp" / "scores" / "scores").read_bytes() == scores


def test_a_failing_job_fails_the_script(tmp_path: Path, small_bundle: Path) -> None:
    recipe = Recipe(tmp_path)
    xvectors = ["xv/test/xvector.scp", "xv/test/xvector.scp"]
    said = recipe.run(
        "dcaplda_score.sh", str(small_bundle), *xvectors, "trials", "exp/scores", status=1
    )
    assert "failed, log is in" in said
    assert not (tmp_path / "exp" / "scores" / "scores").exists()
    log = (tmp_path / "exp" / "scores" / "log" / "score.1.log").read_text()
    assert "needs the seconds of speech" in log


def test_durations_come_from_the_best_source(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    data = tmp_path / "data" / "test"
    (data / "utt2num_frames").write_text("a 250\n")
    (data / "segments").write_text("a rec 1 3\n")
    found = []
    for source in ("vad.scp", "utt2num_frames", "segments", "utt2dur"):
        recipe.run("dcaplda_durations.sh", "data/test", "out")
        found.append(read_columns(tmp_path / "out")[0][1])
        (data / source).unlink()
    assert float(found[0]) < 9
    assert found[1:] == ["2.5", "2", "100"]
    said = recipe.run("dcaplda_durations.sh", "data/test", "out", status=1)
    assert "has none of vad.scp" in said


@pytest.mark.parametrize("script", ["dcaplda.sh", "dcaplda_train.sh", "dcaplda_score.sh"])
def test_wrong_use_shows_the_usage(tmp_path: Path, script: str) -> None:
    recipe = Recipe(tmp_path)
    assert "Usage: local/" in recipe.run(script, "--nonsense", "3", status=1)
    assert "Usage: local/" in recipe.run(script, "one", status=1)
    assert "Usage: local/" in recipe.run(script, "--help")
