"""Ctrl-C at any bytecode, and the changes of a gallery that are interrupted by it."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from random_models import DIM

from dcaplda.runtime.gallery.speakers import Gallery

OURS = str(Path(__file__).parents[1] / "runtime")
"""Frames of other people's code are one step of ours: the call."""

Change = Callable[[Gallery, np.ndarray], None]
CHANGES: dict[str, tuple[Change, Change]] = {
    "add": (
        lambda g, v: g.add_many([("new", v[3:5]), ("other", v[5])]),
        lambda g, v: g.remove("new", "other"),
    ),
    "remove": (
        lambda g, v: g.remove("s1", "s0"),
        lambda g, v: g.add_many([("s0", v[0]), ("s1", v[1])]),
    ),
    "replace": (lambda g, v: g.replace("s1", v[6]), lambda g, v: g.replace("s1", v[1])),
    "add_utterance": (
        lambda g, v: g.add_utterance("s1", *CALL),
        lambda g, v: g.remove_utterance("s1", g.utterances("s1")[-1].number),
    ),
    "remove_utterance": (
        lambda g, v: g.remove_utterance("s1", g.utterances("s1")[-1].number),
        lambda g, v: g.replace("s1", v[1:3]),
    ),
    "rename": (lambda g, v: g.rename("s1", "new"), lambda g, v: g.rename("new", "s1")),
    "merge": (
        lambda g, v: g.merge("s1", "s0"),
        lambda g, v: (g.replace("s1", v[1]), g.add("s0", v[0])),
    ),
    "split": (
        lambda g, v: g.split("s1", "new", [g.utterances("s1")[-1].number]),
        lambda g, v: (g.remove("new"), g.replace("s1", v[1:3])),
    ),
}
TWO = ("remove_utterance", "split")
"""Changes of a speaker of two utterances."""
CALL = np.linspace(-1, 1, DIM), 20.0
"""A change, and what undoes it."""


class Interruption:
    """A tracing function that raises at one bytecode and counts those before."""

    def __init__(self, at: int, everywhere: bool = False) -> None:
        self.left, self.everywhere = at, everywhere

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not self.everywhere and not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self

    def hits(self, action: Callable[[], None]) -> KeyboardInterrupt | None:
        """Run an action; the interrupt itself, or None if the action ended before it."""
        sys.settrace(self)
        try:
            action()
        except KeyboardInterrupt as interrupt:
            return interrupt  # with its traceback, which holds on to all frames
        finally:
            sys.settrace(None)
        return None


def in_memory(gallery: Gallery) -> dict[str, bytes]:
    found = {}
    for block in gallery.blocks():
        for k, name in enumerate(block.ids[: len(block.numbers)]):
            assert name not in found, "twice in memory"
            found[name] = block.rows[block.offsets[k] : block.offsets[k + 1]].tobytes()
    return found
