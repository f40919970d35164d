"""The duration stage of a bundle, for plots (paper, eq. 21, 22).

The exporter evaluates alpha_d and beta_d on a grid of durations, so nothing here has to know
which duration feature a model uses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dcaplda.eval.metrics.scores import Floats
from dcaplda.runtime.errors import BundleError


@dataclass(frozen=True)
class DurationStage:
    """alpha_d and beta_d (n, n) over the seconds (n,) of both sides; enrolment comes first."""

    seconds: Floats
    alpha: Floats
    beta: Floats

    @classmethod
    def of(cls, manifest: dict[str, Any], place: str) -> "DurationStage | None":
        """From a bundle's manifest; None for a model without a duration stage."""
        entry = (manifest.get("calibration") or {}).get("duration")
        if not entry:
            return None
        try:
            names = ("seconds", "alpha", "beta")
            stage = cls(*(np.asarray(entry[name], dtype=np.float64) for name in names))
            count = len(stage.seconds)
            if not stage.alpha.shape == stage.beta.shape == (count, count):
                raise ValueError("alpha and beta do not fit the seconds")
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(
                f"{place}: its duration calibration is damaged ({error!r}); export it again"
            ) from None
        return stage
