"""Writes a bundle: graphs, hashes and model.json, whole or not at all."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from dcaplda.export import names, parity
from dcaplda.export.algebra import compile_backend, float64
from dcaplda.export.familiarity import familiarity
from dcaplda.export.graphs import build_graphs
from dcaplda.runtime.bundle import FORMAT, FORMAT_VERSION, MANIFEST, sha256
from dcaplda.runtime.errors import ModelError
from dcaplda.train.model import Backend
from dcaplda.train.quadratic import Quadratic

GRID_SECONDS = np.geomspace(1.0, 300.0, 41)


def write_bundle(
    directory: str | Path,
    graphs: Mapping[str, onnx.ModelProto],
    manifest: Mapping[str, Any],
) -> None:
    """Write graphs and model.json into `directory`, replacing an older bundle there.

    Everything is first written beside its place; a directory that holds something else
    than a bundle is not touched.
    """
    target = Path(directory)
    if target.exists() and not target.is_dir():
        raise ModelError(f"{target}: is a file; give a directory for the bundle")
    if target.is_dir() and any(target.iterdir()) and not (target / MANIFEST).is_file():
        raise ModelError(f"{target}: not empty and not a bundle; give a new directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        entries = {}
        for name in names.GRAPHS:
            content = graphs[name].SerializeToString(deterministic=True)
            (beside / f"{name}.onnx").write_bytes(content)
            entries[name] = {"file": f"{name}.onnx", "sha256": sha256(content)}
        whole = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "producer": f"dcaplda {_version()}",
            **manifest,
            "opset": names.OPSET,
            "graphs": entries,
        }
        text = json.dumps(whole, indent=2, allow_nan=False) + "\n"
        (beside / MANIFEST).write_text(text, encoding="utf-8")
        beside.chmod(0o755)
        if target.is_dir():
            old = beside.with_name(beside.name + ".old")
            target.rename(old)
            beside.rename(target)
            shutil.rmtree(old)
        else:
            beside.rename(target)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def export_model(
    model: Backend, directory: str | Path, training: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """Export a torch model; returns the largest difference of each graph from torch.

    `training` is what training recorded of its data and development sets; it goes into
    model.json as it is.
    """
    graphs = build_graphs(model)
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
        "familiarity": familiarity(compile_backend(model), training),
        "largest_difference_from_torch": differences,
    }
    write_bundle(directory, graphs, manifest)
    return differences


def _calibration(model: Backend) -> dict[str, Any]:
    """The duration stage for plots: its forms, and alpha_d and beta_d on a grid of seconds."""
    if model.scale_dur is None or model.shift_dur is None:
        return {}
    with torch.no_grad():
        features = model.duration_features(torch.tensor(GRID_SECONDS, dtype=torch.float32))
        alpha, beta = model.scale_dur(features, features), model.shift_dur(features, features)
    return {
        "duration": {
            "feature": model.config.duration_feature,
            "feature_parameters": model.duration_parameters,
            "alpha": _form(model.scale_dur),
            "beta": _form(model.shift_dur),
            "grid": {
                "seconds": GRID_SECONDS.tolist(),
                "alpha": alpha.tolist(),
                "beta": beta.tolist(),
            },
        }
    }


def _form(form: Quadratic) -> dict[str, Any]:
    return {
        "cross": float64(form.symmetric_cross()).tolist(),
        "auto": float64(form.symmetric_auto()).tolist(),
        "linear": float64(form.linear).tolist(),
        "offset": float(form.offset.detach()),
    }


def _version() -> str:
    try:
        return metadata.version("dcaplda")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "(checkout)"
