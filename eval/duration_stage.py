"""The duration stage of a bundle, evaluated for plots (paper, eq. 21 to 25)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dcaplda.eval.scores import Floats
from dcaplda.runtime.errors import BundleError

GRID_POINTS = 96
DEFAULT_RANGE = (1.0, 256.0)


def duration_features(name: str, parameters: dict[str, Any], seconds: Floats) -> Floats | None:
    """Features e of seconds, (n,) -> (n, F); None for a feature that this code does not know."""
    logs = np.log(seconds)
    if name == "log":
        return logs[:, None]
    if name == "bin":
        thresholds = np.asarray(parameters["thresholds"], dtype=np.float64)
        index = (seconds[:, None] > thresholds).sum(axis=1)
        return np.eye(thresholds.size + 1)[index]
    if name == "wlog":
        distance = parameters["slope"] * (logs - np.log(parameters["center"]))
        long = 1.0 / (1.0 + np.exp(-distance))
        return np.stack([logs * long, logs * (1.0 - long)], axis=1)
    return None


def second_order(form: dict[str, Any], features: Floats) -> Floats:
    """2 e1' Lambda e2 + e1' Gamma e1 + e2' Gamma e2 + c'(e1 + e2) + k for all pairs (eq. 21)."""
    cross = np.asarray(form["cross"], dtype=np.float64)
    auto = np.asarray(form["auto"], dtype=np.float64)
    linear = np.asarray(form["linear"], dtype=np.float64)
    own = np.einsum("ni,ij,nj->n", features, auto, features) + features @ linear
    surface: Floats = 2.0 * features @ cross @ features.T + own[:, None] + own[None, :]
    return surface + float(form["offset"])


@dataclass(frozen=True)
class DurationStage:
    """alpha_d and beta_d as model.json tells them."""

    feature: str
    parameters: dict[str, Any]
    alpha: dict[str, Any]
    beta: dict[str, Any]
    grid: dict[str, Any] | None
    seconds_range: tuple[float, float] = DEFAULT_RANGE

    @classmethod
    def of(cls, manifest: dict[str, Any], place: str) -> "DurationStage | None":
        """From a bundle's manifest; None for a model without a duration stage."""
        entry = (manifest.get("calibration") or {}).get("duration")
        if not entry:
            return None
        try:
            stage = cls(
                str(entry["feature"]),
                dict(entry["feature_parameters"]),
                dict(entry["alpha"]),
                dict(entry["beta"]),
                entry.get("grid"),
            )
            stage.surfaces()
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(
                f"{place}: its duration calibration is damaged ({error!r}); export it again"
            ) from None
        return stage

    def surfaces(self) -> tuple[Floats, Floats, Floats]:
        """Seconds (n,), alpha_d (n, n) and beta_d (n, n); enrolment is the first axis."""
        seconds = np.geomspace(*self.seconds_range, GRID_POINTS)
        features = duration_features(self.feature, self.parameters, seconds)
        if features is not None:
            return seconds, second_order(self.alpha, features), second_order(self.beta, features)
        if self.grid is None:
            raise ValueError(f"duration feature '{self.feature}' is unknown")
        # A feature added since: the exporter evaluated it on a grid.
        names = ("seconds", "alpha", "beta")
        known = [np.asarray(self.grid[name], dtype=np.float64) for name in names]
        return known[0], known[1], known[2]
