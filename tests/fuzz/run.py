"""The project's fuzzer: `make fuzz`, or python tests/fuzz/run.py --help.

Each target (tests/fuzz/targets) has its share of the time in a process of its own, two at a time on
two cores. With atheris installed, inputs that reach new code are kept and changed further
(libFuzzer); else they come by chance. At the end stands a table of outcomes; any bad one is status
1, and its input lies in the folder of findings.
"""

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from worker import OUTCOMES, State, own_package  # noqa: E402

GOOD = ("same", "other", "refused")
WEIGHTS = {"onnx": 2.0, "joint": 0.7, "files": 0.7, "manifest": 1.5, "gallery": 1.5, "pth": 1.5}
"""Shares of the time that are not 1."""
START_SECONDS = 120.0
"""What a process may take to begin."""


@dataclass
class Job:
    """A target, its time, and what came of it."""

    target: str
    seconds: float
    seed: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    peak_mb: int = 0
    spent: float = 0.0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="of the whole run")
    parser.add_argument("--inputs", type=int, default=-1, help="of each target, at most")
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--engine", choices=["auto", "guided", "plain"], default="auto")
    parser.add_argument("--targets", default="", help="names with commas between; default: all")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds that are a hang")
    parser.add_argument("--findings", default="exp/fuzz", help="folder for bad inputs")
    parser.add_argument("--again", default="", help="run the input of one file of findings")
    return parser.parse_args()


class Runner:
    """Starts processes, watches them, and adds up what they count."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options, self.work = options, work
        atheris = importlib.util.find_spec("atheris") is not None
        self.guided = options.engine == "guided" or (options.engine == "auto" and atheris)
        self.guided = self.guided and options.inputs < 0

    def run(self, jobs: list[Job]) -> None:
        waiting, running = list(jobs), []
        while waiting or running:
            while waiting and len(running) < self.options.workers:
                running.append(Watched(self, waiting.pop(0)))
            time.sleep(0.2)
            running = [watched for watched in running if not watched.finished()]


class Watched:
    """One target's process; one that died or hung is started again for the rest of its time."""

    def __init__(self, runner: Runner, job: Job) -> None:
        self.runner, self.job = runner, job
        self.folder = runner.work / job.target
        self.began = time.time()
        self._start()

    def _start(self) -> None:
        state_path = self.runner.work / f"{self.job.target}.state"
        self.state = State(state_path, create=True)
        rest = self.job.seconds - self.job.spent
        options = {
            "until": time.time() + max(1.0, rest), "seed": self.job.seed + int(self.job.spent),
            "guided": self.runner.guided, "inputs": self.runner.options.inputs,
            "findings": self.runner.options.findings,
        }  # fmt: skip
        command = [sys.executable, str(Path(__file__).parent / "worker.py"), self.job.target]
        command += [str(self.folder), str(state_path), json.dumps(options)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
        self.log = open(self.runner.work / f"{self.job.target}.log", "ab")
        self.started = time.time()
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=self.log, start_new_session=True
        )

    def finished(self) -> bool:
        """Look at the process; True when its time is over."""
        begun, data = self.state.at_hand()
        now = time.time()
        hung = begun and now - begun > self.runner.options.patience
        counted = sum(self.state.counts().values())
        late = now - self.started > START_SECONDS + self.job.seconds
        ended = _ended(self.process, wait=False)
        if ended is None:
            if not hung and not late:
                return False
            os.killpg(self.process.pid, signal.SIGKILL)
            ended = _ended(self.process, wait=True)
        assert ended is not None
        status, usage = ended
        self.log.close()
        self.job.spent += now - self.started
        for name, count in self.state.counts().items():
            self.job.counts[name] += count
        self.job.peak_mb = max(self.job.peak_mb, usage >> 10)
        if hung:
            self._finding("hang", data)
        elif status not in (0, 3):
            self._finding("crash", data)
        again = status == 3 or hung or (status != 0 and counted)
        if again and self.job.spent < self.job.seconds - 1 and self.job.counts["crash"] < 20:
            self._start()
            return False
        return True

    def _finding(self, outcome: str, data: bytes) -> None:
        self.job.counts[outcome] += 1
        text = (self.runner.work / f"{self.job.target}.log").read_bytes()[-3000:]
        record = {"target": self.job.target, "outcome": outcome, "input": data.hex()}
        record["told"] = text.decode("utf-8", "replace")
        folder = Path(self.runner.options.findings)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{self.job.target}-{outcome}-{self.job.counts[outcome]}.json"
        (folder / name).write_text(json.dumps(record, indent=2))


