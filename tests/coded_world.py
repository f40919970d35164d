"""Small galleries for searches by codes: people whose second utterance is like their first."""

from pathlib import Path

import numpy as np
import torch
from random_models import random_model

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.train.plda.form import plda_form

EMBEDDING, AXES = 40, 30


def mild_bundle(directory: Path, *, likeness: bool = True) -> Backend:
    """A bundle whose scales of calibration are never negative.

    Its score is a PLDA, in which a voice is most like itself; or, without `likeness`, any form,
    with a cross term of both signs.
    """
    sizes = {"embedding_dim": EMBEDDING, "lda_dim": AXES}
    model = random_model("d-plda-dsd", seed=3, **sizes)
    form = plda_form(np.eye(AXES) * AXES / 0.7, np.eye(AXES) * AXES / 0.3, np.zeros(AXES))
    with torch.no_grad():
        if likeness:
            model.plda.cross.copy_(torch.tensor(form.cross))
            model.plda.auto.copy_(torch.tensor(form.auto))
            model.plda.linear.zero_()
            model.plda.offset.fill_(form.offset)
        for name in ("scale_dur", "scale_side", "shift_dur", "shift_side"):
            form = getattr(model, name)
            if form is None:
                continue
            for parameter in (form.cross, form.auto, form.linear):
                parameter.mul_(0.05)
            form.offset.fill_(1.0 if "scale" in name else 0.0)
    export_model(model, directory)
    return Backend.load(directory, threads=1)


def people(backend: Backend, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Voiceprints of two utterances of each."""
    rng = np.random.default_rng(seed)
    voices = rng.standard_normal((count, EMBEDDING))
    made = []
    for _ in range(2):
        heard = voices + 0.2 * rng.standard_normal(voices.shape)
        made.append(backend.voiceprints(heard, rng.uniform(4.0, 200.0, count)))
    return made[0], made[1]
