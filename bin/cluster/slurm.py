"""Parts as one array of Slurm's, or a few where the site's arrays are shorter.

Only sbatch, squeue, scancel and scontrol are called: a site without accounting has no sacct. What
is submitted is recorded: a second call finds the tasks of a first one whose head was killed.
"""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from dcaplda.bin.cluster.job import Job
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.fields import Table, parse_json
from dcaplda.runtime.files import replacing

POLL = (0.5, 10.0)
"""Seconds between two calls of squeue: at first, and at most."""
RECORD = "submitted.json"
_USUAL_LIMIT = 1001
_TIMEOUT = 60.0
_LIMIT = re.compile(r"^MaxArraySize\s*=\s*([0-9]+)", re.M)


@dataclass(frozen=True)
class Array:
    """An array that was submitted; task number k is the part offset + k, or one of a list."""

    id: str
    offset: int
    parts: tuple[int, ...] = ()
    """Parts of the tasks 0, 1, ..., where they are no stretch."""

    def part_of(self, task: str) -> int | None:
        """The part that a task is; a single job has none but one, and no number."""
        if task.isdecimal():
            return self.parts[int(task)] if self.parts else self.offset + int(task)
        return self.parts[0] if len(self.parts) == 1 else None


class Slurm:
    """Submits, asks and cancels."""

    poll, grace = POLL, 3.0

    def __init__(self, job: Job, options: Sequence[str], warn: Callable[[str], None]) -> None:
        self.job, self.options, self.warn = job, list(options), warn
        self._script = job.folder / "array.sh"
        self._arrays: list[Array] = []
        self._silent = False
        self._longest = _longest_array()

    def log_of(self, part: int) -> Path:
        """Where a part talks to; Slurm's own words about it end up there too."""
        offset = self._offset(part)
        return self.job.logs / f"{_log_head(offset)}{part - offset}.log"

    def adopt(self) -> None:
        """Take over the arrays that an earlier call submitted."""
        path = self.job.folder / RECORD
        try:
            told = parse_json(path.read_bytes())
        except (OSError, ValueError):
            return
        for row in told if isinstance(told, list) else []:
            table = Table(row, str(path), UsageError, "remove the file")
            parts = tuple(table.get("parts", list[int]))
            self._arrays.append(Array(table.text("id"), table.whole("offset", 0, 1 << 31), parts))

    def submit(self, parts: Sequence[int]) -> str:
        """Submit one array of these parts, or one for each stretch that the site allows."""
        stretches: dict[int, list[int]] = {}
        for part in parts:
            stretches.setdefault(self._offset(part), []).append(part)
        numbers = []
        for offset, members in sorted(stretches.items()):
            numbers.append(self._submit(offset, [part - offset for part in members]))
        return f"Slurm job{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"

    def active(self) -> dict[int, str] | None:
        """State of each part that is not over; None if Slurm does not answer at the moment."""
        arrays = {array.id: array for array in self._arrays}
        done = _call(["squeue", "--noheader", "--array", "--me", "--format=%F|%K|%t|%r"])
        if done.returncode:
            if not self._silent:
                self.warn(f"squeue does not answer, and is asked again: {_said(done)}")
            self._silent = True
            return None
        self._silent = False
        found = {}
        for line in done.stdout.splitlines():
            number, task, state, reason = (*line.strip().split("|"), "", "", "")[:4]
            part = arrays[number].part_of(task) if number in arrays else None
            if part is not None:
                held = f" ({reason})" if state == "PD" and "eld" in reason else ""
                found[part] = _words(state) + held
        return found

    def cancel(self) -> str:
        """Cancel all that was submitted and is not over."""
        numbers = [array.id for array in self._arrays]
        if numbers:
            _call(["scancel", *numbers])
        return f"scancel {' '.join(numbers)} was called"

    def _submit(self, offset: int, tasks: Sequence[int]) -> str:
        log = f"{self.job.logs}/{_log_head(offset)}".replace("%", "%%") + "%a.log"
        done = _call(
            [
                "sbatch",
                "--parsable",
                f"--array={ranges(tasks)}",
                f"--job-name={self.job.name}",
                f"--output={log}",
                "--open-mode=append",
                # Of preempted tasks and lost nodes; an exit status other than 0 stays failed.
                "--requeue",
                *self.options,
                str(self._script),
                str(offset),
            ]
        )
        if done.returncode:
            raise UsageError(f"sbatch refused the array: {_said(done)}; see --cluster-options")
        number = done.stdout.strip().split(";")[0]
        self._record(Array(number, offset))
        return number

    def _record(self, array: Array) -> None:
        """Keep what was submitted, for a second call."""
        self._arrays.append(array)
        with replacing(self.job.folder / RECORD) as path:
            path.write_text(json.dumps([asdict(array) for array in self._arrays]) + "\n")

    def _offset(self, part: int) -> int:
        """What is to be subtracted for a task number that Slurm takes."""
        return (part - 1) // self._longest * self._longest


def ranges(numbers: Sequence[int]) -> str:
    """`1-4,7,9-10`: rising numbers as sbatch takes them."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{a}-{b}" if b > a else str(a) for a, b in found)


def _log_head(offset: int) -> str:
    return f"{offset}+" if offset else ""


def _longest_array() -> int:
    """Highest task number that the site allows; MaxArraySize is one more."""
    done = _call(["scontrol", "show", "config"])
    found = _LIMIT.search(done.stdout)
    if done.returncode and not found:
        raise UsageError(f"--cluster=slurm: Slurm does not answer: {_said(done)}")
    return max(1, (int(found[1]) if found else _USUAL_LIMIT) - 1)


def _words(state: str) -> str:
    return "waiting" if state == "PD" else "running"


def _said(done: subprocess.CompletedProcess[str]) -> str:
    return " ".join((done.stderr or done.stdout).split()) or f"status {done.returncode}"


def _call(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT
        )
    except FileNotFoundError:
        raise UsageError(
            f"--cluster=slurm: there is no '{command[0]}' here; is this a machine of the cluster?"
        ) from None
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer in {_TIMEOUT:.0f} s")
