"""The duration stage of a bundle, for plots (paper, eq. 21, 22).

The exporter evaluates alpha_d and beta_d on a grid of durations, so nothing here has to know
which duration feature a model uses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dcaplda.eval.metrics.scores import Floats
from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.fields import Table


@dataclass(frozen=True)
class DurationStage:
    """alpha_d and beta_d (n, n) over the seconds (n,) of both sides; enrolment comes first."""

    seconds: Floats
    alpha: Floats
    beta: Floats

    @classmethod
    def of(cls, manifest: dict[str, Any], place: str) -> "DurationStage | None":
        """From a bundle's manifest; None for a model without a duration stage."""
        whole = Table(manifest, place, BundleError, "export it again")
        calibration = whole.optional_table("calibration")
        entry = None if calibration is None else calibration.optional_table("duration")
        if entry is None:
            return None
        seconds = entry.get("seconds", list[float])
        tables = [entry.get(name, list[list[float]]) for name in ("alpha", "beta")]
        if any({len(table), *map(len, table)} != {len(seconds)} for table in tables):
            raise entry.refused("alpha and beta do not fit the seconds")
        return cls(*(np.array(values) for values in (seconds, *tables)))
