"""A Kaldi recipe directory: data, x-vectors, trials, local/, stand-ins for run.pl and its kin."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
from kaldi_commands import write_commands
from kaldi_files import write_scp

ROOT = Path(__file__).parents[1]

DIM = 12


class Recipe:
    """Sets `train`, `test` and `eval`: data/<set> with trials, exp/xvectors_<set>/xvector.scp."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None) -> None:
        self.folder, self.env = folder, env or dict(os.environ)
        for name in ("local", "conf"):
            shutil.copytree(ROOT / "egs" / "kaldi" / name, folder / name)
        (folder / "tools").mkdir()
        write_commands(folder / "tools")
        rng = np.random.default_rng(0)
        for name, speakers in (("train", 30), ("test", 8), ("eval", 8)):
            self.make_set(name, speakers, rng)

    def make_set(self, name: str, speakers: int, rng: np.random.Generator) -> None:
        """Four utterances of each speaker, and trials of the first two against the others."""
        data, vectors_dir = self.folder / "data" / name, self.folder / "exp" / f"xvectors_{name}"
        data.mkdir(parents=True)
        vectors_dir.mkdir(parents=True)
        vectors, vad = {}, {}
        for speaker in range(speakers):
            center = 2 * rng.standard_normal(DIM)
            for number in range(4):
                key = f"{name}{speaker:03d}-u{number}"
                vectors[key] = (center + rng.standard_normal(DIM)).astype(np.float32)
                vad[key] = (rng.random(rng.integers(300, 900)) < 0.7).astype(np.float32)
        write_scp(vectors_dir, vectors, "xvector")
        write_scp(data, vad, "vad")
        (data / "utt2spk").write_text("".join(f"{u} {u.split('-')[0]}\n" for u in vectors))
        # Kaldi's own durations, silence included: must not be used where there is a vad.scp.
        (data / "utt2dur").write_text("".join(f"{u} 100\n" for u in vectors))
        same = {True: "target", False: "nontarget"}
        lines = [
            f"{a} {b} {same[a.split('-')[0] == b.split('-')[0]]}\n"
            for a in vectors
            for b in vectors
            if a[-1] in "01" and b[-1] in "23"
        ]
        (data / "trials").write_text("".join(lines))

    def run(self, script: str, *arguments: str, status: int = 0) -> str:
        """Run a script of local/."""
        return self.bash(["bash", f"local/{script}", *arguments], status)

    def typed(self, text: str) -> str:
        """Run lines as they would be typed, one failing line failing all."""
        return self.bash(["bash", "-euo", "pipefail", "-c", text], 0)

    def bash(self, command: list[str], status: int) -> str:
        """Run a command with the tools on the path; what it said."""
        path = os.pathsep.join([str(self.folder / "tools"), str(ROOT / "bin"), os.environ["PATH"]])
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**self.env, "PATH": path, "train_cmd": "run.pl", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        logs = "".join(p.read_text() for p in self.folder.glob("exp/**/*.log"))
        assert done.returncode == status, done.stdout + done.stderr + logs
        return done.stdout + done.stderr
