"""A model directory: model.json and the ONNX graphs, read and checked."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dcaplda.runtime.bundle.checksums import SUMS, parse_sums, sha256
from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.fields import Table, parse_json
from dcaplda.runtime.files import note_input

FORMAT = "dcaplda-bundle"
FORMAT_VERSION = 3
"""Bundles of version 1 have no SHA256SUMS, and their fingerprint is of the graphs alone; those
before 3 have no average.onnx, but an input `groups` of voiceprint.onnx that may be left out."""
MANIFEST = "model.json"
JOINT = "joint"
"""Key of the file with what several utterances and places need; most models lack it."""
GRAPHS = ("backend", "voiceprint", "compare", "pairs")
VERIFY, SEARCH, AVERAGE = "verify", "search", "average"
PREPARE, TILE = "prepare", "tile"
FURTHER = (VERIFY, SEARCH, AVERAGE, PREPARE, TILE)
"""Graphs for one verification in one call, for one probe against many voiceprints, for groups of
utterances, and for a comparison in two steps; older models, and those imported from Kaldi, lack
some."""
LARGEST_SIZE = 1 << 20
"""Values of an embedding or a voiceprint, at most."""
AGAIN = "export the model again"
_HASH = re.compile(r"[0-9a-f]{64}")


class BundleFile(NamedTuple):
    """A file of a bundle and the hash that its content must have."""

    name: str
    sha256: str


@dataclass(frozen=True)
class ModelInfo:
    """What model.json says of a model."""

    variant: str
    embedding_dim: int
    voiceprint_dim: int
    uses_durations: bool
    """Whether scores depend on the seconds of speech; if not, they may be left out."""
    voiceprint_inputs: tuple[str, ...]
    """Inputs of voiceprint.onnx besides embeddings and durations, such as `num_utts`."""
    averages_groups: bool
    """Whether groups of utterances can be averaged before any form."""
    graphs: Mapping[str, BundleFile]
    """The graphs that the runtime knows, by name."""
    joint: BundleFile | None
    """The file with the model of place, speaker and sample, where there is one."""
    parent: str
    """Fingerprint of the model that this one was adapted from; empty if it was not."""
    version: int
    fingerprint: str
    """Hash over all that changes a score: voiceprints can be compared only within one."""
    manifest: dict[str, Any] = field(repr=False)
    """All of model.json."""

    @property
    def further_graphs(self) -> frozenset[str]:
        """Which of the graphs are there that a model may lack."""
        return frozenset(FURTHER) & frozenset(self.graphs)

    @property
    def averaging_graph(self) -> str:
        """The graph that takes `groups`, of a model that averages."""
        return AVERAGE if AVERAGE in self.graphs else "voiceprint"

    @property
    def joint_file(self) -> str | None:
        """Name of the joint model's file."""
        return None if self.joint is None else self.joint.name


def read_info(directory: str | Path) -> ModelInfo:
    """Read and check model.json, against SHA256SUMS too, but no graph."""
    path = Path(directory) / MANIFEST
    if not path.is_file():
        raise BundleError(
            f"{directory}: has no {MANIFEST}; expected what export-onnx or import-model writes"
        )
    content = _bytes(path)
    sums = _read_sums(directory)
    if sums is not None and sums.get(MANIFEST) != sha256(content):
        raise _altered(path, SUMS)
    try:
        manifest = parse_json(content)
    except ValueError as error:
        raise BundleError(f"{path}: not valid JSON ({error}); {AGAIN}") from None
    info = parse_info(manifest, str(path))
    if sums is None and info.version > 1:
        raise BundleError(f"{directory}: has no {SUMS}; copy or export the model again")
    for file in (*info.graphs.values(), *([info.joint] if info.joint else [])):
        if sums is not None and sums.get(file.name) != file.sha256:
            raise BundleError(f"{path}: its sha256 of {file.name} is not that of {SUMS}; {AGAIN}")
    return info


