"""What the runtime needs to tell whether an utterance looks like the training data.

Training records the spread of z (eq. 19). A voiceprint holds z only rotated, as the input of
the side-information forms; a Mahalanobis distance does not mind a rotation, so mean and
precision are written in that basis, beside the columns where it stands.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dcaplda.export.graphs.algebra import Compiled
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.familiarity import precision_of


def familiarity(compiled: Compiled, training: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The key `familiarity` of model.json, from what training recorded; None if nothing."""
    statistics = (training or {}).get("statistics")
    if not statistics:
        return None
    try:
        norm = statistics.get("embedding_norm")
        side = statistics.get("side_information")
        return {
            "seconds": statistics.get("durations"),
            "norm": {"min": norm["p0.05"], "max": norm["p99.95"]} if norm else None,
            "side_information": _side_information(compiled, side) if side else None,
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"the summary of the training: 'statistics' lacks {error}; train again, or export "
            "without training_summary.json"
        ) from None


def _side_information(compiled: Compiled, told: Mapping[str, Any]) -> dict[str, Any] | None:
    form = compiled.scale_side
    if form is None:
        return None
    start = 0
    for earlier in compiled.forms():
        if earlier is form:
            break
        start += earlier.dim + 2  # [a, own(a), 1]
    precision = precision_of(np.array(told["covariance"]))
    return {
        "columns": [start, start + form.dim],
        "mean": (np.array(told["mean"]) @ form.basis).tolist(),
        "precision": (form.basis.T @ precision @ form.basis).tolist(),
        "distance_p999": told["distance_percentiles"]["99.9"],
    }
