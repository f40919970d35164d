"""A quick look at a way to train: LDA and PLDA without each part, calibrated on the other parts.

The whole way to a model of everything but a part holds out parts of the rest once more, to find its
calibration. Here each part's calibration is fitted to what the other parts show, scored by models
without these: one LDA and PLDA per part and no steps, a tenth of the work. What looks better so
is only a candidate; `contest.py` asks again with whole models.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from dcaplda.eval.metrics.calibration import fit_affine
from dcaplda.runtime.errors import InputError
from dcaplda.train.auto.parts import (
    DomainTrials,
    Rows,
    Scored,
    Turn,
    part_trials,
    score_part,
    training_rows,
    turns_of,
)
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.plda.covariances import Array
from dcaplda.train.plda.generative import Generative, fit_generative
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.start.conditions import duration_features, fit_conditions
from dcaplda.train.start.episodes import Episode, Source, episodes_of_part
from dcaplda.train.start.joint import scorer_without
from dcaplda.train.start.values import Start, build_model

MOST_DOMAINS = 8
"""Parts of domains; each is calibrated on the others, as in the end by all."""
ROUNDS = 2
"""Episodes of each place (init.calibration_rounds)."""


def sieve_turns(data: TrainingData, config: TrainingConfig) -> list[Turn]:
    """The recipe's parts of people, and more parts of domains than it has where there are more."""
    section = config.held_out
    if section.domains:
        groups = int(data.domain_group.max()) + 1
        section = replace(section, domains=max(section.domains, min(MOST_DOMAINS, groups)))
    return turns_of(data, section)


def quick_scores(
    data: TrainingData, config: TrainingConfig, turns: Sequence[Turn], device: torch.device
) -> Scored:
    """LLRs of each part's trials."""
    return (_joint if config.model.joint else _plain)(data, config, turns, device)


def _shares(config: TrainingConfig, turns: Sequence[Turn]) -> list[float]:
    """Weight of a domain of each part in the calibration, as in that of the result."""
    kinds = [turn.kind for turn in turns]
    share = 1.0 if config.held_out.calibrate else config.init.calibration_domains
    if "domain" not in kinds:
        share = 0.0
    if "people" not in kinds:
        share = 1.0
    each = (1.0 - share) / max(1, kinds.count("people"))
    return [share if kind == "domain" else each for kind in kinds]


def _joint(
    data: TrainingData, config: TrainingConfig, turns: Sequence[Turn], device: torch.device
) -> Scored:
    source = Source(data, duration_features(data, config.model))
    fitted, episodes = [], []
    for number, (turn, share) in enumerate(zip(turns, _shares(config, turns), strict=True)):
        generative, scorer = scorer_without(data, turn.part, config)
        # The same episodes for every candidate: their luck is not in the difference.
        rng = np.random.default_rng(number)
        drawn = episodes_of_part(
            source, turn.part, scorer, turn.kind == "domain", share, ROUNDS, rng
        )
        episodes.append([episode for episode in drawn if episode.one_place])
        fitted.append((generative, scorer))
    shape = ModelConfig(embedding_dim=data.embeddings.shape[1], **vars(config.model))
    prior = config.init.calibration_prior or config.objective.prior
    scored = []
    for number, (turn, (generative, scorer)) in enumerate(zip(turns, fitted, strict=True)):
        rest = _rest(episodes, number)
        if not rest:
            raise InputError("the parts held out have too few trials to calibrate a joint model")
        same = fit_conditions(rest, prior, [])
        start = Start(generative, 1.0, 0.0, [], same, scorer, same)
        model = build_model(start, shape, config.init, config.run.seed).to(device)
        scored.append((turn, score_part(model, data, turn.part.rows, device, named=True)))
    return scored


def _rest(episodes: Sequence[list[Episode]], number: int) -> list[Episode]:
    return [e for other, own in enumerate(episodes) if other != number for e in own]


def _plain(
    data: TrainingData, config: TrainingConfig, turns: Sequence[Turn], device: torch.device
) -> Scored:
    raw: list[list[DomainTrials]] = []
    for turn in turns:
        others = data.subset(training_rows(data, turn.part.others, balanced=False))
        fitted = fit_generative(others, config.init, config.model.lda_dim, [])
        raw.append(part_trials(data, turn.part.rows, _scores_of(fitted, data), named=True))
    prior = config.init.calibration_prior or config.objective.prior
    weights = _shares(config, turns)
    scored = []
    for number, (turn, trials) in enumerate(zip(turns, raw, strict=True)):
        others_of = [
            (own, weights[other])
            for other, part in enumerate(raw)
            if other != number and weights[other] > 0
            for own in part
        ]
        if not others_of:
            raise InputError("the parts held out have too few trials to calibrate")
        scale, shift = fit_affine(
            np.concatenate([own.targets for own, _ in others_of]),
            np.concatenate([own.nontargets for own, _ in others_of]),
            prior,
            target_weights=np.concatenate([_even(own.targets, w) for own, w in others_of]),
            nontarget_weights=np.concatenate([_even(own.nontargets, w) for own, w in others_of]),
        )
        scored.append((turn, [own.moved(scale, shift) for own in trials]))
    return scored


def _scores_of(fitted: Generative, data: TrainingData) -> Callable[[Rows], Array]:
    def scores(rows: Rows) -> Array:
        return fitted.scores(data.embeddings[rows])

    return scores


def _even(scores: Array, weight: float) -> Array:
    return np.full(scores.size, weight / scores.size)
