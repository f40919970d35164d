"""Is a checkpoint whole? Every tensor and value is looked at before any of them is used.

A checkpoint holds the model (`model.`), Adam's moments (`adam.`), where the batches stand
(`walker.`), the best model (`best.`), averages (`averager.`) and torch's random state (`random`);
the plain values tell which of these there are.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcaplda.runtime.errors import ModelError
from dcaplda.train.steps.checkpoints import Checkpoint, prefixed

MOMENTS = ("step", "exp_avg", "exp_avg_sq")
N_STAGES = 3


def check_checkpoint(
    checkpoint: Checkpoint,
    parameters: Mapping[str, Tensor],
    trained: Mapping[str, Tensor],
    walker: Mapping[str, Tensor] | None,
) -> None:
    """Raise ModelError unless everything is there, of the right shape and type, and finite.

    `parameters` are the model's, `trained` those that steps move, `walker` the state of new
    batches; None where no batch will be drawn.
    """
    try:
        _check_values(checkpoint.values)
        expected = _expected(checkpoint, parameters, trained, walker)
        for name, like in expected.items():
            _check_tensor(name, checkpoint.tensors.get(name), like)
        for name in checkpoint.tensors:
            if name not in expected and not (walker is None and name.startswith("walker.")):
                raise ModelError(f"'{name}' is not a part of this run")
    except ModelError as error:
        raise damaged(checkpoint, str(error)) from None


def damaged(checkpoint: Checkpoint, reason: str) -> ModelError:
    """What is wrong with a checkpoint, and what to do about it."""
    return ModelError(
        f"{checkpoint.path}: damaged ({reason}); put a copy of it back, or remove it to start "
        "from the beginning"
    )


def _expected(
    checkpoint: Checkpoint,
    parameters: Mapping[str, Tensor],
    trained: Mapping[str, Tensor],
    walker: Mapping[str, Tensor] | None,
) -> dict[str, Tensor]:
    """A tensor of the right shape and type for every name that must be there."""
    whole = dict(parameters)
    expected = prefixed("model", whole)
    progress = checkpoint.values["progress"]
    # Moments and averages begin with the first step of a stage.
    if progress["step"] or _has(checkpoint, "adam."):
        for name, parameter in trained.items():
            of_moment = {"step": torch.zeros(()), "exp_avg": parameter, "exp_avg_sq": parameter}
            expected.update(prefixed(f"adam.{name}", of_moment))
    if checkpoint.values["best"] is not None:
        expected.update(prefixed("best", whole))
    if walker is not None and checkpoint.values["generator"] is not None:
        expected.update(prefixed("walker", walker))
    averager = checkpoint.values["averager"]
    if isinstance(averager, list):
        for number in range(len(averager)):
            expected.update(prefixed(f"averager.{number}", whole))
    elif averager is not None:
        expected.update(prefixed("averager.found", whole))
    averaging = checkpoint.values["identity"].get("averaging")
    runs = isinstance(averaging, dict) and averaging.get("average") == "ema"
    if (runs and progress["stage"] and progress["step"]) or _has(checkpoint, "averager.average."):
        expected.update(prefixed("averager.average", whole))
    expected["random"] = torch.get_rng_state()
    return expected


def _has(checkpoint: Checkpoint, start: str) -> bool:
    return any(name.startswith(start) for name in checkpoint.tensors)


def _check_tensor(name: str, found: Tensor | None, like: Tensor) -> None:
    if found is None:
        raise ModelError(f"'{name}' is missing")
    if found.dtype != like.dtype:
        raise ModelError(f"'{name}' holds {found.dtype}, expected {like.dtype}")
    if found.shape != like.shape:
        shapes = f"{tuple(found.shape)}, expected {tuple(like.shape)}"
        raise ModelError(f"'{name}' has shape {shapes}")
    if found.is_floating_point() and not bool(torch.isfinite(found).all()):
        raise ModelError(f"'{name}' holds NaN or infinite values")
    if name.endswith((".exp_avg_sq", ".step")) and bool((found < 0).any()):
        raise ModelError(f"'{name}' holds negative values")


def _check_values(values: Any) -> None:
    """The plain values: kinds and ranges."""
    keys = {"identity", "progress", "generator", "best", "averager", "log_bytes"}
    if not isinstance(values, dict) or set(values) != keys:
        raise ModelError(f"its values are not {', '.join(sorted(keys))}")
    if not isinstance(values["identity"], dict):
        raise ModelError("'identity' is not a table")
    if not _is_count(values["log_bytes"]):
        raise ModelError(f"'log_bytes' is {values['log_bytes']!r:.40}")
    _check_progress(values["progress"])
    if values["best"] is not None:
        _check_candidate("best", values["best"])
    averager = values["averager"]
    for candidate in averager if isinstance(averager, list) else [averager]:
        if candidate is not None:
            _check_candidate("averager", candidate)
    if values["generator"] is not None:
        _check_generator(values["generator"])


def _check_progress(progress: Any) -> None:
    if not isinstance(progress, dict) or set(progress) != {"stage", "step", "total", "start"}:
        raise ModelError("'progress' is not stage, step, total and start")
    counts = [progress[key] for key in ("stage", "step", "total")]
    if not all(map(_is_count, counts)) or counts[0] > N_STAGES or counts[1] > counts[2]:
        raise ModelError(f"'progress' is stage {counts[0]}, step {counts[1]} of {counts[2]}")
    start = progress["start"]
    kinds = [start.get(kind) for kind in ("actual", "minimum")] if isinstance(start, dict) else []
    if start != {} and not (kinds and all(_is_losses(kind) for kind in kinds)):
        raise ModelError("'progress.start' does not tell the losses of the start")


def _is_losses(losses: Any) -> bool:
    return isinstance(losses, dict) and all(map(_is_finite, losses.values()))


def _check_candidate(name: str, candidate: Any) -> None:
    good = isinstance(candidate, dict) and set(candidate) == {"loss", "place"}
    if not good or not _is_finite(candidate["loss"]) or not isinstance(candidate["place"], dict):
        raise ModelError(f"'{name}' is not a loss and a place")


def _check_generator(state: Any) -> None:
    """numpy looks at the state when it is set; a generator of our own is there to try."""
    try:
        np.random.default_rng(0).bit_generator.state = state
    except (TypeError, ValueError, KeyError, OverflowError, AttributeError):
        raise ModelError("'generator' is not the state of numpy's random generator") from None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)
