"""One optimiser step: loss, L2 by parameter name, clipped gradient, Adam."""

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor

from dcaplda.runtime.errors import ModelError
from dcaplda.train.data.batches import Batch
from dcaplda.train.data.disturbances import Disturbance, Disturber
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.picked import home
from dcaplda.train.model.backend import Backend
from dcaplda.train.recipe.sections import ObjectiveSection
from dcaplda.train.steps.held_out import HeldOut, at_held_out_start
from dcaplda.train.steps.loss import batch_loss
from dcaplda.train.steps.memory import keep_freed_memory


def l2_weights(names: list[str], section: ObjectiveSection) -> dict[str, float]:
    """L2 weight of each parameter: the last pattern that matches its name, else the default."""
    weights = dict.fromkeys(names, section.l2)
    for pattern, weight in section.l2_patterns.items():
        for name in names:
            if fnmatchcase(name, pattern):
                weights[name] = weight
    return weights


class Optimizer:
    """Adam on loss_weight * batch size * loss + sum of l2 * |parameter|^2."""

    def __init__(
        self,
        model: Backend,
        data: TrainingData,
        section: ObjectiveSection,
        device: torch.device,
        held_out: HeldOut | None = None,
        disturber: Disturber | None = None,
    ) -> None:
        self.model = model
        self.section = section
        self.device = device
        matrix, places = home(data.embeddings)
        self._embeddings = torch.from_numpy(matrix)
        self._places = None if places is None else torch.from_numpy(places)
        self._seconds = torch.from_numpy(data.seconds)
        self.parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.l2 = l2_weights(list(self.parameters), section)
        # What L2 pulls to; the model has its start values when the optimizer is made.
        self.center = {
            name: parameter.detach().clone()
            for name, parameter in self.parameters.items()
            if section.l2_towards == "start"
        }
        self.held_out = held_out
        self.disturber = disturber
        if device.type == "cpu":
            keep_freed_memory()
        self.restart()

    def restart(self) -> None:
        """Forget Adam's moments."""
        first, second = self.section.betas
        self.adam = torch.optim.Adam(
            list(self.parameters.values()), lr=1.0, betas=(first, second), fused=True
        )

    def set_rate(self, rate: float) -> None:
        """Use another learning rate from now on."""
        for group in self.adam.param_groups:
            group["lr"] = rate

    def step(self, batch: Batch, disturbance: Disturbance | None = None) -> tuple[float, float]:
        """Improve the model on a batch; returns its loss and the gradient's norm before clipping.

        Both are NaN or infinite where the arithmetic broke down; the model is then untouched.
        """
        rows = torch.from_numpy(batch.rows)
        places = rows if self._places is None else self._places[rows]
        embeddings = self._embeddings[places].to(self.device)
        seconds = self._seconds[rows].to(self.device)
        side_kept = None
        if disturbance is not None:
            assert self.disturber is not None
            embeddings, seconds = self.disturber.apply(disturbance, batch, embeddings, seconds)
            if disturbance.side_kept is not None:
                side_kept = torch.from_numpy(disturbance.side_kept).to(self.device)
        self.adam.zero_grad(set_to_none=True)
        with at_held_out_start(self.model, self.held_out, batch.part):
            loss = batch_loss(self.model, embeddings, seconds, batch, self.section.prior, side_kept)
            (loss * (self.section.loss_weight * len(batch.rows))).backward()
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                assert parameter.grad is not None
                pulled = parameter - self.center[name] if self.center else parameter
                parameter.grad.add_(pulled, alpha=2.0 * self.l2[name])
        longest = self.section.clip_norm or math.inf
        norm = torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), longest).item()
        if math.isfinite(loss.item()) and math.isfinite(norm):
            self.adam.step()
        return loss.item(), norm

    def state(self) -> dict[str, Tensor]:
        """Adam's moments by parameter name."""
        tensors = {}
        for name, parameter in self.parameters.items():
            for key, value in self.adam.state.get(parameter, {}).items():
                tensors[f"{name}.{key}"] = value
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to saved moments."""
        self.restart()
        for name, parameter in self.parameters.items():
            keys = ("step", "exp_avg", "exp_avg_sq")
            if f"{name}.step" in tensors:
                state: dict[str, Any] = {}
                for key in keys:
                    value = tensors[f"{name}.{key}"].to(self.device)
                    if key != "step" and value.shape != parameter.shape:
                        raise ModelError(f"checkpoint: '{name}' has another shape")
                    state[key] = value
                self.adam.state[parameter] = state
