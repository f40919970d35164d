"""Memory that one step gives back and the next asks for again."""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of glibc's settings (mallopt(3))."""
KEPT = 256 << 20
"""Bytes of freed memory that the process keeps."""
LARGEST = 32 << 20
"""Bytes from which on an array is given back to the system; the most that glibc accepts."""


def keep_freed_memory() -> None:
    """Let the next step have the pages of this one.

    glibc returns freed memory at once, and the system clears every page of it before it hands it
    out again: a tenth of a step. Elsewhere nothing happens.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, LARGEST)
        mallopt(_TRIM_THRESHOLD, KEPT)
