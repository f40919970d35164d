"""A torch model on disk: safetensors weights beside a JSON of the configuration; no pickle."""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.files import replacing
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig

WEIGHTS = "model.safetensors"
CONFIG = "model_config.json"


def save_model(model: Backend, directory: str | Path) -> None:
    """Write WEIGHTS and CONFIG into `directory`, which is made if need be."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    with replacing(target / WEIGHTS) as path:
        # Written by Python, so that a full disk is an OSError like everywhere else.
        path.write_bytes(save(state))
    with replacing(target / CONFIG) as path:
        path.write_text(json.dumps(model.config.to_dict(), indent=2) + "\n", encoding="utf-8")


def load_model(directory: str | Path) -> Backend:
    """Read a model that save_model wrote; a foreign or damaged one is a ModelError."""
    source = Path(directory)
    for name in (CONFIG, WEIGHTS):
        if not (source / name).is_file():
            raise ModelError(f"{source}: has no {name}; is it a directory that training wrote?")
    try:
        values = json.loads((source / CONFIG).read_text(encoding="utf-8"))
        config = ModelConfig.from_dict(values, place=str(source / CONFIG))
    except (ValueError, TypeError) as error:
        raise ModelError(f"{source / CONFIG}: not a model configuration ({error})") from None
    model = Backend(config)
    try:
        state = load_file(str(source / WEIGHTS))
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{source / WEIGHTS}: not a safetensors file ({error})") from None
    load_state(model, state, str(source / WEIGHTS))
    return model


def load_state(model: Backend, state: dict[str, torch.Tensor], place: str) -> None:
    """Copy tensors into a model after checking names, shapes and values."""
    expected = model.state_dict()
    for name, value in expected.items():
        if name not in state:
            raise ModelError(f"{place}: tensor '{name}' is missing for {model.config.variant}")
        if state[name].shape != value.shape:
            found, wanted = tuple(state[name].shape), tuple(value.shape)
            raise ModelError(f"{place}: '{name}' has shape {found}, expected {wanted}")
        if not torch.isfinite(state[name]).all():
            raise ModelError(f"{place}: '{name}' holds NaN or infinite values; train it again")
    extra = sorted(set(state) - set(expected))
    if extra:
        raise ModelError(f"{place}: unexpected tensor '{extra[0]}' for {model.config.variant}")
    model.load_state_dict(state)
