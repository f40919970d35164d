"""Parts as processes of this machine, a few at a time."""

import contextlib
import fcntl
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from dcaplda.bin.cluster.job import Job

POLL = (0.05, 0.5)
"""Seconds between two looks: at first, and at most."""
_FOREIGN = ("SLURM_ARRAY_TASK_ID", "SGE_TASK_ID", "PBS_ARRAY_INDEX")


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


class Local:
    """Starts `at_once` processes at a time; a log is locked for as long as its process lives.

    A process that outlives its head (which was killed) still holds the lock of its log: a second
    call sees that the part is being done, and waits for it.
    """

    poll, grace = POLL, 0.0

    def __init__(self, job: Job, at_once: int) -> None:
        self.job, self.at_once = job, at_once
        self._script = job.folder / "array.sh"
        self._waiting: list[int] = []
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        self._others: set[int] = set()

    def log_of(self, part: int) -> Path:
        """Where a part talks to."""
        return self.job.logs / f"{part}.log"

    def adopt(self) -> None:
        """Find what an earlier call started and is still at work."""
        for path in self.job.logs.glob("*.log"):
            if path.stem.isdecimal() and not _is_free(path):
                self._others.add(int(path.stem))

    def submit(self, parts: Sequence[int]) -> str:
        """Take parts in; they start as others end."""
        self._waiting += parts
        return f"{self.at_once} at a time"

    def active(self) -> dict[int, str]:
        """State of each part that is not over."""
        self._others = {part for part in self._others if not _is_free(self.log_of(part))}
        self._running = {p: child for p, child in self._running.items() if child.poll() is None}
        while self._waiting and len(self._running) < self.at_once:
            part = self._waiting.pop(0)
            self._running[part] = self._start(part)
        running = dict.fromkeys((*self._running, *self._others), "running")
        return running | dict.fromkeys(self._waiting, "waiting")

    def cancel(self) -> str:
        """End what was started."""
        self._waiting.clear()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for child in self._running.values():
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, sign)
            for child in self._running.values():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=5)
        return "its processes were ended"

    def _start(self, part: int) -> subprocess.Popen[bytes]:
        env = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
        with open(self.log_of(part), "ab") as talk:
            # The lock belongs to the open file, which the child keeps.
            with contextlib.suppress(OSError):
                fcntl.flock(talk, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return subprocess.Popen(
                ["bash", str(self._script), str(part)],
                stdin=subprocess.DEVNULL,
                stdout=talk,
                stderr=talk,
                env=env,
                start_new_session=True,
            )


def _is_free(path: Path) -> bool:
    """Whether no process writes to this log."""
    try:
        with open(path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # gone, or a file system without locks
        return True
    return True
