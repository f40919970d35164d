"""From a torch model to its bundle: graphs, the check against torch, model.json."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.export import parity
from dcaplda.export.bundle_files import write_bundle
from dcaplda.export.familiarity import familiarity
from dcaplda.export.graphs import names
from dcaplda.export.graphs.algebra import compile_backend, joint_model_of
from dcaplda.export.graphs.bundle import build_graphs
from dcaplda.runtime.joint.stored import joint_bytes
from dcaplda.train.model.backend import Backend

GRID_SECONDS = np.geomspace(1.0, 300.0, 41)


def export_model(
    model: Backend, directory: str | Path, training: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Export a torch model; returns the largest difference of each graph from torch.

    `training` is what training recorded of its data and development sets; it goes into
    model.json as it is.
    """
    compiled = compile_backend(model)
    known = familiarity(compiled, training)
    graphs = build_graphs(model, known)
    differences = parity.check(model, graphs)
    config = model.config
    width = graphs[names.VOICEPRINT].graph.output[0].type.tensor_type.shape.dim[1].dim_value
    manifest = {
        "variant": config.variant,
        "embedding_dim": config.embedding_dim,
        "voiceprint_dim": width,
        "uses_durations": config.stages.duration_stage,
        "duration_unit": "seconds",
        "voiceprint_inputs": [],
        "averages_groups": True,
        "architecture": {**config.to_dict(), "duration_parameters": model.duration_parameters},
        "calibration": _calibration(model),
        "training": dict(training) if training else None,
        "familiarity": known,
        "largest_difference_from_torch": differences,
    }
    joint = joint_bytes(joint_model_of(model, compiled)) if compiled.joint is not None else None
    write_bundle(directory, graphs, manifest, joint)
    return differences


def _calibration(model: Backend) -> dict[str, Any]:
    """alpha_d and beta_d on a grid of seconds, for plots that know no duration feature."""
    if model.scale_dur is None or model.shift_dur is None:
        return {}
    with torch.no_grad():
        features = model.duration_features(torch.tensor(GRID_SECONDS, dtype=torch.float32))
        alpha, beta = model.scale_dur(features, features), model.shift_dur(features, features)
    return {
        "duration": {
            "seconds": _rounded(GRID_SECONDS),
            "alpha": _rounded(alpha.numpy()),
            "beta": _rounded(beta.numpy()),
        }
    }


def _rounded(values: NDArray[np.floating[Any]]) -> Any:
    """Six significant digits: a plot needs no more, and model.json stays readable."""
    return [_rounded(value) if np.ndim(value) else float(f"{float(value):.6g}") for value in values]
