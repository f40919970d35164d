"""Training without evaluation, log or checkpoints: what a part held out is trained with.

The same batches, steps and average as `Trainer` without development sets.
"""

import math
from collections.abc import Sequence

import torch

from dcaplda.runtime.errors import ModelError
from dcaplda.train.data.batches import BatchWalker
from dcaplda.train.data.disturbances import Disturber
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.backend import Backend
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.steps.averaging import Averager, Parameters, make_averager
from dcaplda.train.steps.held_out import HeldOut, HeldOutWalker
from dcaplda.train.steps.objective import Optimizer


def train_unwatched(
    model: Backend,
    data: TrainingData,
    config: TrainingConfig,
    device: torch.device,
    held_out: HeldOut | None = None,
    shorter: Sequence[int] = (),
) -> dict[int, Parameters]:
    """Make all steps of the recipe; `model` is changed to the result.

    `shorter` are other numbers of steps of stage 1, for recipes that `lengths_are_met` is true of:
    returned are the results of such runs, met on the way.
    """
    if not any(stage.steps for stage in config.stages):
        return {}
    met = _MetOnTheWay(config, shorter)
    seed = config.run.seed
    walker: BatchWalker | HeldOutWalker
    if held_out is None:
        walker = BatchWalker(data, config.batch, seed)
    else:
        walker = HeldOutWalker(data, config.batch, seed, held_out.parts)
    disturber = Disturber(data, config.batch)
    optimizer = Optimizer(model, data, config.objective, device, held_out, disturber)
    averager = make_averager(config.averaging)
    parameters: Parameters = dict(model.named_parameters())
    for number, stage in enumerate(config.stages):
        if not stage.steps:
            continue
        if number == 2:
            optimizer.restart()
        if number > 0:
            averager.start(parameters)
        optimizer.set_rate(stage.rate)
        for step in range(stage.steps):
            met.before(parameters)
            batch = walker.next_batch()
            loss, norm = optimizer.step(batch, disturber.draw(batch, walker.rng))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise ModelError(
                    f"without a part held out: stage {number + 1} step {step + 1}: loss is {loss}, "
                    f"gradient norm {norm}; try a lower rate"
                )
            if number > 0:
                averager.step(parameters)
            met.after(parameters)
    average = averager.last()
    if average is not None:
        with torch.no_grad():
            for name, own in parameters.items():
                own.copy_(average.parameters[name])
    return met.results


def lengths_are_met(config: TrainingConfig) -> bool:
    """Whether a run passes through the results of runs with fewer steps in stage 1.

    So it is where stage 2 goes on as stage 1 did, and its running average is the result.
    """
    one, two, three = config.stages
    averaged = config.averaging.average == "ema" and two.steps > 0
    return averaged and one.rate == two.rate and one.steps > 0 and three.steps == 0


class _MetOnTheWay:
    """Running averages that begin after fewer steps, each as long as stage 2."""

    def __init__(self, config: TrainingConfig, lengths: Sequence[int]) -> None:
        self.section = config.averaging
        self.tail = config.stage2.steps
        self.lengths = set(lengths)
        self.done = 0
        self.open: dict[int, Averager] = {}
        self.results: dict[int, Parameters] = {}

    def before(self, parameters: Parameters) -> None:
        """A step will be made."""
        if self.done in self.lengths:
            self.open[self.done] = make_averager(self.section)
            self.open[self.done].start(parameters)

    def after(self, parameters: Parameters) -> None:
        """A step was made."""
        self.done += 1
        for averager in self.open.values():
            averager.step(parameters)
        ended = self.open.pop(self.done - self.tail, None)
        average = None if ended is None else ended.last()
        if average is not None:
            self.results[self.done - self.tail] = average.parameters
