"""Start values of a backend: weighted LDA, weighted PLDA, global calibration (paper, 4.2.1).

Before the first step every variant is PLDA with a global calibration; what is random has no
effect on the output yet. Nothing here depends on the run's seed but that random part.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.eval.calibration import fit_affine
from dcaplda.runtime.errors import InputError, ModelError
from dcaplda.train.batches import Batch, BatchWalker, make_batch
from dcaplda.train.config import ModelConfig
from dcaplda.train.covariances import Array, weighted_covariances
from dcaplda.train.data import TrainingData
from dcaplda.train.lda import Lda, fit_lda
from dcaplda.train.model import Backend
from dcaplda.train.plda import PldaForm
from dcaplda.train.plda_em import TwoCovariance, fit_two_covariance
from dcaplda.train.quadratic import Quadratic
from dcaplda.train.training_config import BatchSection, InitSection, TrainingConfig


@dataclass(frozen=True)
class Generative:
    """LDA and PLDA of some training data: a backend without calibration."""

    lda: Lda
    lda_dim: int
    plda: TwoCovariance
    form: PldaForm

    def projected(self, embeddings: NDArray[np.floating]) -> Array:
        """w of eq. 4, in float64."""
        weight, bias = self.lda.first(self.lda_dim)
        return _projected(embeddings, weight, bias)

    def scores(self, embeddings: NDArray[np.floating]) -> Array:
        """Raw score (eq. 9) of each vector against each; (n, n)."""
        return form_scores(self.form, self.projected(embeddings))


@dataclass(frozen=True)
class Start:
    """All start values that are not random."""

    generative: Generative
    scale: float
    shift: float
    notes: list[str]
    """What the user should know, such as a covariance that had to be shrunk."""


def form_scores(form: PldaForm, x: Array) -> Array:
    """Eq. 9 for each vector against each; (n, R) -> (n, n)."""
    own = np.einsum("ij,jk,ik->i", x, form.auto, x, optimize=True) + x @ form.linear
    return 2.0 * x @ form.cross @ x.T + own[:, None] + own[None, :] + form.offset


def _projected(embeddings: NDArray[np.floating], weight: Array, bias: Array) -> Array:
    w = embeddings.astype(np.float64) @ weight.T + bias
    norms: Array = np.linalg.norm(w, axis=1, keepdims=True)
    return w / norms


def fit_generative(
    data: TrainingData, section: InitSection, lda_dim: int, notes: list[str]
) -> Generative:
    """LDA, then PLDA on the projected and length-normalised vectors."""
    if section.subset == "one-per-recording":
        data = data.one_per_recording()
    weights = data.speaker_weights(section.balance)
    covariances = weighted_covariances(data.embeddings, data.speaker, weights)
    lda = fit_lda(covariances, section.lda_shrinkage, notes)
    projected = _projected(data.embeddings, *lda.first(lda_dim))
    statistics = weighted_covariances(projected, data.speaker, weights)
    plda = fit_two_covariance(statistics, section.em_iterations, section.em_min_divergence, notes)
    plda = plda.shrunk(section.shrinkage, section.shrinkage_between)
    return Generative(lda, lda_dim, plda, plda.form(notes))


def calibration_batch(
    data: TrainingData, section: InitSection, batches: BatchSection
) -> NDArray[np.int64]:
    """Rows of the calibration trials: samples of about 1000 speakers, as a batch draws them.

    Where there are fewer speakers the lists go round, which brings in more of their sessions.
    """
    n_lists = len(data.domain_names) if section.balance == "domain" else 1
    size = max(2 * section.calibration_speakers, 2 * n_lists)
    walker = BatchWalker(
        data, replace(batches, size=size, balance=section.balance, repeat_speakers=True), seed=0
    )
    return np.unique(walker.next_batch().rows)


@dataclass
class _Scored:
    """Calibration scores and weights of the two classes, gathered block by block."""

    scores: list[Array]
    weights: list[Array]

    def add(self, scores: Array, mass: float, evenly: bool) -> None:
        """Trials of a block: all together weigh `mass` if `evenly`, else each does."""
        if scores.size:
            self.scores.append(scores)
            self.weights.append(np.full(scores.size, mass / scores.size if evenly else mass))


def _gather(
    generative: Generative, data: TrainingData, batch: Batch, evenly: bool, into: list[_Scored]
) -> None:
    for block in batch.blocks:
        if block.weight == 0:
            continue
        scores = generative.scores(data.embeddings[batch.rows[block.start : block.stop]]).ravel()
        kind = np.zeros(scores.size, dtype=np.int8)  # 0 nontarget, 1 target, 2 neither
        kind[block.targets] = 1
        kind[block.excluded] = 2
        kind = np.where(np.tri(block.size, dtype=bool).ravel(), np.int8(2), kind)  # once per pair
        into[0].add(scores[kind == 1], block.weight, evenly)
        into[1].add(scores[kind == 0], block.weight, evenly)


def _folds(data: TrainingData, n_folds: int) -> NDArray[np.int64]:
    """Fold of each identity: every domain's people spread evenly over the folds."""
    people, first = np.unique(data.identity, return_index=True)
    order = np.random.default_rng(0).permutation(len(people))
    order = order[np.argsort(data.domain[first[order]], kind="stable")]
    folds = np.empty(int(people.max()) + 1, dtype=np.int64)
    folds[people[order]] = np.arange(len(people)) % n_folds
    return folds


