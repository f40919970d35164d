"""Small models with random weights."""

from typing import Any

import torch

from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig

DIM = 24


def random_model(variant: str, seed: int = 0, **settings: Any) -> Backend:
    """A model, of 24-dimensional embeddings unless said, whose every parameter matters."""
    sizes = {"embedding_dim": DIM, "lda_dim": 12, "side_hidden_dim": 9, "side_info_dim": 3}
    model = Backend(ModelConfig(variant=variant, **{**sizes, **settings}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            stage = "dur" in name or "_side" in name
            noise = torch.randn(parameter.shape, generator=generator)
            parameter.add_((0.1 if stage else 1.0) * noise)
    return model
