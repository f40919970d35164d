"""The good files that are damaged, all made by code: small models, bundles, tables, a training."""

import functools
import shutil
from pathlib import Path
from typing import Any

import numpy as np

SECONDS = np.array([3.0, 12.0, 40.0], np.float32)
IDS = ["u0", "u1", "ü2"]
MATRIX = np.float32([[1.5, -2, 0.25], [3, 4, 5], [-1, 1e-3, 7]])
SMALL = {"embedding_dim": 8, "lda_dim": 4, "side_hidden_dim": 3, "side_info_dim": 2}


def utterances(dim: int = 8) -> np.ndarray:
    return np.random.default_rng(3).standard_normal((len(SECONDS), dim)).astype(np.float32)


def summary() -> dict[str, Any]:
    """What training would record: for the warnings."""
    return {
        "statistics": {
            "durations": {"min": 2.0, "max": 300.0},
            "embedding_norm": {"mean": 3.0, "std": 1.0, "p0.05": 0.5, "p99.95": 9.0},
            "side_information": {
                "mean": [0.1, -0.2],
                "covariance": [[1.0, 0.2], [0.2, 2.0]],
                "distance_percentiles": {"50": 1.0, "99.9": 4.0},
            },
        },
        "places": {"before": 0.5, "after": 0.2},
    }


@functools.cache
def bundles(folder: Path) -> dict[str, Path]:
    """A bundle with all stages, a joint one, and one made of a Kaldi PLDA."""
    from joint_models import joint_bundle
    from random_models import random_model

    from dcaplda.export.bundle_writer import export_model
    from dcaplda.export.importers.kaldi import KaldiBackend
    from dcaplda.export.importers.kaldi_bundle import export_backend
    from dcaplda.runtime.tables.kaldi_objects import KaldiPlda

    model = random_model("d-plda-dsd", **SMALL)
    export_model(model, folder / "full", summary())
    joint_bundle(folder / "joint")
    rng = np.random.default_rng(0)
    plda = KaldiPlda(0.1 * rng.standard_normal(4), rng.standard_normal((4, 4)), np.arange(1.0, 5.0))
    weight = rng.standard_normal((4, 8))
    export_backend(KaldiBackend(weight, np.zeros(4), plda, True, "plda"), folder / "kaldi")
    return {name: folder / name for name in ("full", "joint", "kaldi")}


def fresh_copy(source: Path, target: Path) -> Path:
    """The same directory once more."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(source, target))
