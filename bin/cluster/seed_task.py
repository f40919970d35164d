"""What submitit runs on a node: a command that goes on where it was stopped.

submitit pickles this module itself (see `submitted`), so it imports the standard library alone; on
the node nothing of this project is loaded but by the command.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

LOOK_SECONDS = 0.2
STOP_SECONDS = 60.0
"""How long a command may take to keep what it has reached."""
GRACE_SECONDS = 5.0
"""A command that was told to stop may end before submitit hears that the job is preempted."""


class SeedTask:
    """Runs a command; `checkpoint`, which submitit calls before a job is ended, stops it in order.

    The command is to find by itself what was reached before: it is started again as it is. A plain
    function, or `__submitit_checkpoint__` alone, would begin at zero.
    """

    def __init__(self, command: list[str], directory: str, title: str) -> None:
        self.command, self.directory, self.title = command, directory, title
        self.child: subprocess.Popen[bytes] | None = None

    def __call__(self) -> int:
        """Run to the end."""
        started = time.strftime("%Y-%m-%dT%H:%M:%S")
        print(f"# {self.title} on {socket.gethostname()} at {started}", file=sys.stderr, flush=True)
        # Slurm may send submitit's signal to all processes of a job; children have no use for it.
        ignoring = ["/bin/sh", "-c", 'trap "" USR2; exec "$@"', "sh", *self.command]
        self.child = subprocess.Popen(
            ignoring, cwd=self.directory, start_new_session=True, stdout=sys.stderr
        )
        # Not wait(): it would hold the lock that `checkpoint`, a signal's handler, needs.
        while self.child.poll() is None:
            time.sleep(LOOK_SECONDS)
        if self.child.returncode:
            time.sleep(GRACE_SECONDS)
            raise RuntimeError(f"{self.title} ended with status {self.child.returncode}")
        return 0

    def checkpoint(self) -> Any:
        """Stop the command, which keeps what it has reached; the task to go on with."""
        from submitit.core.utils import DelayedSubmission

        child = self.child
        if child is not None and child.poll() is None:
            child.send_signal(signal.SIGTERM)
            until = time.monotonic() + STOP_SECONDS
            while child.poll() is None and time.monotonic() < until:
                time.sleep(LOOK_SECONDS)
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
        return DelayedSubmission(SeedTask(self.command, self.directory, self.title))
