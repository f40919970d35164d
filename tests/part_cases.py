"""A score-trials job in parts that a test can hold, kill and count."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from kaldi_files import random_vectors, write_scp
from random_models import DIM

ROOT = Path(__file__).parents[1]
N_TRIALS = 4000
# Reads the trials; a task whose number stands in hold/ waits there, and says so.
TRIALS = """task=$SLURM_ARRAY_TASK_ID
while [ -n "$task" ] && [ -e hold/$task ]; do touch waits/$task; sleep 0.1; done
cat trials
"""


class PartCase:
    """A folder with tables and trials, and a command line that is run there."""

    def __init__(self, folder: Path, bundle: Path, env: dict[str, str] | None = None) -> None:
        self.folder, self.bundle = folder, bundle
        self.env = {**(env or os.environ), "OMP_NUM_THREADS": "1"}
        rng = np.random.default_rng(5)
        vectors = random_vectors(120, DIM, seed=5)
        write_scp(folder, vectors)
        durations = zip(vectors, rng.uniform(2, 60, len(vectors)), strict=True)
        (folder / "utt2dur").write_text("".join(f"{k} {s:.2f}\n" for k, s in durations))
        pairs = rng.integers(0, len(vectors), (N_TRIALS, 2))
        (folder / "trials").write_text("".join(f"u{a} u{b}\n" for a, b in pairs))
        (folder / "trials.sh").write_text(TRIALS)
        for name in ("hold", "waits"):
            (folder / name).mkdir()
        self.scores = folder / "scores"
        self.parts = folder / "scores.parts"
        self.heads: list[subprocess.Popen] = []

    def command(self, *options: str, trials: str = "trials", out: str = "scores") -> list[str]:
        words = [sys.executable, str(ROOT / "bin" / "_checkout.py"), "score-trials"]
        inputs = [str(self.bundle), "scp:x.scp", "scp:x.scp", trials, out]
        return [*words, "--durations=utt2dur", *options, *inputs]

    def run(self, *options: str, status: int = 0, **changed: str) -> str:
        """Run to the end; what it said."""
        child = self.start(*options, **changed)
        said = child.communicate()[0]
        assert child.returncode == status, said
        return said

    def start(self, *options: str, **changed: str) -> subprocess.Popen:
        head = subprocess.Popen(
            self.command(*options, **changed),
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.heads.append(head)
        return head

    def close(self) -> None:
        """After a test, also one that failed: nobody waits any more."""
        self.release()
        for head in self.heads:
            if head.poll() is None:
                head.terminate()
                head.communicate()

    def whole(self) -> bytes:
        """The scores of one run."""
        self.run(out="whole")
        return (self.folder / "whole").read_bytes()

    def hold(self, *tasks: int) -> None:
        """Let these tasks wait in the middle of their work."""
        for task in tasks:
            (self.folder / "hold" / str(task)).touch()

    def release(self) -> None:
        for path in (self.folder / "hold").iterdir():
            path.unlink()

    def wait_for(self, *tasks: int) -> None:
        """Until these tasks are held."""
        until(lambda: all((self.folder / "waits" / str(task)).exists() for task in tasks))

    def tries(self) -> dict[int, int]:
        """How often each part was begun, by its log."""
        found: dict[int, int] = {}
        for path in (self.parts / "log").glob("*.log"):
            for part in re.findall(r"^# part (\d+) of \d+ on ", path.read_text(), re.M):
                found[int(part)] = found.get(int(part), 0) + 1
        return found


def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


def kill_part(folder: Path, part: int) -> None:
    """SIGKILL to the process of a part, and nobody else's: it runs in this folder."""
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            here = (entry / "cwd").resolve() == folder.resolve()
        except OSError:
            continue
        if here and f"--part={part}".encode() in words and b"score-trials" in words:
            os.kill(int(entry.name), signal.SIGKILL)
            return
    raise AssertionError(f"no process does part {part}")
