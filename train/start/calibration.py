"""Calibration of the start: global (eq. 14-16), and of the duration stage (eq. 21, 22).

The trials may be scored by an LDA and PLDA that have not seen their speakers, or not even their
domains: scores of a PLDA's own speakers are far too good, and a calibration fitted to them far
too sure of itself.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.eval.metrics.calibration import fit_affine
from dcaplda.runtime.decision import log_odds
from dcaplda.runtime.errors import InputError, ModelError
from dcaplda.train.data.batches import Batch, BatchWalker, make_batch
from dcaplda.train.data.folds import domain_parts, speaker_parts
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model import durations
from dcaplda.train.model.ops import TORCH
from dcaplda.train.plda.covariances import Array
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.plda.generative import Generative, fit_generative
from dcaplda.train.recipe.sections import (
    BatchSection,
    InitSection,
    ModelSection,
    TrainingConfig,
)

# Pull of the duration stage's fit towards the global calibration, per unit of a standardized
# term; only enough to decide between terms that the trials cannot tell apart.
RIDGE = 1e-9
NEWTON_STEPS = 50
# Trials of a block that this fit takes of each class; a dozen parameters need no more.
MOST_OF_BLOCK = 10_000


@dataclass
class ScoredTrials:
    """Calibration trials of one class, gathered block by block."""

    scores: list[Array]
    pairs: list[NDArray[np.int64]]
    """Rows of the training data, (n, 2)."""
    weights: list[Array]

    def add(self, scores: Array, pairs: NDArray[np.int64], mass: float, evenly: bool) -> None:
        """Trials of a block: all together weigh `mass` if `evenly`, else each does."""
        if scores.size:
            self.scores.append(scores)
            self.pairs.append(pairs)
            self.weights.append(np.full(scores.size, mass / scores.size if evenly else mass))

    def joined(self) -> tuple[Array, NDArray[np.int64], Array]:
        """Scores, pairs and weights of all blocks."""
        return (
            np.concatenate(self.scores),
            np.concatenate(self.pairs),
            np.concatenate(self.weights),
        )

    def thinned(self, most: int) -> "ScoredTrials":
        """At most `most` trials of each block, at even distances; a block keeps its weight."""
        thin = ScoredTrials([], [], [])
        for scores, pairs, weights in zip(self.scores, self.pairs, self.weights, strict=True):
            step = -(-scores.size // most)
            kept = weights[::step]
            thin.scores.append(scores[::step])
            thin.pairs.append(pairs[::step])
            thin.weights.append(kept * (weights.sum() / kept.sum()))
        return thin


def calibration_batch(
    data: TrainingData, section: InitSection, batches: BatchSection
) -> NDArray[np.int64]:
    """Rows of the calibration trials: samples of about 1000 speakers, as a batch draws them.

    Where there are fewer speakers the lists go round, which brings in more of their sessions.
    """
    balance = "flat" if section.balance == "flat" else "domain"
    n_lists = len(data.domain_names) if balance == "domain" else 1
    size = max(2 * section.calibration_speakers, 2 * n_lists)
    walker = BatchWalker(
        data, replace(batches, size=size, balance=balance, repeat_speakers=True), seed=0
    )
    return np.unique(walker.next_batch().rows)


def _gather(
    generative: Generative,
    data: TrainingData,
    batch: Batch,
    mass: float,
    evenly: bool,
    into: tuple[ScoredTrials, ScoredTrials],
) -> None:
    for block in batch.blocks:
        if block.weight == 0:
            continue
        rows = batch.rows[block.start : block.stop]
        scores = generative.scores(data.embeddings[rows]).ravel()
        kind = np.zeros(scores.size, dtype=np.int8)  # 0 nontarget, 1 target, 2 neither
        kind[block.targets] = 1
        kind[block.excluded] = 2
        kind = np.where(np.tri(block.size, dtype=bool).ravel(), np.int8(2), kind)  # once per pair
        # The block's weight is one trial's; evenly, a block of several domains counts as they do.
        n_domains = len(np.unique(data.domain[rows]))
        weight = mass * block.weight * (n_domains**2 if evenly else 1.0)
        for trials, wanted in zip(into, (1, 0), strict=True):
            chosen = np.flatnonzero(kind == wanted)
            one, other = np.divmod(chosen, block.size)
            trials.add(scores[chosen], np.stack([rows[one], rows[other]], 1), weight, evenly)


def score_calibration_trials(
    generative: Generative, data: TrainingData, config: TrainingConfig
) -> tuple[ScoredTrials, ScoredTrials]:
    """Targets and nontargets; with held-out parts only pairs of one part are trials."""
    section, share = config.init, config.init.calibration_domains
    rows = calibration_batch(data, section, config.batch)
    weights = np.array([config.batch.domain_weights.get(name, 1.0) for name in data.domain_names])
    groups = data.domain_group if config.batch.across_domains else None
    evenly = section.balance != "flat"
    found = ScoredTrials([], [], []), ScoredTrials([], [], [])
    plans = []
    if share < 1 and section.calibration_folds:
        parts = speaker_parts(data, section.calibration_folds)
        plans += [(part, (1.0 - share) / len(parts)) for part in parts]
    elif share < 1:
        batch = make_batch(data, rows, weights, groups)
        _gather(generative, data, batch, 1.0 - share, evenly, found)
    if share > 0:
        plans += [(part, share) for part in domain_parts(data)]
    for part, mass in plans:
        chosen = np.intersect1d(rows, part.rows)
        if not chosen.size:
            continue
        held_out = fit_generative(data, section, generative.lda_dim, [], part.others)
        batch = make_batch(data, chosen, weights, groups)
        _gather(held_out, data, batch, mass, evenly, found)
    if not (found[0].scores and found[1].scores):
        raise InputError("calibration: no target or no nontarget trials; use fewer folds")
    return found


def fit_global(
    trials: tuple[ScoredTrials, ScoredTrials], prior: float, notes: list[str]
) -> tuple[float, float]:
    """Global (alpha, beta) by linear logistic regression (eq. 14-16)."""
    (target, _, target_weights), (nontarget, _, nontarget_weights) = (t.joined() for t in trials)
    scale, shift = fit_affine(
        target,
        nontarget,
        prior,
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


def fit_duration_stage(
    trials: tuple[ScoredTrials, ScoredTrials],
    data: TrainingData,
    model: ModelSection,
    prior: float,
    start: tuple[float, float],
    notes: list[str],
) -> tuple[PldaForm, PldaForm]:
    """Scale and shift as second-order forms of the duration features (eq. 21, 22).

    scale * s + shift is linear in the forms' parameters, so the cross-entropy is convex: Newton's
    method finds its minimum.
    """
    parameters = durations.resolve(model.duration_feature, model.duration_parameters)
    seconds = torch.from_numpy(data.seconds.astype(np.float64))
    e = durations.apply(TORCH, model.duration_feature, parameters, seconds).numpy()
    (target, target_pairs, target_weights), (other, other_pairs, other_weights) = (
        t.thinned(MOST_OF_BLOCK).joined() for t in trials
    )
    scores = np.concatenate([target, other])
    pairs = np.concatenate([target_pairs, other_pairs])
    terms = pair_terms(e[pairs[:, 0]], e[pairs[:, 1]])
    weights = np.concatenate(
        [
            prior * target_weights / target_weights.sum(),
            (1.0 - prior) * other_weights / other_weights.sum(),
        ]
    )
    sign = np.where(np.arange(scores.size) < target.size, -1.0, 1.0)
    n_terms = terms.shape[1]
    center = np.zeros(2 * n_terms)
    center[0], center[n_terms] = start
    found = fit_logistic(
        np.concatenate([scores[:, None] * terms, terms], axis=1), sign, weights, prior, center
    )
    lowest = float((terms @ found[:n_terms]).min())
    notes.append(f"duration stage: fitted, lowest scale of a calibration trial {lowest:.4f}")
    if not lowest > 0:
        notes.append(
            "WARNING: at some durations the scale is not above 0; try another duration_feature"
        )
    dim = e.shape[1]
    return terms_form(found[:n_terms], dim), terms_form(found[n_terms:], dim)


def pair_terms(one: Array, other: Array) -> Array:
    """What a second-order form of two sides is linear in; (n, F), (n, F) -> (n, 1 + F + F(F+1))."""
    dim = one.shape[1]
    columns = [np.ones(len(one))] + [one[:, k] + other[:, k] for k in range(dim)]
    for k in range(dim):
        for m in range(k, dim):
            columns.append(one[:, k] * one[:, m] + other[:, k] * other[:, m])
            columns.append(one[:, k] * other[:, m] + (one[:, m] * other[:, k] if m > k else 0.0))
    return np.stack(columns, axis=1)


def terms_form(values: Array, dim: int) -> PldaForm:
    """The form whose value is pair_terms @ values."""
    cross, auto = np.zeros((dim, dim)), np.zeros((dim, dim))
    place = 1 + dim
    for k in range(dim):
        for m in range(k, dim):
            auto[k, m] = auto[m, k] = values[place] * (1.0 if m == k else 0.5)
            cross[k, m] = cross[m, k] = 0.5 * values[place + 1]
            place += 2
    return PldaForm(cross, auto, values[1 : 1 + dim].copy(), float(values[0]))


def fit_logistic(
    terms: Array,
    sign: Array,
    weights: Array,
    prior: float,
    center: Array,
    ridge: float = RIDGE,
    llrs: Array | float = 0.0,
) -> Array:
    """Weighted logistic regression by Newton's method, from `center` and pulled a little to it.

    Minimizes sum_i weights_i log(1 + exp(sign_i (llrs_i + terms_i x + log odds))) in x.
    """
    unit = np.sqrt(np.average(terms**2, axis=0, weights=weights))
    unit[unit == 0] = 1.0
    scaled, home = terms / unit, center * unit
    gamma, x = log_odds(prior) + llrs, home.copy()

    def objective(at: Array) -> float:
        losses = np.logaddexp(0.0, sign * (scaled @ at + gamma))
        return float(weights @ losses + 0.5 * ridge * (at - home) @ (at - home))

    value = objective(x)
    for _ in range(NEWTON_STEPS):
        # tanh: the logistic function without overflow
        error = 0.5 + 0.5 * np.tanh(0.5 * sign * (scaled @ x + gamma))
        gradient = scaled.T @ (weights * sign * error) + ridge * (x - home)
        bend = weights * error * (1.0 - error)
        hessian = (scaled * bend[:, None]).T @ scaled + ridge * np.eye(len(x))
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step < 1e-12:
            break
        while (there := objective(x - step)) > value and np.abs(step).max() > 1e-12:
            step = 0.5 * step
        x, value = x - step, there
    return x / unit
