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
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.store import load_state

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
    weights, settings = content["model"], content["config"]
    if not isinstance(weights, dict) or not isinstance(settings, dict):
        raise ModelError(f"{path}: 'model' and 'config' are not dictionaries")
    try:
        model = Backend(_configuration(settings, content["in_dim"], weights, str(path)))
        load_state(model, _state(model, weights, str(path)), str(path))
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{path}: a setting or tensor has the wrong type ({error})") from None
    return model


def _configuration(
    settings: Mapping[str, Any], in_dim: int, weights: Mapping[str, Any], place: str
) -> ModelConfig:
    calibration = settings.get("calibration_parameters") or {}
    side = settings.get("sideinfo_parameters") or {}
    sections = {"model": settings, "sideinfo": side, "calibration": calibration}
    for key, plain, section in PLAIN_SWITCHES:
        value = sections[section].get(key, plain)
        if value != plain and (value or plain):
            raise ModelError(f"{place}: uses {key} = {value!r}, which is not supported")
    duration_stage = bool(calibration.get("duration_dependent"))
    side_stage = bool(calibration.get("sideinfo_dependent"))
    if duration_stage and side_stage and calibration.get("si_cal_first", True):
        raise ModelError(
            f"{place}: calibrates by side-information before duration (si_cal_first); "
            "only the paper's order can be imported"
        )
    if "lda_stage.W" not in weights:
        raise ModelError(f"{place}: has no LDA stage (lda_stage.W), which the model needs")
    shape: dict[str, Any] = {
        "embedding_dim": int(in_dim),
        "lda_dim": weights["lda_stage.W"].shape[1],
    }
    if side_stage:
        if "si_stage2.W" not in weights:
            raise ModelError(f"{place}: has no second side-information stage (external_dim)")
        activation = side.get("stage2_activation", "logsoftmax")
        if activation not in ACTIVATIONS:
            raise ModelError(f"{place}: stage2_activation = {activation!r} is not supported")
        shape["side_hidden_dim"], shape["side_info_dim"] = weights["si_stage2.W"].shape
        shape["side_activation"] = ACTIVATIONS[activation]
    if duration_stage:
        shape |= _duration_feature(settings.get("duration_parameters") or calibration, place)
    suffix = {(0, 0): "", (1, 0): "-dd", (0, 1): "-sd", (1, 1): "-dsd"}
    # Whether LDA and PLDA were trained is not recorded; d-plda leaves further training free.
    return ModelConfig(variant="d-plda" + suffix[duration_stage, side_stage], **shape)


def _duration_feature(settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    def setting(name: str, default: Any = None) -> Any:
        return settings.get(name, settings.get(f"duration_{name}", default))

    kind, thresholds = setting("representation", "log"), setting("thresholds")
    if kind == "log":
        return {"duration_feature": "log"}
    if kind == "siglog" and len(thresholds) == 1:
        window = {"center": float(thresholds[0]), "slope": float(setting("sigmoid_scale"))}
        return {"duration_feature": "wlog", "duration_parameters": window}
    if kind == "discrete":
        edges = [float(t) for t in thresholds]
        return {"duration_feature": "bin", "duration_parameters": {"thresholds": edges}}
    raise ModelError(
        f"{place}: duration representation {kind!r} with thresholds {thresholds} is not "
        "supported; log, siglog with one threshold, and discrete are"
    )


def _state(model: Backend, weights: Mapping[str, Any], place: str) -> dict[str, torch.Tensor]:
    """Our tensors from theirs."""
    arrays: dict[str, np.ndarray] = {}
    for ours, theirs in LAYERS.items():
        if hasattr(model, ours):
            arrays[f"{ours}.weight"] = _get(weights, f"{theirs}.W", place).T
            arrays[f"{ours}.bias"] = _get(weights, f"{theirs}.b", place)
    for ours, theirs in FORMS.items():
        form = getattr(model, ours)
        if form is None:
            continue
        dim = form.linear.shape[0]
        # A matrix that their configuration switches off is not in the file: it is zero.
        cross, auto = (weights.get(f"{theirs}.{name}", np.zeros((dim, dim))) for name in "LG")
        linear = np.reshape(weights.get(f"{theirs}.C", np.zeros(dim)), -1)
        if ours.endswith("_dur") and model.config.duration_feature == "wlog":
            cross, auto, linear = cross[::-1, ::-1], auto[::-1, ::-1], linear[::-1]
        arrays |= {f"{ours}.cross": cross, f"{ours}.auto": auto, f"{ours}.linear": linear}
        arrays[f"{ours}.offset"] = _get(weights, f"{theirs}.k", place)
    if hasattr(model, "scale"):
        arrays["scale"] = _get(weights, "cal_stage.alpha", place)
        arrays["shift"] = _get(weights, "cal_stage.beta", place)
    return {name: torch.tensor(np.array(value, dtype=np.float32)) for name, value in arrays.items()}


def _get(weights: Mapping[str, Any], name: str, place: str) -> np.ndarray:
    if not isinstance(weights.get(name), np.ndarray):
        raise ModelError(f"{place}: tensor '{name}' is missing")
    return weights[name]
