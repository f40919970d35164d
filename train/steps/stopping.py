"""Ctrl-C during the steps: the step is finished and its state saved before the run ends.

An interrupt in the middle of a step would leave a model that is half moved. So the first one only
asks to stop; a second Ctrl-C does not wait, and leaves the checkpoint that was written before.
"""

import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from dcaplda.runtime.errors import DcapldaError


class Stopped(DcapldaError):
    """A run that was asked to stop and has saved what it reached."""

    def __init__(self, steps: int, asked: int) -> None:
        super().__init__(f"stopped after {steps} of {asked} steps; what was reached is kept")
        self.steps = steps
        self.asked = asked


class StopSignals:
    """Within: SIGINT and SIGTERM set `asked`, where this is the main thread; after: as before."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.asked = False
        self.say = say
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                # A shell's background jobs ignore Ctrl-C, and go on doing so.
                if signal.getsignal(number) != signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
        # The signal may have come in the middle of another message.
        with contextlib.suppress(RuntimeError):
            self.say("stopping after this step; Ctrl-C again stops at once")
