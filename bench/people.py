"""A million simulated people at the paper's sizes: a model of whose world they are drawn.

Between- and within-speaker variances fall from axis to axis as in a trained model, so that clear
matches and hopeless ones are both common; utterances are short and long, and calibration
depends on durations and side-information.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from models import paper_model
from numpy.typing import NDArray

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend
from dcaplda.train.plda.form import plda_form

Float32 = NDArray[np.float32]
EMBEDDING, AXES = 512, 300
SHARES = (0.75, 0.08)
"""Part of the variance that is the speaker's, on the first and on the last axis, in 60 s."""
SHORT = 8.0
"""Seconds at which noise of the sample doubles the within-speaker variance."""
AT_ONCE = 20_000


class World:
    """People of a model: voices are drawn from its PLDA, embeddings are what it projects back."""

    def __init__(self, variant: str = "d-plda-dsd", threads: int = 1, seed: int = 0) -> None:
        self.seed = seed
        self.share = np.geomspace(*SHARES, AXES)
        model = paper_model(variant, seed)
        rng = np.random.default_rng(seed)
        turn = np.linalg.qr(rng.standard_normal((AXES, AXES)))[0]
        form = plda_form(
            np.diag(AXES / self.share), np.diag(AXES / (1 - self.share)), np.zeros(AXES)
        )
        with torch.no_grad():
            model.plda.cross.copy_(torch.tensor(turn @ form.cross @ turn.T))
            model.plda.auto.copy_(torch.tensor(turn @ form.auto @ turn.T))
            model.plda.linear.zero_()
            model.plda.offset.copy_(torch.tensor(form.offset))
            _set_calibration(model, rng)
            weight = model.preprocess.weight.double().numpy()
            bias = model.preprocess.bias.double().numpy()
        # The embedding behind a voice is only known up to what LDA drops: that part is drawn.
        inverse = np.linalg.pinv(weight)
        self._back = (inverse @ turn).astype(np.float32)
        self._origin = (-inverse @ bias).astype(np.float32)
        left = np.linalg.svd(weight)[2][AXES:]
        self._dropped = left.astype(np.float32)
        directory = Path(tempfile.mkdtemp()) / variant
        export_model(model, directory)
        self.backend = Backend.load(directory, threads=threads)

    def voiceprints(self, people: range, occasion: int) -> Float32:
        """One utterance of each of some people; the same numbers give the same utterances."""
        made = [self._some(part, occasion) for part in _parts(people)]
        return np.concatenate(made)

    def _some(self, people: range, occasion: int) -> Float32:
        rng = np.random.default_rng([self.seed, people.start])
        voice = rng.standard_normal((len(people), AXES), np.float32)
        voice *= np.sqrt(self.share).astype(np.float32)
        rng = np.random.default_rng([self.seed, people.start, 1 + occasion])
        seconds = np.exp(rng.uniform(np.log(4), np.log(240), len(people))).astype(np.float32)
        spread = np.sqrt(1 - self.share).astype(np.float32)
        noise = rng.standard_normal(voice.shape, np.float32) * spread
        heard = voice + noise * np.sqrt(1 + SHORT / seconds)[:, None]
        rest = rng.standard_normal((len(people), len(self._dropped)), np.float32)
        embeddings = heard @ self._back.T + self._origin + rest @ self._dropped
        return self.backend.voiceprints(embeddings, seconds)


def _parts(people: range) -> Iterator[range]:
    assert people.start % AT_ONCE == 0, "whole parts are drawn"
    for begin in range(people.start, people.stop, AT_ONCE):
        yield range(begin, min(begin + AT_ONCE, people.stop))


def _set_calibration(model: torch.nn.Module, rng: np.random.Generator) -> None:
    """Scales between about 0.6 and 1.1, larger for long utterances; shifts of one or two."""
    for name in ("scale_dur", "shift_dur", "scale_side", "shift_side"):
        form = getattr(model, name, None)
        if form is None:
            continue
        size = {"scale_dur": 0.002, "shift_dur": 0.02, "scale_side": 0.02, "shift_side": 0.2}[name]
        for parameter in (form.cross, form.auto, form.linear):
            noise = size * rng.standard_normal(parameter.shape)
            parameter.copy_(torch.tensor(noise))
        form.offset.fill_(0.0 if "shift" in name else 1.0)
    if getattr(model, "scale_dur", None) is not None:
        model.scale_dur.offset.fill_(0.6)
        model.scale_dur.linear.fill_(0.04)
