"""The head process: sees that every part is done, tries again what failed, says what stays so."""

import contextlib
import fcntl
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from dcaplda.bin.cluster.job import Job, LogEnd, read_log
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.progress import SECONDS_BETWEEN
from dcaplda.runtime.errors import PartError, UsageError
from dcaplda.runtime.files import replacing
from dcaplda.runtime.parts.merging import listed

_NAMED = 5
"""Reasons of failures that a message tells."""


class Scheduler(Protocol):
    """Who runs parts."""

    poll: tuple[float, float]
    """Seconds between two looks: at first, and at most."""
    grace: float
    """Seconds that a file of another machine may take to be seen here."""

    def log_of(self, part: int) -> Path:
        """Where a part talks to."""

    def adopt(self) -> None:
        """Take over what an earlier call left at work."""

    def submit(self, parts: Sequence[int]) -> str:
        """Have these parts done; says how."""

    def active(self) -> dict[int, str] | None:
        """`waiting` or `running` of each part that is not over; None: nobody knows just now."""

    def cancel(self) -> str:
        """End everything; says how."""


def write_script(job: Job) -> None:
    """The folder of a job, and its script in it."""
    job.logs.mkdir(parents=True, exist_ok=True)
    with replacing(job.folder / "array.sh") as path:
        path.write_text(job.script(), encoding="utf-8")


@contextlib.contextmanager
def only_head(job: Job) -> Iterator[None]:
    """Keep a second head out of the job's folder; the lock goes when the process does."""
    job.folder.mkdir(parents=True, exist_ok=True)
    with open(job.folder / "head.lock", "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"{job.folder}: another process is having this work done; wait for it"
            ) from None
        except OSError:
            pass  # a file system without locks
        yield


def see_through(job: Job, scheduler: Scheduler, retries: int, log: Log) -> None:
    """Return when all parts are done; raise PartError if some stay undone.

    A part is done when its output says so, not when a scheduler does. What is done before this call
    is not done again, what an earlier call left at work is waited for.
    """
    left = {part for part in range(1, job.count + 1) if not job.is_done(part)}
    if len(left) < job.count:
        log.info(f"{job.count - len(left)} of {job.count} parts are done already")
    if not left:
        return
    try:
        failed = _Watch(job, scheduler, retries, log, left).run()
    except KeyboardInterrupt:
        how = scheduler.cancel()
        raise PartError(
            f"interrupted: {how}; what is done is kept, the same command goes on"
        ) from None
    if failed:
        raise PartError(_told(job, scheduler, failed, retries))


class _Watch:
    """The parts that are left, how often each was tried, and which failed for good."""

    def __init__(
        self, job: Job, scheduler: Scheduler, retries: int, log: Log, left: set[int]
    ) -> None:
        self.job, self.scheduler, self.retries, self.log = job, scheduler, retries, log
        self.left = left
        self.tries: Counter[int] = Counter()
        self.failed: list[int] = []
        self.report = _Report(job, log)

    def run(self) -> list[int]:
        """Until nothing is left; parts that failed for good."""
        shortest, longest = self.scheduler.poll
        self.scheduler.adopt()
        while (active := self.scheduler.active()) is None:
            time.sleep(longest)
        adopted = self.left & active.keys()
        if adopted:
            self.log.info(f"{len(adopted)} parts are still at work since an earlier call")
        self.tries.update(adopted)
        self._submit(sorted(self.left - adopted))
        pause = shortest
        while self.left:
            time.sleep(pause)
            pause = min(longest, 1.2 * pause)
            now = self.scheduler.active()
            if now is None:
                continue
            over = self.left - now.keys()
            if over:
                self._settle(sorted(over))
                pause = shortest
            self.report.say(self.left, now, len(self.failed))
        self.report.end()
        return sorted(self.failed)

    def _submit(self, parts: list[int]) -> None:
        if parts:
            self.tries.update(parts)
            how = self.scheduler.submit(parts)
            self.log.info(f"{len(parts)} of {self.job.count} parts: {how}")

    def _settle(self, over: list[int]) -> None:
        """Parts that the scheduler has no more: done, or to be tried again, or failed."""
        undone = [part for part in over if not self.job.is_done(part)]
        until = time.monotonic() + self.scheduler.grace
        while undone and time.monotonic() < until:
            time.sleep(0.5)
            undone = [part for part in undone if not self.job.is_done(part)]
        self.left -= set(over) - set(undone)
        again = []
        for part in undone:
            if self.tries[part] > self.retries:
                self.left.remove(part)
                self.failed.append(part)
                continue
            again.append(part)
        for told in _reasons(self.scheduler, again):
            self.log.warning(f"failed, and tried again: {told}")
        self._submit(again)


class _Report:
    """How many parts are done: one line that changes on a terminal, else a line now and then."""

    def __init__(self, job: Job, log: Log) -> None:
        self.job, self.log = job, log
        self._shows = sys.stderr.isatty()
        self._told, self._last = time.monotonic(), ""

    def say(self, left: set[int], active: dict[int, str], failed: int) -> None:
        """Tell the counts, if they changed."""
        states = Counter(active[part] for part in left if part in active)
        done = self.job.count - len(left) - failed
        words = [f"{count} {state}" for state, count in sorted(states.items())]
        words += [f"{failed} failed"] if failed else []
        text = ", ".join([f"{done} of {self.job.count} parts done", *words])
        now = time.monotonic()
        if text == self._last or (not self._shows and now - self._told < SECONDS_BETWEEN):
            return
        self._told, self._last = now, text
        if self._shows:
            print(f"\r\033[K{self.job.name}: {text}", end="", file=sys.stderr, flush=True)
        else:
            self.log.info(text)

    def end(self) -> None:
        """The line is over."""
        if self._shows and self._last:
            print(file=sys.stderr, flush=True)


def _told(job: Job, scheduler: Scheduler, failed: list[int], retries: int) -> str:
    """Which parts failed, where, and why."""
    found = _reasons(scheduler, failed)
    more = f"; and {len(found) - _NAMED} other reasons" if len(found) > _NAMED else ""
    times = f"{retries + 1} times" if retries else "once"
    return (
        f"{listed(failed)} of {job.count} failed {times}, nothing was put together: "
        f"{'; '.join(found[:_NAMED])}{more}; correct it, the same command does what is missing"
    )


def _reasons(scheduler: Scheduler, parts: Sequence[int]) -> list[str]:
    """`part 3 on node7 (log): why`, those that failed in the same way together."""
    found: dict[LogEnd, list[int]] = {}
    for part in parts:
        found.setdefault(read_log(scheduler.log_of(part)), []).append(part)
    return [
        f"{listed(members)}{f' on {end.node}' if end.node else ''} "
        f"({scheduler.log_of(members[0])}): {end.reason or 'it said nothing'}"
        for end, members in found.items()
    ]
