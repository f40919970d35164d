"""Output files and folders that appear whole or not at all.

They are made beside their place under a hidden name that ends in `.part`, and renamed. A writer
holds a lock on what it makes: what a killed one left has none, and is removed by the next writer.
A file that a tool has read is never replaced by what it writes (`noting_inputs`).
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from dcaplda.runtime.errors import UsageError

try:
    import fcntl
except ImportError:  # not of this world of systems: nothing is locked, nothing swept
    fcntl = None  # type: ignore[assignment]

_PART = ".part"
# Of a name as long as names can be, the hidden one has a part only.
_LONGEST = 100
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
# How libraries that raise errors of their own tell which of the system's it was.
_SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")
_noted: set[tuple[int, int]] | None = None


@contextlib.contextmanager
def noting_inputs() -> Iterator[None]:
    """Inside, files that are read are noted, and none of them can be replaced.

    For tools, whose user may mix names up; a program may well write what it has read.
    """
    global _noted
    before, _noted = _noted, set()
    try:
        yield
    finally:
        _noted = before


def note_input(status: os.stat_result) -> None:
    """Tell of a file that is read, where that is noted."""
    if _noted is not None:
        _noted.add((status.st_dev, status.st_ino))


def refuse_input(path: str | Path) -> None:
    """Raise UsageError if this output is a file that was read."""
    if not _noted:
        return
    with contextlib.suppress(OSError):
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in _noted:
            raise UsageError(f"'{path}' is an input of this command; name another file to write")


@contextlib.contextmanager
def replacing(path: str | Path, *, like: str | Path | None = None) -> Iterator[Path]:
    """Give a temporary path beside `path`; rename it into place if the block succeeds.

    An older file at `path` stays untouched until the rename, and the new one has its permissions,
    or those of `like`; a failed block leaves nothing behind.
    """
    target = Path(path)
    refuse_input(target)
    with _naming(path), _beside(target, tempfile.mkstemp) as beside:
        yield beside
        beside.chmod(mode_of(Path(like or target), 0o666))
        os.replace(beside, target)


@contextlib.contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`; it takes that name if the block succeeds.

    A folder cannot be replaced in one step, so `path` must not exist, or be an empty folder.
    """
    check_new_folder(path)
    target = Path(os.path.abspath(path))
    with working_folder(target) as beside:
        yield beside
        beside.chmod(mode_of(target, 0o777))
        os.replace(beside, target)


@contextlib.contextmanager
def working_folder(target: Path) -> Iterator[Path]:
    """Give a folder beside `target`, to work in; what is left of it afterwards is removed."""

    def make(prefix: str, suffix: str, dir: Path) -> tuple[int, str]:
        name = tempfile.mkdtemp(prefix=prefix, suffix=suffix, dir=dir)
        return os.open(name, os.O_RDONLY), name

    with _naming(target), _beside(target, make) as beside:
        yield beside


@contextlib.contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Errors of the system inside name the file, not the hidden one beside it: a full disk is told
    by a write, which cannot."""
    try:
        yield
    except OSError as error:
        full = error.errno == errno.ENOSPC and error.filename is None
        name = Path(path).name[:_LONGEST]
        if full or Path(str(error.filename)).name.startswith(f".{name}."):
            error.filename = str(path)
        raise
    except Exception as error:
        found = _SYSTEM_ERROR.search(str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from None


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders change names in one step; False where the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    names = os.fsencode(one), os.fsencode(other)
    return bool(rename(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0)


def mode_of(path: Path, usual: int) -> int:
    """Permissions of what is there; else those that anything new of this kind gets."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return usual & ~_umask()


def check_new_folder(path: str | Path) -> None:
    """Refuse a folder that cannot be made, before any work is done for it."""
    target = Path(os.path.abspath(path))
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise UsageError(f"'{path}' is there already; remove it, or name a new folder")
    if not target.parent.is_dir():
        raise UsageError(f"'{path}': there is no directory '{target.parent}'; make it first")


@contextlib.contextmanager
def _beside(target: Path, make: Callable[..., tuple[int, str]]) -> Iterator[Path]:
    """A new file or folder beside its place, locked; removed if it is still there at the end."""
    prefix = f".{target.name[:_LONGEST]}."
    _sweep(target.parent, prefix)
    while True:
        handle, name = make(prefix=prefix, suffix=_PART, dir=target.parent)
        if _lock(handle, wait=True) and os.fstat(handle).st_nlink == 0:
            os.close(handle)  # swept by somebody before it was locked
            continue
        break
    beside = Path(name)
    try:
        yield beside
    finally:
        _remove(beside)
        os.close(handle)


def _sweep(folder: Path, prefix: str) -> None:
    """Remove what killed writers left: nobody holds its lock any more."""
    pattern = re.compile(re.escape(prefix) + r"[a-z0-9_]{8}" + re.escape(_PART))
    try:
        left = [entry.path for entry in os.scandir(folder) if pattern.fullmatch(entry.name)]
    except OSError:
        return  # what is wrong with the folder, the writer will say
    for name in left:
        with contextlib.suppress(OSError):
            handle = os.open(name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _lock(handle, wait=False):
                    _remove(Path(name))
            finally:
                os.close(handle)


def _lock(handle: int, wait: bool) -> bool:
    """Lock an open file or folder for as long as it is open; False if that cannot be had."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # held by another, or a file system without locks
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _umask() -> int:
    """The process's mask of permissions; where it must be set to be read, for a moment."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").split("\n")
        return int(next(line for line in lines if line.startswith("Umask:"))[6:], 8)
    mask = os.umask(0)
    os.umask(mask)
    return mask
