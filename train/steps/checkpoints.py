"""A training run's whole state in one file, so that a killed run goes on as if nothing happened.

One safetensors file holds all tensors, and its header the plain values as JSON: a single rename
puts a checkpoint in place, and only the latest is kept.
"""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.files import replacing
from dcaplda.train.recipe.files import first_difference

CHECKPOINT = "checkpoint.safetensors"
FORMAT = 1


def save_checkpoint(directory: Path, tensors: Mapping[str, Tensor], values: Any) -> None:
    """Write the state beside its place and rename it; `values` must be JSON."""
    header = {"format": str(FORMAT), "state": json.dumps(values)}
    content = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data = save(content, metadata=header)
    target = directory / CHECKPOINT
    with named_errors(target), replacing(target) as path, open(path, "wb") as stream:
        stream.write(data)
        stream.flush()
        # The log's length is in the checkpoint: neither may reach the disk without the other.
        os.fsync(stream.fileno())


@contextlib.contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Give errors of writing (a full disk) the name of the file, which Python leaves out."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def load_checkpoint(directory: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The latest state, or None where there is none yet."""
    path = directory / CHECKPOINT
    if not path.is_file():
        return None
    try:
        with safe_open(str(path), framework="pt") as content:
            header = content.metadata() or {}
            values = json.loads(header["state"])
            tensors = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise ModelError(
            f"{path}: not a checkpoint ({error}); remove it to start from the beginning"
        ) from None
    if header.get("format") != str(FORMAT):
        raise ModelError(f"{path}: written by another version; remove it to start again")
    return tensors, values


def check_same_run(directory: Path, saved: Mapping[str, Any], current: Mapping[str, Any]) -> None:
    """Refuse to go on with another configuration or other data than the checkpoint's."""
    difference = first_difference(saved, current)
    if difference:
        raise ModelError(
            f"{directory / CHECKPOINT} is of another run: {difference}; go on with the settings "
            "it was started with, or train in another directory"
        )


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under names that start with `prefix.`."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def unprefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix.`, without it."""
    start = f"{prefix}."
    return {name[len(start) :]: t for name, t in tensors.items() if name.startswith(start)}
