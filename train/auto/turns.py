"""What models trained without a part of the data reach on that part, and what that teaches.

The result of a run has seen everybody, so that nobody is left to judge it. Models made the same
way without some people, or without whole domains, can be judged, and what they get wrong in scale
and shift the result gets wrong too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from dcaplda.eval.metrics.calibration import fit_affine
from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.train.auto.parts import (
    DomainTrials,
    Scored,
    Turn,
    score_part,
    training_rows,
    turns_of,
)
from dcaplda.train.auto.verdict import verdict
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.model.quadratic import Quadratic
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.start.values import build_model, find_start
from dcaplda.train.steps.averaging import Parameters
from dcaplda.train.steps.held_out import find_held_out
from dcaplda.train.steps.unwatched import train_unwatched

Correction = tuple[float, float]
NONE: Correction = (1.0, 0.0)
TURN_ROUNDS = 6
"""Episodes of each place (init.calibration_rounds) of models that only judge."""


@dataclass(frozen=True)
class HeldOutResult:
    """Figures of every part, a sentence about them, and the correction of the result."""

    parts: list[dict[str, Any]]
    verdict: str
    correction: Correction = NONE
    """Scale and shift of the result's LLRs."""

    def mean(self, key: str) -> float:
        """Mean of a figure over the parts."""
        return float(np.mean([part[key] for part in self.parts]))

    def to_dict(self) -> dict[str, Any]:
        """For training_summary.json."""
        return {
            "parts": self.parts,
            "cllr": self.mean("cllr"),
            "min_cllr": self.mean("min_cllr"),
            "cllr_rare": self.mean("cllr_rare"),
            "verdict": self.verdict,
            "correction": {"scale": self.correction[0], "shift": self.correction[1]},
        }


def take_turns(
    data: TrainingData,
    config: TrainingConfig,
    device: torch.device,
    say: Callable[[str], None],
    known: Scored | None = None,
) -> HeldOutResult | None:
    """Train without each part of the recipe's [held_out]; None where nothing can be measured.

    `known` are the parts' trials where models without them were made already.
    """
    scored = known
    if scored is None:
        scored = score_turns(data, config, turns_of(data, config.held_out), device, say)
    scored = [(turn, trials) for turn, trials in scored if trials]
    if not scored:
        return None
    correction = NONE
    if config.held_out.calibrate:
        correction = find_correction(scored, config.objective.prior)
        if correction == NONE:
            say("held out: the parts do not show how to correct the calibration; it stays")
    judged = corrected(scored, config) if correction != NONE else scored
    parts = [_figures(turn, trials) for turn, trials in judged]
    return HeldOutResult(parts, verdict(parts), correction)


def score_turns(
    data: TrainingData,
    config: TrainingConfig,
    turns: Sequence[Turn],
    device: torch.device,
    say: Callable[[str], None],
) -> Scored:
    """The trials of each part by the recipe's model of everything else."""
    scored = []
    for turn in turns:
        model, _ = model_without(data, config, turn, device)
        trials = score_part(model, data, turn.part.rows, device)
        say(told(turn, trials))
        scored.append((turn, trials))
    return scored


def told(turn: Turn, trials: list[DomainTrials]) -> str:
    """A line of the log."""
    if not trials:
        return f"held out {turn.part.name}: its people make no trials"
    found = np.mean([cllr(t.targets, t.nontargets, 0.5) for t in trials])
    return f"held out {turn.part.name}: Cllr {found:.3f} as it was trained"


def corrected(scored: Scored, config: TrainingConfig) -> Scored:
    """The trials as [held_out] calibrate leaves them, or as they are where it does nothing.

    A part must not be judged by a calibration that has seen it.
    """
    if not config.held_out.calibrate:
        return scored
    found = []
    for turn, trials in scored:
        rest = [(t, x) for t, x in scored if t is not turn]
        scale, shift = find_correction(rest, config.objective.prior) if rest else NONE
        found.append((turn, [own.moved(scale, shift) for own in trials]))
    return found


