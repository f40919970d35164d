"""Connections around a fork: none is carried into the child.

Every gallery lets go of its connection before a fork, and both sides open a new one when they next
need it. The lock is held across, so that the child gets neither a lock of another thread nor half
a change.
"""

import os
import threading
import weakref
from typing import Protocol


class Forked(Protocol):
    """Something with a connection that no child may have."""

    lock: threading.RLock  # type: ignore[valid-type]

    def disconnect(self) -> None:
        """Close the connection; the next use opens another."""


_all: "weakref.WeakSet[Forked]" = weakref.WeakSet()
_held: list[Forked] = []


def watch(it: Forked) -> None:
    """See that it is disconnected before a fork."""
    _all.add(it)


def watched() -> list[Forked]:
    """All that have a connection, or may open one."""
    return list(_all)


def _before() -> None:
    for it in watched():
        it.lock.acquire()  # type: ignore[attr-defined]
        _held.append(it)
        it.disconnect()


def _after() -> None:
    while _held:
        _held.pop().lock.release()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
