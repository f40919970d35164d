"""Small models with random weights."""

from typing import Any

import numpy as np
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


def written_out(model: Backend, x: np.ndarray) -> np.ndarray:
    """Mahalanobis distances of z among these embeddings, from the torch model itself."""
    with torch.no_grad():
        z = model.side_info(torch.tensor(x, dtype=torch.float32)).double().numpy()
    covariance = np.cov(z, rowvar=False)
    difference = z - z.mean(axis=0)
    # Written out by eigenvectors; what a softmax leaves across its plane is rounding.
    values, vectors = np.linalg.eigh(covariance)
    real = values > 1e-9 * values.max()
    whitened = (difference @ vectors[:, real]) / np.sqrt(values[real])
    return np.linalg.norm(whitened, axis=1)


def statistics(model: Backend, x: np.ndarray, seconds: tuple[float, float] = (4.0, 240.0)) -> dict:
    """What training would record of these embeddings, for the familiarity of a bundle."""
    norms = np.linalg.norm(x, axis=1)
    low, high = np.percentile(norms, [0.05, 99.95])
    told = {
        "durations": {"min": seconds[0], "max": seconds[1]},
        "embedding_norm": {"mean": 1.0, "std": 1.0, "p0.05": low, "p99.95": high},
        "side_information": None,
    }
    if model.config.stages.side_stage:
        with torch.no_grad():
            z = model.side_info(torch.tensor(x, dtype=torch.float32)).double().numpy()
        told["side_information"] = {
            "mean": z.mean(axis=0).tolist(),
            "covariance": np.cov(z, rowvar=False).tolist(),
            "distance_percentiles": {"99.9": float(np.percentile(written_out(model, x), 99.9))},
        }
    return {"statistics": told}
