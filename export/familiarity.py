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
from dcaplda.runtime.fields import Table

ADVICE = "train again, or export without training_summary.json"


def familiarity(compiled: Compiled, training: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The key `familiarity` of model.json, from what training recorded; None if nothing."""
    whole = Table(dict(training or {}), "the summary of the training", ModelError, ADVICE)
    told = whole.optional_table("statistics")
    if told is None or not told.values:
        return None
    norm = told.optional_table("embedding_norm")
    side = told.optional_table("side_information")
    return {
        "seconds": told.get("durations", dict[str, float] | None, None),
        "norm": norm and {"min": norm.number("p0.05"), "max": norm.number("p99.95")},
        "side_information": side and _side_information(compiled, side),
    }


def _side_information(compiled: Compiled, told: Table) -> dict[str, Any] | None:
    form = compiled.scale_side
    if form is None:
        return None
    start = 0
    for earlier in compiled.forms():
        if earlier is form:
            break
        start += earlier.dim + 2  # [a, own(a), 1]
    mean = np.array(told.get("mean", list[float]))
    covariance = told.get("covariance", list[list[float]])
    size = len(form.basis)
    if {len(mean), len(covariance), *map(len, covariance)} != {size}:
        raise told.refused("the sizes of 'side_information' are not the model's")
    try:
        precision = precision_of(np.array(covariance))
    except np.linalg.LinAlgError:
        raise told.refused("the covariance of 'side_information' has no inverse") from None
    return {
        "columns": [start, start + form.dim],
        "mean": (mean @ form.basis).tolist(),
        "precision": (form.basis.T @ precision @ form.basis).tolist(),
        "distance_p999": told.table("distance_percentiles").number("99.9", 0.0),
    }