def parse_info(manifest: Any, place: str) -> ModelInfo:
    """What the content of model.json says, every value of the right type and range."""
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{place}: is not the manifest of a dcaplda model")
    told = Table(manifest, place, BundleError, AGAIN)
    version = told.get("format_version", int)
    if version < 1:
        raise told.refused(f"format_version is {version}")
    if version > FORMAT_VERSION:
        raise BundleError(
            f"{told.place}: format version {version} is newer than this dcaplda reads "
            f"({FORMAT_VERSION}); upgrade dcaplda"
        )
    graphs = told.table("graphs")
    files = {
        name: _file(graphs.table(name), name, f"{name}.onnx")
        for name in (*GRAPHS, *(name for name in FURTHER if name in graphs.values))
    }
    if (PREPARE in files) != (TILE in files):
        raise told.refused(f"'{PREPARE}' and '{TILE}' are two steps of one comparison")
    joint = told.optional_table(JOINT)
    adaptation = told.optional_table("adaptation")
    info = ModelInfo(
        variant=told.text("variant"),
        embedding_dim=told.whole("embedding_dim", 1, LARGEST_SIZE),
        voiceprint_dim=told.whole("voiceprint_dim", 1, LARGEST_SIZE),
        uses_durations=told.flag("uses_durations"),
        voiceprint_inputs=tuple(told.get("voiceprint_inputs", list[str], [])),
        averages_groups=told.flag("averages_groups", False),
        graphs=files,
        joint=None if joint is None else _file(joint, JOINT),
        parent="" if adaptation is None else adaptation.text("parent", ""),
        version=version,
        fingerprint="",
        manifest=told.values,
    )
    object.__setattr__(info, "fingerprint", _fingerprint(info))
    return info


def _file(entry: Table, what: str, usual: str | None = None) -> BundleFile:
    name = entry.text("file") if usual is None else entry.text("file", usual)
    if Path(name).name != name or "\\" in name or "\0" in name:
        raise entry.refused(f"'{what}' points outside the bundle")
    digest = entry.text("sha256")
    if not _HASH.fullmatch(digest):
        raise entry.refused(f"the sha256 of '{what}' is none")
    return BundleFile(name, digest)


def _fingerprint(info: ModelInfo) -> str:
    """Of all files and all that the runtime does with them; of version 1, of the graphs alone."""
    joint = "" if info.joint is None else info.joint.sha256
    if info.version == 1:
        hashes = [info.graphs[name].sha256 for name in GRAPHS]
        return sha256("".join([*hashes, joint]).encode())
    told = {
        "graphs": {name: file.sha256 for name, file in info.graphs.items()},
        "joint": joint,
        "embedding_dim": info.embedding_dim,
        "voiceprint_dim": info.voiceprint_dim,
        "uses_durations": info.uses_durations,
        "voiceprint_inputs": info.voiceprint_inputs,
        "averages_groups": info.averages_groups,
        "parent": info.parent,
    }
    return sha256(json.dumps(told, sort_keys=True).encode())


def read_file(directory: str | Path, file: BundleFile) -> bytes:
    """The bytes of a file of a bundle, if they are the ones that were exported."""
    path = Path(directory) / file.name
    content = _bytes(path)
    if sha256(content) != file.sha256:
        raise _altered(path, MANIFEST)
    return content


def _read_sums(directory: str | Path) -> dict[str, str] | None:
    path = Path(directory) / SUMS
    return parse_sums(_bytes(path), str(path)) if path.is_file() else None


def _bytes(path: Path) -> bytes:
    try:
        note_input(os.stat(path))
        return path.read_bytes()
    except OSError as error:
        raise BundleError(
            f"{path}: missing or unreadable ({error.strerror}); export again"
        ) from None


def _altered(path: Path, list_file: str) -> BundleError:
    return BundleError(
        f"{path}: its sha256 is not the one in {list_file}; the file was altered or is "
        "incomplete: copy or export the model again"
    )
