"""Training without evaluation, log or checkpoints: what a part held out is trained with.

The same batches, steps and average as `Trainer` without development sets.
"""

import math

import torch

from dcaplda.runtime.errors import ModelError
from dcaplda.train.data.batches import BatchWalker
from dcaplda.train.data.disturbances import Disturber
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.backend import Backend
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.steps.averaging import Parameters, make_averager
from dcaplda.train.steps.held_out import HeldOut, HeldOutWalker
from dcaplda.train.steps.objective import Optimizer


def train_unwatched(
    model: Backend,
    data: TrainingData,
    config: TrainingConfig,
    device: torch.device,
    held_out: HeldOut | None = None,
) -> None:
    """Make all steps of the recipe; `model` is changed to the result."""
    if not any(stage.steps for stage in config.stages):
        return
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
            batch = walker.next_batch()
            loss, norm = optimizer.step(batch, disturber.draw(batch, walker.rng))
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise ModelError(
                    f"without a part held out: stage {number + 1} step {step + 1}: loss is {loss}, "
                    f"gradient norm {norm}; try a lower rate"
                )
            if number > 0:
                averager.step(parameters)
    average = averager.last()
    if average is not None:
        with torch.no_grad():
            for name, own in parameters.items():
                own.copy_(average.parameters[name])
