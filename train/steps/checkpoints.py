"""A training run's whole state in one file, so that a killed run goes on as if nothing happened.

One safetensors file holds all tensors, and its header the plain values as JSON: a single rename
puts a checkpoint in place, and only the latest is kept.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.fields import parse_json
from dcaplda.runtime.files import replacing
from dcaplda.train.model.tensor_files import Unreadable, read_tensors, tensors_digest
from dcaplda.train.recipe.files import first_difference

CHECKPOINT = "checkpoint.safetensors"
FORMAT = 3
DIGEST = "sha256"


@dataclass(frozen=True)
class Checkpoint:
    """What a file of this name holds, as it was read: nothing is checked yet."""

    path: Path
    tensors: dict[str, Tensor]
    values: Any


def save_checkpoint(directory: Path, tensors: Mapping[str, Tensor], values: Any) -> None:
    """Write the state beside its place and rename it; `values` must be JSON."""
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = save(content, metadata=checkpoint_header(content, json.dumps(values)))
    target = directory / CHECKPOINT
    with named_errors(target), replacing(target) as path, open(path, "wb") as stream:
        stream.write(data)
        stream.flush()
        # The log's length is in the checkpoint: neither may reach the disk without the other.
        os.fsync(stream.fileno())


def checkpoint_header(tensors: Mapping[str, Tensor], state: str) -> dict[str, str]:
    """What stands before the tensors: the plain values, and a hash over everything."""
    return {"format": str(FORMAT), "state": state, DIGEST: tensors_digest(tensors, state)}


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Give errors of writing (a full disk) the name of the file, which Python leaves out."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def load_checkpoint(directory: Path) -> Checkpoint | None:
    """The latest state, or None where there is none yet."""
    path = directory / CHECKPOINT
    if not path.is_file():
        return None
    try:
        tensors, header = read_tensors(path)
        if header.get("format") != str(FORMAT):
            raise ModelError(
                f"{path}: not a checkpoint, or written by another version; go on with that "
                "version, or remove it to start again"
            )
        values = parse_json(header["state"])
    except (Unreadable, KeyError, ValueError) as error:
        raise ModelError(
            f"{path}: not a checkpoint ({error}); remove it to start from the beginning"
        ) from None
    if header.get(DIGEST) != tensors_digest(tensors, header["state"]):
        raise ModelError(
            f"{path}: damaged (not as it was written); put a copy of it back, or remove it to "
            "start from the beginning"
        )
    return Checkpoint(path, tensors, values)


def check_same_run(checkpoint: Checkpoint, current: Mapping[str, Any]) -> None:
    """Refuse to go on with another configuration or other data than the checkpoint's.

    The number of steps may be another one: the steps that were made do not depend on it.
    """
    saved = checkpoint.values.get("identity") if isinstance(checkpoint.values, dict) else None
    if not isinstance(saved, dict):
        return  # damaged, which is told where all of it is looked at
    difference = first_difference(_without_steps(saved), _without_steps(current))
    if difference:
        raise ModelError(
            f"{checkpoint.path} is of another run: {difference}; go on with the settings "
            "it was started with, or train in another directory"
        )


def _without_steps(identity: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: {k: v for k, v in value.items() if k != "steps"}
        if key.startswith("stage") and isinstance(value, Mapping)
        else value
        for key, value in identity.items()
    }


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under names that start with `prefix.`."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def unprefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix.`, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