def fit_calibration(
    generative: Generative, data: TrainingData, config: TrainingConfig, notes: list[str]
) -> tuple[float, float]:
    """Global (alpha, beta) by linear logistic regression at the training prior (eq. 14-16).

    With folds, each trial is scored by an LDA and PLDA that have not seen its speakers, and
    only pairs of one fold are trials.
    """
    section = config.init
    rows = calibration_batch(data, section, config.batch)
    weights = np.array([config.batch.domain_weights.get(name, 1.0) for name in data.domain_names])
    evenly = section.balance == "domain"
    into = [_Scored([], []), _Scored([], [])]
    if section.calibration_folds == 0:
        _gather(generative, data, make_batch(data, rows, weights), evenly, into)
    else:
        fold = _folds(data, section.calibration_folds)[data.identity]
        for number in range(section.calibration_folds):
            chosen = rows[fold[rows] == number]
            if not chosen.size:
                continue
            others = data.subset(np.flatnonzero(fold != number))
            held_out = fit_generative(others, section, generative.lda_dim, [])
            # Within a fold the shares of the domains are those of the whole.
            _gather(held_out, data, make_batch(data, chosen, weights), evenly, into)
    if not (into[0].scores and into[1].scores):
        raise InputError("calibration: no target or no nontarget trials; use fewer folds")
    target, nontarget = (np.concatenate(part.scores) for part in into)
    target_weights, nontarget_weights = (np.concatenate(part.weights) for part in into)
    scale, shift = fit_affine(
        target,
        nontarget,
        config.objective.prior,
        target_weights=target_weights,
        nontarget_weights=nontarget_weights,
    )
    notes.append(
        f"global calibration: scale {scale:.4f}, shift {shift:.4f}, from {target.size} target and "
        f"{nontarget.size} nontarget trials"
    )
    if not scale > 0:
        raise ModelError(
            f"global calibration has scale {scale:.4g}: PLDA scores do not rise with being the "
            "same speaker; check utt2spk, or reduce lda_dim"
        )
    return scale, shift


def check_sizes(config: ModelConfig) -> None:
    """Refuse projections that are wider than the embeddings."""
    for key in ("lda_dim", "side_hidden_dim"):
        if key == "side_hidden_dim" and not config.stages.side_stage:
            continue
        value = getattr(config, key)
        if value > config.embedding_dim:
            raise ModelError(
                f"model.{key} = {value}: the embeddings have {config.embedding_dim} values; "
                f"set it to at most {config.embedding_dim}"
            )


def find_start(data: TrainingData, config: TrainingConfig) -> Start:
    """Everything of the start that is not random; float64 throughout."""
    notes: list[str] = []
    if config.model.lda_dim > data.n_speakers - 1:
        notes.append(
            f"lda_dim = {config.model.lda_dim} with {data.n_speakers} speakers: only "
            f"{data.n_speakers - 1} directions can separate speakers"
        )
    generative = fit_generative(data, config.init, config.model.lda_dim, notes)
    scale, shift = fit_calibration(generative, data, config, notes)
    return Start(generative, scale, shift, notes)


def build_model(
    start: Start, model_config: ModelConfig, section: InitSection, seed: int
) -> Backend:
    """A backend with these start values; `seed` decides A_z (and A_m if that is random)."""
    model = Backend(model_config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        weight, bias = start.generative.lda.first(model_config.lda_dim)
        model.preprocess.weight.copy_(torch.from_numpy(weight))
        model.preprocess.bias.copy_(torch.from_numpy(bias))
        form = start.generative.form
        model.plda.cross.copy_(torch.from_numpy(form.cross))
        model.plda.auto.copy_(torch.from_numpy(form.auto))
        model.plda.linear.copy_(torch.from_numpy(form.linear))
        model.plda.offset.fill_(form.offset)
        _set_calibration(model, start.scale, start.shift)
        if model_config.stages.side_stage:
            _set_side_branch(model, start.generative.lda, section, generator)
    for part in (model.preprocess, model.plda):
        part.requires_grad_(not model_config.stages.frozen)
    return model


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
