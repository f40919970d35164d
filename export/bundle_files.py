"""Writes a bundle: graphs, hashes and model.json, whole or not at all; needs no torch."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx

from dcaplda.export.graphs import names
from dcaplda.runtime.bundle.manifest import FORMAT, FORMAT_VERSION, MANIFEST, sha256
from dcaplda.runtime.errors import ModelError


def write_bundle(
    directory: str | Path,
    graphs: Mapping[str, onnx.ModelProto],
    manifest: Mapping[str, Any],
) -> None:
    """Write graphs and model.json into `directory`, replacing an older bundle there.

    Everything is first written beside its place; a directory that holds something else
    than a bundle is not touched.
    """
    target = Path(directory)
    if target.exists() and not target.is_dir():
        raise ModelError(f"{target}: is a file; give a directory for the bundle")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise ModelError(f"{target}: not empty and not a bundle; give a new directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        entries = {}
        for name in (*names.GRAPHS, *(n for n in names.FURTHER if n in graphs)):
            content = graphs[name].SerializeToString(deterministic=True)
            (beside / f"{name}.onnx").write_bytes(content)
            entries[name] = {"file": f"{name}.onnx", "sha256": sha256(content)}
        whole = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "producer": f"dcaplda {_version()}",
            **manifest,
            "opset": names.OPSET,
            "graphs": entries,
        }
        text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
        (beside / MANIFEST).write_text(text, encoding="utf-8")
        beside.chmod(0o755)
        if target.is_dir():
            old = beside.with_name(beside.name + ".old")
            target.rename(old)
            beside.rename(target)
            shutil.rmtree(old)
        else:
            beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _version() -> str:
    try:
        return metadata.version("dcaplda")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "(checkout)"
