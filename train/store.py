"""A torch model on disk: safetensors weights beside a JSON of the configuration; no pickle."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.fields import parse_json
from dcaplda.runtime.files import replacing
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.model.tensor_files import Unreadable, read_tensors, tensors_digest

WEIGHTS = "model.safetensors"
CONFIG = "model_config.json"


DIGEST = "sha256"


def save_model(model: Backend, directory: str | Path) -> None:
    """Write WEIGHTS and CONFIG into `directory`, which is made if need be."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    config = json.dumps(model.config.to_dict(), indent=2) + "\n"
    with replacing(target / WEIGHTS) as path:
        # Written by Python, so that a full disk is an OSError like everywhere else.
        path.write_bytes(save(state, metadata={DIGEST: tensors_digest(state, config)}))
    with replacing(target / CONFIG) as path:
        path.write_text(config, encoding="utf-8")


def load_model(directory: str | Path) -> Backend:
    """Read a model that save_model wrote; a foreign or damaged one is a ModelError."""
    source = Path(directory)
    for name in (CONFIG, WEIGHTS):
        if not (source / name).is_file():
            raise ModelError(f"{source}: has no {name}; is it a directory that training wrote?")
    content = (source / CONFIG).read_bytes()
    try:
        values = parse_json(content)
    except ValueError as error:
        raise ModelError(f"{source / CONFIG}: not a model configuration ({error})") from None
    config = ModelConfig.from_dict(values, place=str(source / CONFIG))
    try:
        state, metadata = read_tensors(source / WEIGHTS)
    except Unreadable as error:
        raise ModelError(f"{source / WEIGHTS}: not a safetensors file ({error})") from None
    # Models of before have no digest.
    known = metadata.get(DIGEST)
    if known is not None and known != tensors_digest(state, content.decode("utf-8")):
        raise ModelError(
            f"{source}: {WEIGHTS} or {CONFIG} is not as training wrote it; copy the model again"
        )
    return model_of_state(config, state, str(source / WEIGHTS))


def model_of_state(config: ModelConfig, state: Mapping[str, Tensor], place: str) -> Backend:
    """A model with these tensors, once names, shapes and values are known to fit.

    Nothing of its size is made before: a configuration can ask for more than any memory.
    """
    with torch.device("meta"):
        check_state(Backend(config), state, place)
    model = Backend(config)
    model.load_state_dict(dict(state))
    return model


def check_state(model: Backend, state: Mapping[str, Tensor], place: str) -> None:
    """Refuse tensors that are not those of the model, or hold what is no number."""
    expected = model.state_dict()
    for name, value in expected.items():
        if name not in state:
            raise ModelError(f"{place}: tensor '{name}' is missing for {model.config.variant}")
        if state[name].shape != value.shape:
            found, wanted = tuple(state[name].shape), tuple(value.shape)
            raise ModelError(f"{place}: '{name}' has shape {found}, expected {wanted}")
        if not state[name].is_floating_point():
            raise ModelError(f"{place}: '{name}' holds {state[name].dtype}; expected numbers")
        if not torch.isfinite(state[name]).all():
            raise ModelError(f"{place}: '{name}' holds NaN or infinite values; train it again")
    extra = sorted(set(state) - set(expected))
    if extra:
        raise ModelError(f"{place}: unexpected tensor '{extra[0]}' for {model.config.variant}")
