"""Checkpoints of the paper authors' program become models of this one.

Differences that are bridged here: their matrices are stored input x output; their windowed
log has the short feature first, ours (as eq. 25) the long one; their configuration has
switches that this project does not, and those are refused by name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dcaplda.export.importers.checkpoint import read_checkpoint
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.fields import Table, shown
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import LARGEST, ModelConfig
from dcaplda.train.store import model_of_state

MOST_ZEROS = 4096
"""Size of a form, at most, whose matrix may be left out of a file."""

ACTIVATIONS = {
    "none": "identity",
    None: "identity",
    "softmax": "softmax",
    "logsoftmax": "log-softmax",
}
FORMS = {
    "plda": "plda_stage",
    "scale_dur": "cal_stage.durdep_alpha",
    "shift_dur": "cal_stage.durdep_beta",
    "scale_side": "cal_stage.sidep_alpha",
    "shift_side": "cal_stage.sidep_beta",
}
LAYERS = {
    "preprocess": "lda_stage",
    "side_projection": "si_stage1",
    "side_reduction": "si_stage2",
}
# Switch, the only value that is understood, where it stands.
PLAIN_SWITCHES = (
    ("front_dim", None, "model"),
    ("activation_after_lda", "l2norm", "model"),
    ("plda_type", "quadratic_form", "model"),
    ("fixed_enrollment_ids", None, "model"),
    ("si_dependent_shift_parameters", None, "model"),
    ("input_from", "main_input", "sideinfo"),
    ("stage2_inner_sizes", None, "sideinfo"),
    ("numside_dependent", False, "calibration"),
    ("transform_type", "quadratic_form", "calibration"),
    ("sideinfo_model", "Quadratic", "calibration"),
    ("concat_durfeats_with_sideinfo", False, "calibration"),
)


def import_checkpoint(path: str | Path) -> Backend:
    """A model with the weights of a checkpoint of the authors' program."""
    content = read_checkpoint(path)
    for key in ("model", "in_dim", "config"):
        if key not in content:
            raise ModelError(f"{path}: has no '{key}'; is it a checkpoint of DCA-PLDA?")
    weights, place = content["model"], str(path)
    if not isinstance(weights, dict) or not isinstance(content["config"], dict):
        raise ModelError(f"{path}: 'model' and 'config' are not dictionaries")
    told = Table(content, place, ModelError, "is it a checkpoint of DCA-PLDA?")
    config = _configuration(told, weights, place)
    with torch.device("meta"):  # of what a file only claims nothing is made yet
        shapes = Backend(config)
    return model_of_state(config, _state(shapes, weights, place), place)


def _section(settings: Table, key: str) -> Table:
    """A table of settings; one that is missing or null has none."""
    found = settings.optional_table(key)
    return Table({}, settings.place, ModelError, "") if found is None else found


def _configuration(told: Table, weights: Mapping[str, Any], place: str) -> ModelConfig:
    settings = told.table("config")
    calibration = _section(settings, "calibration_parameters")
    side = _section(settings, "sideinfo_parameters")
    sections = {"model": settings, "sideinfo": side, "calibration": calibration}
    for key, plain, section in PLAIN_SWITCHES:
        value = sections[section].values.get(key, plain)
        if not _is_plain(value, plain):
            raise ModelError(f"{place}: uses {key} = {shown(value)}, which is not supported")
    duration_stage = _switch(calibration, "duration_dependent", False)
    side_stage = _switch(calibration, "sideinfo_dependent", False)
    if duration_stage and side_stage and _switch(calibration, "si_cal_first", True):
        raise ModelError(
            f"{place}: calibrates by side-information before duration (si_cal_first); "
            "only the paper's order can be imported"
        )
    if "lda_stage.W" not in weights:
        raise ModelError(f"{place}: has no LDA stage (lda_stage.W), which the model needs")
    shape: dict[str, Any] = {
        "embedding_dim": told.whole("in_dim", 1, LARGEST),
        "lda_dim": _matrix(weights, "lda_stage.W", place).shape[1],
    }
    if side_stage:
        if "si_stage2.W" not in weights:
            raise ModelError(f"{place}: has no second side-information stage (external_dim)")
        activation = side.get("stage2_activation", str | None, "logsoftmax")
        if activation not in ACTIVATIONS:
            raise ModelError(f"{place}: stage2_activation = {activation!r} is not supported")
        sizes = _matrix(weights, "si_stage2.W", place).shape
        shape["side_hidden_dim"], shape["side_info_dim"] = sizes
        shape["side_activation"] = ACTIVATIONS[activation]
    if duration_stage:
        own = settings.optional_table("duration_parameters")
        shape |= _duration_feature(own if own and own.values else calibration)
    suffix = {(0, 0): "", (1, 0): "-dd", (0, 1): "-sd", (1, 1): "-dsd"}
    # Whether LDA and PLDA were trained is not recorded; d-plda leaves further training free.
    return ModelConfig(variant="d-plda" + suffix[duration_stage, side_stage], **shape)


