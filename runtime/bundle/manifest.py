"""A model directory: model.json and the ONNX graphs, read and checked."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcaplda.runtime.errors import BundleError

FORMAT = "dcaplda-bundle"
FORMAT_VERSION = 1
MANIFEST = "model.json"
JOINT = "joint"
"""Key of the file with what several utterances and places need; most models lack it."""
GRAPHS = ("backend", "voiceprint", "compare", "pairs")
VERIFY, SEARCH = FURTHER = "verify", "search"
"""Graphs for one verification in one call, and for one probe against many voiceprints; older
models, and those imported from Kaldi, lack them."""


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
    """Whether voiceprint.onnx can average groups of utterances before any form."""
    further_graphs: frozenset[str]
    """Which of the graphs are there that a model may lack."""
    joint_file: str | None
    """Name of the file with the model of place, speaker and sample, where there is one."""
    fingerprint: str
    """Hash over all graphs: voiceprints can be compared only within one fingerprint."""
    manifest: dict[str, Any] = field(repr=False)
    """All of model.json."""

    @property
    def parent(self) -> str:
        """Fingerprint of the model that this one was adapted from; empty if it was not."""
        told = self.manifest.get("adaptation")
        return str(told.get("parent", "")) if isinstance(told, dict) else ""


def sha256(content: bytes) -> str:
    """Hexadecimal digest."""
    return hashlib.sha256(content).hexdigest()


def read_info(directory: str | Path) -> ModelInfo:
    """Read and check model.json alone."""
    path = Path(directory) / MANIFEST
    if not path.is_file():
        raise BundleError(
            f"{directory}: has no {MANIFEST}; expected what export-onnx or import-model writes"
        )
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise BundleError(f"{path}: not valid JSON ({error}); export the model again") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BundleError(f"{path}: is not the manifest of a dcaplda model")
    version = manifest.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise BundleError(f"{path}: format_version is {version!r}; export the model again")
    if version > FORMAT_VERSION:
        raise BundleError(
            f"{path}: format version {version} is newer than this dcaplda reads "
            f"({FORMAT_VERSION}); upgrade dcaplda"
        )
    try:
        hashes = [manifest["graphs"][name]["sha256"] for name in GRAPHS]
        joint = manifest.get(JOINT)
        if joint is not None:
            hashes.append(joint["sha256"])
        return ModelInfo(
            variant=str(manifest["variant"]),
            embedding_dim=int(manifest["embedding_dim"]),
            voiceprint_dim=int(manifest["voiceprint_dim"]),
            uses_durations=bool(manifest["uses_durations"]),
            voiceprint_inputs=tuple(manifest.get("voiceprint_inputs", ())),
            averages_groups=bool(manifest.get("averages_groups", False)),
            further_graphs=frozenset(FURTHER) & frozenset(manifest["graphs"]),
            joint_file=None if joint is None else str(joint["file"]),
            fingerprint=sha256("".join(hashes).encode()),
            manifest=manifest,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BundleError(
            f"{path}: {error!r} is missing or wrong; export the model again"
        ) from None


def read_graph(directory: str | Path, info: ModelInfo, name: str) -> bytes:
    """The bytes of a graph, if they are the ones that were exported."""
    entry = info.manifest["graphs"][name]
    return _read(directory, str(entry.get("file", f"{name}.onnx")), entry["sha256"], name)


def read_joint_file(directory: str | Path, info: ModelInfo) -> bytes:
    """The bytes of the joint model's file, if they are the ones that were exported."""
    entry = info.manifest[JOINT]
    return _read(directory, str(entry["file"]), entry["sha256"], JOINT)


def _read(directory: str | Path, file: str, digest: str, name: str) -> bytes:
    path = Path(directory) / file
    if path.name != file:
        raise BundleError(f"{directory}/{MANIFEST}: graph '{name}' points outside the bundle")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise BundleError(
            f"{path}: missing or unreadable ({error.strerror}); export again"
        ) from None
    if sha256(content) != digest:
        raise BundleError(
            f"{path}: its sha256 is not the one in {MANIFEST}; the file was altered or is "
            "incomplete: copy or export the model again"
        )
    return content
