"""Duration features (paper, eq. 23-25): seconds of speech to the vector e.

This is the only file to edit to add a feature: write a function of `ops` and seconds,
decorate it, and the configuration, training, export and tests know it by its name.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.fields import shown, typed
from dcaplda.train.model.ops import TORCH, Ops

Feature = Callable[..., Any]
FEATURES: dict[str, Feature] = {}


def feature(name: str) -> Callable[[Feature], Feature]:
    """Register a function of (ops, seconds, **parameters) -> (n, F) features."""

    def register(function: Feature) -> Feature:
        FEATURES[name] = function
        return function

    return register


@feature("log")
def log_duration(ops: Ops, seconds: Any) -> Any:
    """Log duration (eq. 23); (n,) -> (n, 1)."""
    return ops.stack([ops.log(seconds)])


@feature("bin")
def binned(ops: Ops, seconds: Any, thresholds: Sequence[float] = (6.0, 12.0, 24.0, 48.0)) -> Any:
    """One-hot bin of the duration (eq. 24); (n,) -> (n, thresholds + 1).

    A duration equal to a threshold lies in the bin below it.
    """
    above = [ops.above(seconds, t) for t in thresholds]
    lowest = 1.0 - above[0]
    between = [low - high for low, high in zip(above[:-1], above[1:], strict=True)]
    return ops.stack([lowest, *between, above[-1]])


@feature("wlog")
def windowed_log(ops: Ops, seconds: Any, center: float = 30.0, slope: float = 2.0) -> Any:
    """Log duration, split softly into long and short at `center` (eq. 25); (n,) -> (n, 2)."""
    log_d = ops.log(seconds)
    long = ops.sigmoid(slope * (log_d - math.log(center)))
    return ops.stack([log_d * long, log_d * (1.0 - long)])


def resolve(name: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """All parameters of a feature, defaults filled in; errors name what is wrong."""
    if name not in FEATURES:
        raise ModelError(f"duration_feature = '{name}' is unknown; known: {', '.join(FEATURES)}")
    known = {
        key: parameter.default
        for key, parameter in inspect.signature(FEATURES[name]).parameters.items()
        if key not in ("ops", "seconds")
    }
    for key in parameters:
        if key not in known:
            takes = ", ".join(known) or "no parameters"
            raise ModelError(f"duration feature '{name}' has no parameter '{key}'; takes {takes}")
    resolved = {**known, **parameters}
    if "thresholds" in resolved:
        thresholds = resolved["thresholds"]
        thresholds = list(thresholds) if isinstance(thresholds, tuple) else thresholds
        thresholds = typed(thresholds, list[float], "thresholds", ModelError)
        if not thresholds or thresholds != sorted(set(thresholds)) or thresholds[0] <= 0:
            raise ModelError(f"thresholds = {shown(thresholds)}: expected rising positive seconds")
        resolved["thresholds"] = thresholds
    for key in ("center", "slope"):
        if key in resolved and not typed(resolved[key], float, key, ModelError) > 0:
            raise ModelError(f"{key} = {shown(resolved[key])}: expected a positive number")
    return resolved


def apply(ops: Ops, name: str, parameters: dict[str, Any], seconds: Any) -> Any:
    """The features e of raw seconds, (n,) -> (n, F)."""
    return FEATURES[name](ops, seconds, **parameters)


def width(name: str, parameters: dict[str, Any]) -> int:
    """How many values the feature gives (F)."""
    return int(apply(TORCH, name, parameters, torch.ones(1)).shape[1])
