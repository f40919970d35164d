"""A bundle's directory appears whole or not at all, in place of an older bundle if there is one."""

import os
from collections.abc import Mapping
from pathlib import Path

from dcaplda.runtime.bundle.manifest import MANIFEST
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.files import exchange, mode_of, working_folder


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
    bundle is not touched. Permissions are those of an older bundle there.
    """
    target = checked_place(directory)
    target.parent.mkdir(parents=True, exist_ok=True)
    with working_folder(target) as beside:
        for name, content in files.items():
            (beside / name).write_bytes(content)
            (beside / name).chmod(mode_of(target / name, 0o666))
        beside.chmod(mode_of(target, 0o777))
        if not target.is_dir():
            beside.rename(target)
        elif not exchange(beside, target):
            _swap(beside, target)


def _swap(beside: Path, target: Path) -> None:
    """In two steps, where the system has no single one; the old one is moved into the new."""
    old = beside.with_name(beside.name + ".old")
    target.rename(old)
    try:
        beside.rename(target)
    except OSError:
        old.rename(target)
        raise
    # `beside` is what is removed afterwards.
    os.replace(old, beside)