def _is_plain(value: Any, plain: Any) -> bool:
    """Whether a switch has the one value that is understood; 0, "" and the like are none."""
    if isinstance(value, str) or isinstance(plain, str):
        return bool(value == plain) or (not value and not plain)
    return value is None or value is False or type(value) in (int, list, dict) and not value


def _switch(settings: Table, key: str, usual: bool) -> bool:
    value = settings.get(key, bool | int | None, usual)
    return bool(value)


def _duration_feature(settings: Table) -> dict[str, Any]:
    def setting(name: str, hint: Any, default: Any = None) -> Any:
        long = f"duration_{name}"
        return settings.get(name if name in settings.values else long, hint, default)

    kind = setting("representation", str, "log")
    thresholds = setting("thresholds", list[float] | None) or []
    if kind == "log":
        return {"duration_feature": "log"}
    if kind == "siglog" and len(thresholds) == 1:
        slope = setting("sigmoid_scale", float | None)
        if slope is None:
            raise settings.refused("a siglog duration without sigmoid_scale")
        window = {"center": thresholds[0], "slope": slope}
        return {"duration_feature": "wlog", "duration_parameters": window}
    if kind == "discrete":
        return {"duration_feature": "bin", "duration_parameters": {"thresholds": thresholds}}
    raise ModelError(
        f"{settings.place}: duration representation {shown(kind)} with thresholds "
        f"{shown(thresholds)} is not supported; log, siglog with one threshold, and discrete are"
    )


def _state(model: Backend, weights: Mapping[str, Any], place: str) -> dict[str, torch.Tensor]:
    """Our tensors from theirs; of `model` only shapes are looked at."""
    arrays: dict[str, np.ndarray] = {}
    for ours, theirs in LAYERS.items():
        if hasattr(model, ours):
            arrays[f"{ours}.weight"] = _matrix(weights, f"{theirs}.W", place).T
            arrays[f"{ours}.bias"] = _get(weights, f"{theirs}.b", place)
    for ours, theirs in FORMS.items():
        form = getattr(model, ours)
        if form is None:
            continue
        dim = form.linear.shape[0]
        # A matrix that their configuration switches off is not in the file: it is zero.
        cross, auto = (_square(weights, f"{theirs}.{name}", dim, place) for name in "LG")
        linear = np.zeros(dim)
        if f"{theirs}.C" in weights:
            linear = np.reshape(_get(weights, f"{theirs}.C", place), -1)
        if ours.endswith("_dur") and model.config.duration_feature == "wlog":
            cross, auto, linear = cross[::-1, ::-1], auto[::-1, ::-1], linear[::-1]
        arrays |= {f"{ours}.cross": cross, f"{ours}.auto": auto, f"{ours}.linear": linear}
        arrays[f"{ours}.offset"] = _get(weights, f"{theirs}.k", place)
    if hasattr(model, "scale"):
        arrays["scale"] = _get(weights, "cal_stage.alpha", place)
        arrays["shift"] = _get(weights, "cal_stage.beta", place)
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
        return {
            name: torch.tensor(np.array(value, dtype=np.float32)) for name, value in arrays.items()
        }


def _square(weights: Mapping[str, Any], name: str, dim: int, place: str) -> np.ndarray:
    if name in weights:
        return _matrix(weights, name, place)
    if dim > MOST_ZEROS:
        raise ModelError(f"{place}: tensor '{name}' of {dim} x {dim} is missing")
    return np.zeros((dim, dim))


def _matrix(weights: Mapping[str, Any], name: str, place: str) -> np.ndarray:
    found = _get(weights, name, place)
    if found.ndim != 2:
        raise ModelError(f"{place}: tensor '{name}' has shape {found.shape}, expected a matrix")
    return found


def _get(weights: Mapping[str, Any], name: str, place: str) -> np.ndarray:
    if not isinstance(weights.get(name), np.ndarray):
        raise ModelError(f"{place}: tensor '{name}' is missing")
    return weights[name]
