"""How far long work has come: a bar on a terminal, and elsewhere a line now and then."""

import sys
import threading
import time
from typing import Any

from dcaplda.bin.common.options import Log

SECONDS_BETWEEN = 10.0
"""Seconds between two lines in a log; work that is done sooner says nothing."""


class Progress:
    """Counts steps of `total`, from any thread; used as `with Progress(...) as progress`."""

    def __init__(self, total: int, what: str, log: Log) -> None:
        self.total = total
        self.what = what
        self.log = log
        self.done = 0
        self.bar: Any = None
        self._lock = threading.Lock()
        self._start = self._told = time.monotonic()

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, desc=self.what, leave=False)
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def advance(self, steps: int) -> None:
        """Say that so many more steps are done."""
        with self._lock:
            self.done += steps
            if self.bar is not None:
                self.bar.update(steps)
                return
            now = time.monotonic()
            if now - self._told < SECONDS_BETWEEN or self.done >= self.total:
                return
            self._told = now
            share = self.done / self.total
            left = (now - self._start) * (1.0 - share) / share
            self.log.info(f"{self.what}: {100 * share:.0f} % done, about {left:.0f} s to go")
