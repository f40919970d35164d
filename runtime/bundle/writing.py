"""A bundle's directory appears whole or not at all, in place of an older bundle if there is one."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dcaplda.runtime.bundle.manifest import MANIFEST
from dcaplda.runtime.errors import ModelError


def checked_place(directory: str | Path) -> Path:
    """Where a bundle of this name would be written; an error if something else is there."""
    # Of a link, the directory behind it is replaced.
    target = Path(directory).resolve()
    if target.exists() and not target.is_dir():
        raise ModelError(f"{directory}: is a file; give a directory for the bundle")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise ModelError(f"{directory}: not empty and not a bundle; give a new directory")
    return target


def write_files(directory: str | Path, files: Mapping[str, bytes]) -> None:
    """Write files into `directory`.

    Everything is first written beside its place; a directory that holds something else than a
    bundle is not touched.
    """
    target = checked_place(directory)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        for name, content in files.items():
            (beside / name).write_bytes(content)
        beside.chmod(0o755)
        if target.is_dir():
            old = beside.with_name(beside.name + ".old")
            target.rename(old)
            try:
                beside.rename(target)
            except OSError:
                old.rename(target)
                raise
            shutil.rmtree(old)
        else:
            beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