def _ended(process: subprocess.Popen, wait: bool) -> tuple[int, int] | None:
    """Exit status and peak of memory in kB of a process; None if it still runs."""
    pid, status, usage = os.wait4(process.pid, 0 if wait else os.WNOHANG)
    if not pid:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_maxrss


def table(jobs: list[Job]) -> str:
    """Targets and outcomes."""
    header = ["target", "inputs", *OUTCOMES, "peak MB"]
    rows = [
        [job.target, sum(job.counts.values()), *job.counts.values(), job.peak_mb] for job in jobs
    ]
    total = [sum(job.counts[name] for job in jobs) for name in OUTCOMES]
    rows.append(["all", sum(total), *total, max(job.peak_mb for job in jobs)])
    cells = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(header))]
    lines = []
    for name, *others in cells:
        numbers = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([name.ljust(widths[0]), *numbers]))
    return "\n".join(lines)


def again(path: str) -> int:
    """Run the input of a finding once more, in this process."""
    own_package()
    from fuzz.targets import make_target

    record = json.loads(Path(path).read_text())
    with tempfile.TemporaryDirectory() as folder:
        target = make_target(record["target"], Path(folder))
        outcome, told = target.run(bytes.fromhex(record["input"]))
    print(f"{record['target']}: {outcome}\n{told}")
    return 0 if outcome in GOOD else 1


def main() -> int:
    options = parse_options()
    if options.again:
        return again(options.again)
    own_package()
    from fuzz.targets import PLANTED, TARGETS

    names = options.targets.split(",") if options.targets else list(TARGETS)
    for name in names:
        if name not in {**TARGETS, **PLANTED}:
            sys.exit(f"fuzz: ERROR: no target '{name}'; known: {', '.join(TARGETS)}")
    seed = int(time.time()) if options.seed is None else options.seed
    whole = sum(WEIGHTS.get(name, 1.0) for name in names)
    share = options.seconds * min(options.workers, len(names)) / whole
    # The longest first, so that both processors end together.
    names.sort(key=lambda name: -WEIGHTS.get(name, 1.0))
    jobs = [Job(name, share * WEIGHTS.get(name, 1.0), seed + n) for n, name in enumerate(names)]
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    work = Path(tempfile.mkdtemp(prefix="dcaplda-fuzz-", dir=memory))
    began = time.time()
    try:
        runner = Runner(options, work)
        engine = "coverage-guided (atheris)" if runner.guided else "by chance"
        print(f"fuzz: {len(jobs)} targets, inputs {engine}, seed {seed}", flush=True)
        runner.run(jobs)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(table(jobs))
    bad = sum(count for job in jobs for name, count in job.counts.items() if name not in GOOD)
    inputs = sum(sum(job.counts.values()) for job in jobs)
    print(f"fuzz: {inputs} inputs in {time.time() - began:.0f} s, {bad} bad", flush=True)
    if bad:
        print(f"fuzz: inputs with a bad outcome are in {options.findings}; run one again with")
        print("      python tests/fuzz/run.py --again=<file>")
    idle = [job.target for job in jobs if not sum(job.counts.values())]
    if idle:
        print(f"fuzz: ERROR: no input of {', '.join(idle)} was run")
    return 1 if bad or idle else 0


if __name__ == "__main__":
    sys.exit(main())
