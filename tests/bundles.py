"""Bundles edited by hand, as a careful forger would: hashes are put right afterwards."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dcaplda.runtime.bundle.checksums import SUMS, sha256, with_sums

MANIFEST = "model.json"


def put_right(directory: Path) -> None:
    """Make SHA256SUMS anew, of the files as they are."""
    files = {path.name: path.read_bytes() for path in directory.iterdir() if path.name != SUMS}
    (directory / SUMS).write_bytes(with_sums(files)[SUMS])


def edit_manifest(directory: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change model.json, hashes put right."""
    manifest = json.loads((directory / MANIFEST).read_text())
    change(manifest)
    (directory / MANIFEST).write_text(json.dumps(manifest))
    put_right(directory)


def replace_graph(directory: Path, name: str, content: bytes) -> None:
    """Put another graph in the place of one, hashes put right."""
    (directory / f"{name}.onnx").write_bytes(content)
    edit_manifest(directory, lambda m: m["graphs"][name].update(sha256=sha256(content)))


def as_version_1(directory: Path) -> None:
    """The bundle as versions of before SHA256SUMS wrote it."""
    edit_manifest(directory, lambda m: m.update(format_version=1))
    (directory / SUMS).unlink()