def model_without(
    data: TrainingData,
    config: TrainingConfig,
    turn: Turn,
    device: torch.device,
    shorter: Sequence[int] = (),
) -> tuple[Backend, dict[int, Parameters]]:
    """The recipe's model of everything but the part, and what it would be with fewer steps.

    `shorter` are numbers of steps of stage 1 (see `train_unwatched`).
    """
    steps = any(stage.steps for stage in config.stages)
    balanced = steps and config.batch.balance == "domain"
    others = data.subset(training_rows(data, turn.part.others, balanced))
    init, batch = config.init, config.batch
    # A verdict needs no better calibration than that, and there are many turns.
    init = replace(init, calibration_rounds=min(TURN_ROUNDS, init.calibration_rounds))
    if others.domain_group.max() == 0:
        init, batch = replace(init, calibration_domains=0.0), replace(batch, held_out_domains=False)
    known = {k: v for k, v in batch.domain_weights.items() if k in others.domain_names}
    # Nor does it compare utterances of one recording.
    section = replace(config.model, recordings=False)
    config = replace(config, model=section, init=init, batch=replace(batch, domain_weights=known))
    shape = ModelConfig(embedding_dim=data.embeddings.shape[1], **vars(config.model))
    start = find_start(others, config)
    model = build_model(start, shape, config.init, config.run.seed).to(device)
    held_out = None
    if steps and (config.batch.held_out_folds or config.batch.held_out_domains):
        held_out = find_held_out(others, config, start.generative, device)
    return model, train_unwatched(model, others, config, device, held_out, shorter)


def find_correction(scored: Scored, prior: float) -> Correction:
    """Scale and shift that the domains held out ask for, every domain counting the same.

    Whole domains where there are any: what people of a known domain ask for does not hold where
    nobody has trained, while the other way round little is lost.
    """
    kinds = {turn.kind for turn, _ in scored}
    kind = "domain" if "domain" in kinds else "people"
    trials = [t for turn, found in scored if turn.kind == kind for t in found]
    if not trials:
        return NONE
    scale, shift = fit_affine(
        np.concatenate([t.targets for t in trials]),
        np.concatenate([t.nontargets for t in trials]),
        prior,
        target_weights=np.concatenate([_even(t.targets.size) for t in trials]),
        nontarget_weights=np.concatenate([_even(t.nontargets.size) for t in trials]),
    )
    return (scale, shift) if scale > 0 and np.isfinite([scale, shift]).all() else NONE


def _even(count: int) -> Any:
    return np.full(count, 1.0 / count)


def _figures(turn: Turn, trials: list[DomainTrials]) -> dict[str, Any]:
    """Means over the part's domains of actual and minimum Cllr at 0.5, and actual at 0.01."""
    rows = []
    for own in trials:
        targets, nontargets = own.targets, own.nontargets
        rows.append(
            (
                cllr(targets, nontargets, 0.5),
                min_cllr_lin(targets, nontargets, 0.5),
                cllr(targets, nontargets, 0.01),
                min_cllr_lin(targets, nontargets, 0.01),
            )
        )
    means = np.mean(rows, axis=0)
    return {
        "name": turn.part.name,
        "kind": turn.kind,
        "cllr": float(means[0]),
        "min_cllr": float(means[1]),
        "cllr_rare": float(means[2]),
        "min_cllr_rare": float(means[3]),
        "targets": sum(t.targets.size for t in trials),
        "nontargets": sum(t.nontargets.size for t in trials),
    }


@torch.no_grad()
def correct(model: Backend, correction: Correction) -> None:
    """Make every LLR of the model scale * LLR + shift, in its last calibration stage."""
    scale, shift = correction
    last = [(model.scale_dur, model.shift_dur), (model.scale_side, model.shift_side)]
    stages = [(a, b) for a, b in last if a is not None and b is not None]
    if not stages:
        model.scale.mul_(scale)
        model.shift.mul_(scale).add_(shift)
        return
    for form in stages[-1]:
        _multiply(form, scale)
    stages[-1][1].offset.add_(shift)


def _multiply(form: Quadratic, factor: float) -> None:
    for values in (form.cross, form.auto, form.linear, form.offset):
        values.mul_(factor)
