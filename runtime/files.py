"""Output files and folders that appear whole or not at all."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dcaplda.runtime.errors import UsageError


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


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`; it takes that name if the block succeeds.

    A folder cannot be replaced in one step, so `path` must not exist, or be an empty folder.
    """
    check_new_folder(path)
    target = Path(os.path.abspath(path))
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield beside
        umask = os.umask(0)
        os.umask(umask)
        beside.chmod(0o777 & ~umask)
        os.replace(beside, target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def check_new_folder(path: str | Path) -> None:
    """Refuse a folder that cannot be made, before any work is done for it."""
    target = Path(os.path.abspath(path))
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"'{path}' is there already; remove it, or name a new folder")
    if not target.parent.is_dir():
        raise UsageError(f"'{path}': there is no directory '{target.parent}'; make it first")
