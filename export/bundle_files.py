"""Writes a bundle: graphs, hashes and model.json, whole or not at all; needs no torch."""

import json
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import onnx

from dcaplda.export.graphs import names
from dcaplda.runtime.bundle.agreement import disagreement
from dcaplda.runtime.bundle.checksums import sha256, with_sums
from dcaplda.runtime.bundle.graph_facts import read_facts
from dcaplda.runtime.bundle.manifest import FORMAT, FORMAT_VERSION, JOINT, MANIFEST, parse_info
from dcaplda.runtime.bundle.readme import README, readme
from dcaplda.runtime.bundle.writing import write_files
from dcaplda.runtime.errors import ModelError

JOINT_FILE = "joint.npz"


def write_bundle(
    directory: str | Path,
    graphs: Mapping[str, onnx.ModelProto],
    manifest: Mapping[str, Any],
    joint: bytes | None = None,
) -> None:
    """Write graphs, the joint model's file, model.json and README.md into `directory`.

    An older bundle there is replaced.
    """
    files, entries = {}, {}
    for name in (*names.GRAPHS, *(n for n in names.FURTHER if n in graphs)):
        content = graphs[name].SerializeToString(deterministic=True)
        files[f"{name}.onnx"] = content
        entries[name] = {"file": f"{name}.onnx", "sha256": sha256(content)}
    whole = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "producer": f"dcaplda {_version()}",
        **manifest,
        "opset": names.OPSET,
        "graphs": entries,
    }
    if joint is not None:
        files[JOINT_FILE] = joint
        whole[JOINT] = {"file": JOINT_FILE, "sha256": sha256(joint)}
    _check_agreement(whole, files)
    text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
    files[README] = readme(whole)
    write_files(directory, with_sums({**files, MANIFEST: text.encode("utf-8")}))


def _check_agreement(manifest: dict[str, Any], files: Mapping[str, bytes]) -> None:
    """What the runtime would refuse is not written."""
    info = parse_info(manifest, MANIFEST)
    for name, file in info.graphs.items():
        problem = disagreement(info, name, read_facts(files[file.name], f"export: {file.name}"))
        if problem:
            raise ModelError(f"export: {file.name} {problem}, unlike {MANIFEST}")


def _version() -> str:
    try:
        return metadata.version("dcaplda")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "(checkout)"
