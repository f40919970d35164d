"""One model out of many met in stages 2 and 3: a running average, or the average of the best.

Models of one run differ little, so that the average of their parameters is again a model. An
average is taken only where it is better on the development sets than the best single model; where
there are none, the running average is the result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from dcaplda.train.recipe.sections import AveragingSection
from dcaplda.train.steps.checkpoints import prefixed, unprefixed

Parameters = dict[str, Tensor]
Judge = Callable[[Parameters], float]


@dataclass
class Candidate:
    """Parameters and what they reached on the development sets."""

    loss: float
    parameters: Parameters
    place: dict[str, Any] = field(default_factory=dict)
    """Where it was met: stage and step, or how it was averaged."""


class Averager(Protocol):
    """What the training loop asks of a way of averaging."""

    def start(self, parameters: Parameters) -> None:
        """A stage begins with these parameters."""

    def step(self, parameters: Parameters) -> None:
        """The optimiser made a step."""

    def met(self, parameters: Parameters, loss: float, place: dict[str, Any], judge: Judge) -> None:
        """A model was evaluated."""

    def best(self, judge: Judge) -> Candidate | None:
        """The best average, if there is any."""

    def last(self) -> Candidate | None:
        """The average as it stands, for runs that nothing judges; None: the last model itself."""

    def state(self) -> tuple[Parameters, Any]:
        """Tensors and JSON values for the checkpoint."""

    def restore(self, tensors: Parameters, values: Any) -> None:
        """Go back to a saved state."""


class NoAverage:
    """The best single model is the result."""

    def start(self, parameters: Parameters) -> None:
        """Nothing to do."""

    def step(self, parameters: Parameters) -> None:
        """Nothing to do."""

    def met(self, parameters: Parameters, loss: float, place: dict[str, Any], judge: Judge) -> None:
        """Nothing to do."""

    def best(self, judge: Judge) -> Candidate | None:
        """No average."""
        return None

    def last(self) -> Candidate | None:
        """No average."""
        return None

    def state(self) -> tuple[Parameters, Any]:
        """No state."""
        return {}, None

    def restore(self, tensors: Parameters, values: Any) -> None:
        """No state."""


class RunningAverage(NoAverage):
    """Exponential moving average of the parameters, evaluated whenever the model is."""

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.average: Parameters = {}
        self.found: Candidate | None = None

    def start(self, parameters: Parameters) -> None:
        """A stage may begin from another model, so the average begins again."""
        self.average = copied(parameters)

    def step(self, parameters: Parameters) -> None:
        """Move the average a little towards the model."""
        with torch.no_grad():
            for name, value in parameters.items():
                self.average[name].lerp_(value, 1.0 - self.decay)

    def met(self, parameters: Parameters, loss: float, place: dict[str, Any], judge: Judge) -> None:
        """Evaluate the average beside the model; keep the best."""
        loss = judge(self.average)
        if self.found is None or loss < self.found.loss:
            self.found = Candidate(loss, copied(self.average), {"average": "ema", **place})

    def best(self, judge: Judge) -> Candidate | None:
        """The best average met."""
        return self.found

    def last(self) -> Candidate | None:
        """The running average, once a stage with it has begun."""
        if not self.average:
            return None
        return Candidate(math.nan, copied(self.average), {"average": "ema"})

    def state(self) -> tuple[Parameters, Any]:
        """The average and the best one."""
        tensors = prefixed("average", self.average)
        if self.found is None:
            return tensors, None
        tensors.update(prefixed("found", self.found.parameters))
        return tensors, {"loss": self.found.loss, "place": self.found.place}

    def restore(self, tensors: Parameters, values: Any) -> None:
        """Go back to a saved state."""
        self.average = unprefixed("average", tensors)
        self.found = None
        if values is not None:
            self.found = Candidate(
                values["loss"], unprefixed("found", tensors), place=values["place"]
            )


class BestAverage(NoAverage):
    """Average of the k best models met; the development sets also decide how many of them."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.models: list[Candidate] = []

    def met(self, parameters: Parameters, loss: float, place: dict[str, Any], judge: Judge) -> None:
        """Keep the model if it is among the k best."""
        if len(self.models) == self.k and loss >= self.models[-1].loss:
            return
        self.models.append(Candidate(loss, copied(parameters), place))
        self.models.sort(key=lambda model: model.loss)
        del self.models[self.k :]

    def best(self, judge: Judge) -> Candidate | None:
        """Average the best two, three, ... k; return the best of these averages."""
        found: Candidate | None = None
        for count in range(2, len(self.models) + 1):
            chosen = [model.parameters for model in self.models[:count]]
            mean = {name: torch.stack([m[name] for m in chosen]).mean(dim=0) for name in chosen[0]}
            loss = judge(mean)
            if found is None or loss < found.loss:
                found = Candidate(loss, mean, {"average": "top-k", "models": count})
        return found

    def state(self) -> tuple[Parameters, Any]:
        """The models kept."""
        tensors: Parameters = {}
        for number, model in enumerate(self.models):
            tensors.update(prefixed(str(number), model.parameters))
        return tensors, [{"loss": m.loss, "place": m.place} for m in self.models]

    def restore(self, tensors: Parameters, values: Any) -> None:
        """Go back to a saved state."""
        self.models = [
            Candidate(value["loss"], unprefixed(str(number), tensors), value["place"])
            for number, value in enumerate(values)
        ]


def make_averager(section: AveragingSection) -> Averager:
    """The way of averaging that the recipe names."""
    if section.average == "ema":
        return RunningAverage(section.ema_decay)
    if section.average == "top-k":
        return BestAverage(section.top_k)
    return NoAverage()


def copied(parameters: Parameters) -> Parameters:
    """A copy that later steps leave alone."""
    return {name: value.detach().clone() for name, value in parameters.items()}
