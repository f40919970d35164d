"""Start values of a backend: weighted LDA, weighted PLDA, global calibration (paper, 4.2.1).

Before the first step every variant is PLDA with a global calibration (or, with
`duration_start = "fitted"`, one that depends on the durations); what is random has no effect on
the output yet. Nothing here depends on the run's seed but that random part.
"""

from dataclasses import dataclass, replace

import torch

from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.axes import AxisScore
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import VARIANTS, ModelConfig
from dcaplda.train.model.quadratic import Quadratic
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.plda.generative import Generative, fit_generative
from dcaplda.train.plda.lda import Lda
from dcaplda.train.recipe.sections import InitSection, ModelSection, TrainingConfig
from dcaplda.train.start.calibration import (
    fit_duration_stage,
    fit_global,
    score_calibration_trials,
)
from dcaplda.train.start.joint import Say, find_joint_start, silent
from dcaplda.train.start.joint_steps import set_axes


@dataclass(frozen=True)
class Start:
    """All start values that are not random."""

    generative: Generative
    scale: float
    shift: float
    notes: list[str]
    """What the user should know, such as a covariance that had to be shrunk."""
    duration_stage: tuple[PldaForm, PldaForm] | None = None
    """Scale and shift of the duration stage where they are fitted."""
    joint: JointScorer | None = None
    """Place, speaker and sample, of a joint model."""
    across: tuple[PldaForm, PldaForm] | None = None
    """Scale and shift of its trials between two places."""
    within: tuple[PldaForm, PldaForm] | None = None
    """Scale and shift of its trials within one recording."""
    places: dict[str, float] | None = None
    """Miscalibration to expect at a new place, before and after adaptation."""


def too_wide(section: ModelSection, embedding_dim: int) -> dict[str, int]:
    """Projections that are wider than the embeddings, by the name of their setting."""
    keys = ["lda_dim"]
    if VARIANTS[section.variant].side_stage:
        keys.append("side_hidden_dim")
    values = {f"model.{key}": getattr(section, key) for key in keys}
    return {key: value for key, value in values.items() if value > embedding_dim}


def find_start(data: TrainingData, config: TrainingConfig, say: Say = silent) -> Start:
    """Everything of the start that is not random; float64 throughout.

    `say` hears how far a joint model's steps are.
    """
    notes: list[str] = []
    if config.model.lda_dim > data.n_speakers - 1:
        notes.append(
            f"lda_dim = {config.model.lda_dim} with {data.n_speakers} speakers: only "
            f"{data.n_speakers - 1} directions can separate speakers"
        )
    generative = fit_generative(data, config.init, config.model.lda_dim, notes)
    if config.model.joint:
        found = find_joint_start(generative, data, config, notes, say)
        forms = found.same, found.scorer, found.across, found.within
        return Start(generative, 1.0, 0.0, notes, *forms, places=found.places)
    prior = config.init.calibration_prior or config.objective.prior
    trials = score_calibration_trials(generative, data, config)
    scale, shift = fit_global(trials, prior, notes)
    stage: tuple[PldaForm, PldaForm] | None = None
    if config.init.duration_start == "fitted" and VARIANTS[config.model.variant].duration_stage:
        stage = fit_duration_stage(trials, data, config.model, prior, (scale, shift), notes)
    return Start(generative, scale, shift, notes, stage)


def build_model(
    start: Start, model_config: ModelConfig, section: InitSection, seed: int
) -> Backend:
    """A backend with these start values; `seed` decides A_z (and A_m if that is random)."""
    if start.joint is not None and start.joint.trained is not None:
        model_config = replace(model_config, trained_places=len(start.joint.trained.shift))
    model = Backend(model_config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        weight, bias = start.generative.lda.first(model_config.lda_dim)
        if start.joint is not None:  # its steps have moved them
            weight, bias = start.joint.weight, start.joint.bias
        model.preprocess.weight.copy_(torch.from_numpy(weight))
        model.preprocess.bias.copy_(torch.from_numpy(bias))
        if isinstance(model.plda, AxisScore):
            assert start.joint is not None, "a joint model starts from a joint scorer"
            set_axes(model.plda, start.joint)
        else:
            _set_form(model.plda, start.generative.form)
        _set_calibration(model, start.scale, start.shift)
        if start.duration_stage is not None:
            assert model.scale_dur is not None and model.shift_dur is not None
            _set_form(model.scale_dur, start.duration_stage[0])
            _set_form(model.shift_dur, start.duration_stage[1])
        if start.across is not None:
            _set_form(model.scale_across, start.across[0])
            _set_form(model.shift_across, start.across[1])
        if start.within is not None:
            _set_form(model.scale_within, start.within[0])
            _set_form(model.shift_within, start.within[1])
        if model_config.stages.side_stage:
            _set_side_branch(model, start.generative.lda, section, generator)
    set_trainable(model)
    return model


def set_trainable(model: Backend) -> None:
    """Frozen variants keep LDA and PLDA and train what calibrates."""
    for part in (model.preprocess, model.plda):
        part.requires_grad_(not model.config.stages.frozen)
    if model.config.joint:
        for part in (model.scale_across, model.shift_across):
            part.requires_grad_(False)
    if model.config.recordings:
        for part in (model.scale_within, model.shift_within):
            part.requires_grad_(False)


def _set_form(quadratic: Quadratic, form: PldaForm) -> None:
    quadratic.cross.copy_(torch.from_numpy(form.cross))
    quadratic.auto.copy_(torch.from_numpy(form.auto))
    quadratic.linear.copy_(torch.from_numpy(form.linear))
    quadratic.offset.fill_(form.offset)


def _set_calibration(model: Backend, scale: float, shift: float) -> None:
    """The paper's three cases: the first stage that exists takes the global calibration."""
    for scale_form, shift_form in (
        (model.scale_dur, model.shift_dur),
        (model.scale_side, model.shift_side),
    ):
        if isinstance(scale_form, Quadratic) and isinstance(shift_form, Quadratic):
            scale_form.offset.fill_(scale)
            shift_form.offset.fill_(shift)
            scale, shift = 1.0, 0.0  # a later stage passes the score through
    if model.scale_dur is None and model.scale_side is None:
        model.scale.fill_(scale)
        model.shift.fill_(shift)


def _set_side_branch(
    model: Backend, lda: Lda, section: InitSection, generator: torch.Generator
) -> None:
    rows = len(model.side_projection.bias)
    if section.side_init == "random":
        noise = torch.randn(model.side_projection.weight.shape, generator=generator)
        model.side_projection.weight.copy_(section.side_std * noise)
    else:
        weight, bias = lda.last(rows) if section.side_init == "last" else lda.first(rows)
        model.side_projection.weight.copy_(torch.from_numpy(weight.copy()))
        model.side_projection.bias.copy_(torch.from_numpy(bias.copy()))
    noise = torch.randn(model.side_reduction.weight.shape, generator=generator)
    model.side_reduction.weight.copy_(section.side_std * noise)
