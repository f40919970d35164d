"""Whole models without each part, kept for the contest and for the verdict that follows it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dcaplda.train.auto.parts import DomainTrials, Scored, Turn, score_part, turns_of
from dcaplda.train.auto.turns import corrected, model_without, told
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.backend import Backend
from dcaplda.train.recipe.auto import with_values
from dcaplda.train.recipe.files import config_to_toml
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.steps.averaging import Parameters, copied

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Trained:
    turn: Turn
    model: Backend
    results: dict[int, Parameters]
    """By the steps of stage 1."""


class WholeModels:
    """Trains a recipe without each part once, however often it is asked for."""

    def __init__(self, data: TrainingData, device: torch.device, say: Say) -> None:
        self.data = data
        self.device = device
        self.say = say
        self._trained: dict[str, list[_Trained]] = {}
        self._scored: dict[str, tuple[Scored, Scored]] = {}

    def train(self, config: TrainingConfig, lengths: Sequence[int] = ()) -> None:
        """Make the models, and what they are after other numbers of steps of stage 1."""
        if _name(config) in self._trained:
            return
        asked = config.stage1.steps
        longest = with_values(config, {"stage1.steps": max([asked, *lengths])})
        shorter = [n for n in {asked, *lengths} if n != longest.stage1.steps]
        found = []
        for turn in turns_of(self.data, config.held_out):
            model, results = model_without(self.data, longest, turn, self.device, shorter)
            results[longest.stage1.steps] = copied(dict(model.named_parameters()))
            found.append(_Trained(turn, model, results))
            trials = self._score(found[-1], asked)
            self.say(told(turn, trials))
        for steps in {asked, *lengths}:
            self._trained[_name(with_values(config, {"stage1.steps": steps}))] = found

    def knows(self, config: TrainingConfig) -> bool:
        """Whether the models are there."""
        return _name(config) in self._trained

    def scored(self, config: TrainingConfig) -> Scored:
        """The trials of each part, as trained; the models are made if they are not there."""
        return self._both(config)[0]

    def judged(self, config: TrainingConfig) -> Scored:
        """The same, as [held_out] calibrate leaves them."""
        return self._both(config)[1]

    def _both(self, config: TrainingConfig) -> tuple[Scored, Scored]:
        name = _name(config)
        if name not in self._scored:
            self.train(config)
            # Trials are large: those of the latest two recipes are kept.
            while len(self._scored) > 1:
                self._scored.pop(next(iter(self._scored)))
            steps = config.stage1.steps
            scored = [(t.turn, self._score(t, steps)) for t in self._trained[name]]
            self._scored[name] = scored, corrected(scored, config)
        return self._scored[name]

    def _score(self, trained: _Trained, steps: int) -> list[DomainTrials]:
        with torch.no_grad():
            for name, own in trained.model.named_parameters():
                own.copy_(trained.results[steps][name])
        rows = trained.turn.part.rows
        return score_part(trained.model, self.data, rows, self.device, named=True)


def _name(config: TrainingConfig) -> str:
    return config_to_toml(config)
