"""Cosine scoring as a bundle: the model's own arithmetic with nothing trained in it.

With A_p = I, m_p = -mean and Lambda = I / 2, eq. 4 and 9 give the cosine of the two centred
embeddings; the global calibration (eq. 16) makes an LLR of it where one is given.
"""

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.model.quadratic import Quadratic


def cosine_model(mean: NDArray[np.floating], alpha: float = 1.0, beta: float = 0.0) -> Backend:
    """A model whose LLR is alpha * cosine + beta, for embeddings of the size of `mean`."""
    dim = len(mean)
    model = Backend(ModelConfig(embedding_dim=dim, lda_dim=dim, variant="plda"))
    with torch.no_grad():
        model.preprocess.weight.copy_(torch.eye(dim))
        model.preprocess.bias.copy_(torch.tensor(-np.asarray(mean, np.float64)))
        cast(Quadratic, model.plda).cross.copy_(0.5 * torch.eye(dim))
        model.scale.fill_(alpha)
        model.shift.fill_(beta)
    return model
