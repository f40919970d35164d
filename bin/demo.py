"""The demonstration of `make demo`: a known world, its model, a bundle, scores, figures."""

import tempfile
from pathlib import Path

import numpy as np
import torch

from dcaplda.eval.metrics import cllr, eer
from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.train.config import ModelConfig
from dcaplda.train.model import Backend as TorchBackend
from dcaplda.train.plda import plda_form

DIM, SPEAKERS, PER_SPEAKER = 40, 200, 3


def main() -> int:
    """Draw speakers, build the PLDA of their true covariances, export, score, print."""
    rng = np.random.default_rng(0)
    spread, noise = np.linspace(2.0, 0.2, DIM), np.full(DIM, 0.8)
    speakers = rng.standard_normal((SPEAKERS, DIM)) * np.sqrt(spread)
    owner = np.repeat(np.arange(SPEAKERS), PER_SPEAKER)
    vectors = speakers[owner] + rng.standard_normal((len(owner), DIM)) * np.sqrt(noise)

    model = TorchBackend(ModelConfig(embedding_dim=DIM, lda_dim=DIM, variant="plda"))
    # Length normalization divides by about sqrt(total variance); the covariances follow it.
    total = float((spread + noise).sum())
    form = plda_form(np.diag(total / spread), np.diag(total / noise), np.zeros(DIM))
    with torch.no_grad():
        model.preprocess.weight.copy_(torch.eye(DIM))
        for name in ("cross", "auto", "linear", "offset"):
            getattr(model.plda, name).copy_(torch.tensor(getattr(form, name)))
    with tempfile.TemporaryDirectory() as folder:
        worst = max(export_model(model, Path(folder) / "model").values())
        backend = Backend.load(Path(folder) / "model")
        prints = backend.voiceprints(vectors)
        llrs = backend.compare(prints, prints)
    same = owner[:, None] == owner[None, :]
    once = np.triu(np.ones_like(same), 1)
    target, nontarget = llrs[same & once], llrs[~same & once]
    print(f"exported a plda bundle; graphs equal torch within {worst:.1e}")
    print(f"scored {len(target)} target and {len(nontarget)} nontarget trials")
    print(f"EER {100 * eer(target, nontarget):.2f} %   Cllr {cllr(target, nontarget, 0.5):.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
