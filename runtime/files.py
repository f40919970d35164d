"""Output files that appear whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it into place if the block succeeds.

    An older file at `path` stays untouched until the rename, and a failed block
    leaves nothing behind.
    """
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    beside = Path(name)
    try:
        yield beside
        # mkstemp makes a private file; an output has the permissions of any other new file.
        umask = os.umask(0)
        os.umask(umask)
        beside.chmod(0o666 & ~umask)
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)
