"""Models of the paper's size for benchmarks: random weights of a plausible scale."""

import tempfile
from pathlib import Path

import numpy as np
import torch

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.train.model import backend as torch_model
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.plda.form import plda_form


def paper_model(variant: str, seed: int = 0) -> torch_model.Backend:
    """D = 512, LDA 300, m 200, z 6, wlog: the paper's sizes, PLDA of a plausible shape."""
    rng = np.random.default_rng(seed)
    config = ModelConfig(embedding_dim=512, variant=variant)
    model = torch_model.Backend(config)
    # After length normalization each of R dimensions has a variance of about 1 / R.
    share = rng.uniform(0.2, 0.8, config.lda_dim)
    form = plda_form(
        np.diag(config.lda_dim / share), np.diag(config.lda_dim / (1 - share)), np.zeros(300)
    )
    turn = np.linalg.qr(rng.standard_normal((config.lda_dim, config.lda_dim)))[0]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 1.0 if "projection" in name or "preprocess" in name else 0.02
            noise = scale * rng.standard_normal(parameter.shape)
            parameter.add_(torch.tensor(noise, dtype=torch.float32))
        model.plda.cross.copy_(torch.tensor(turn @ form.cross @ turn.T))
        model.plda.auto.copy_(torch.tensor(turn @ form.auto @ turn.T))
        model.plda.offset.copy_(torch.tensor(form.offset))
    return model


def joint_model(seed: int = 0) -> torch_model.Backend:
    """D = 512, LDA 300, wlog, joint: the same sizes with several utterances by the book."""
    rng = np.random.default_rng(seed)
    config = ModelConfig(embedding_dim=512, variant="plda-dd", joint=True)
    model = torch_model.Backend(config)
    turn = np.linalg.qr(rng.standard_normal((config.lda_dim, config.lda_dim)))[0]
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 1.0 if "preprocess" in name else 0.02
            noise = scale * rng.standard_normal(parameter.shape)
            parameter.add_(torch.tensor(noise, dtype=torch.float32))
        # Each of R values of a unit vector has a variance of about 1 / R; x wants between + 1.
        model.plda.turn.copy_(torch.tensor(np.sqrt(2.0 * config.lda_dim) * turn))
        model.plda.log_between.copy_(torch.tensor(np.log(rng.uniform(0.2, 2.0, config.lda_dim))))
        model.plda.log_offset.copy_(torch.tensor(np.log(rng.uniform(0.1, 2.0, config.lda_dim))))
        model.plda.length.fill_(np.sqrt(2.0 * config.lda_dim))
    return model


def paper_bundle(variant: str, threads: int | None = None) -> Backend:
    """An exported bundle of that model, opened; its directory lives as long as the process."""
    directory = Path(tempfile.mkdtemp()) / variant
    export_model(joint_model() if variant == "joint" else paper_model(variant), directory)
    return Backend.load(directory, threads=threads)
