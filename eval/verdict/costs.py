"""What deciding at the Bayes threshold costs beyond the best threshold, and how much is little.

Costs are in units of what the better answer without any score costs, so that 0.05 means the same
at every prior: a twentieth of what the scores could save at most.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dcaplda.eval.metrics.bootstrap import intervals
from dcaplda.eval.metrics.measure import Settings, prior_name
from dcaplda.eval.metrics.scalars import default_cost
from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.results import Interval
from dcaplda.runtime.errors import UsageError

YES, CARE, NO = "yes", "care", "no"
GRADES = (YES, CARE, NO)
"""From good to bad."""
ROUNDING = 1e-9
"""A loss of exactly the limit is within it, whatever the last bits of a difference say."""


@dataclass(frozen=True)
class Limits:
    """Lost cost up to which scores are usable, and usable with care."""

    usable: float = 0.05
    care: float = 0.15

    def __post_init__(self) -> None:
        """Check ranges."""
        if not (0.0 <= self.usable <= self.care and math.isfinite(self.care)):
            raise UsageError(
                f"limits of lost cost are {self.usable:g} (usable) and {self.care:g} (with care): "
                "expected 0 or more, the first not above the second"
            )


@dataclass(frozen=True)
class Lost:
    """Costs at one prior: as decided, at the best threshold, and the interval of the difference."""

    prior: float
    actual: float
    least: float
    interval: Interval | None = None
    step: float = 0.0
    """What one trial more or less costs: no loss is known better."""

    @property
    def value(self) -> float:
        """What is lost: never below 0."""
        return max(0.0, self.actual - self.least)

    @property
    def span(self) -> Interval:
        """The interval, or one trial more or less where there was no bootstrap."""
        return self.interval or (self.value - self.step, self.value + self.step)


def lost_at(
    values: Mapping[str, float],
    prior: float,
    settings: Settings,
    replicates: Floats | None = None,
    confidence: float = 0.95,
) -> Lost:
    """What scores of these metrics lose at `prior`; replicates of the metrics give the interval."""
    names = [f"{metric}_{prior_name(prior)}" for metric in ("dcf", "min_dcf")]
    unit = 1.0
    if not settings.normalize_dcf:
        unit = default_cost(prior, settings.cost_miss, settings.cost_fa)
    actual, least = (values[name] / unit for name in names)
    span = None
    if replicates is not None:
        columns = [list(values).index(name) for name in names]
        drawn = np.subtract(*(replicates[:, column] / unit for column in columns))
        (span,) = intervals(drawn[:, None], confidence, [actual - least], [(0.0, math.inf)])
    return Lost(prior, actual, least, span)


def one_trial(prior: float, settings: Settings, n_target: int, n_nontarget: int) -> float:
    """Cost of a single miss or false alarm, whichever is dearer; 1: deciding without scores."""
    blind = default_cost(prior, settings.cost_miss, settings.cost_fa)
    miss, false_alarm = prior * settings.cost_miss, (1.0 - prior) * settings.cost_fa
    return max(miss / n_target, false_alarm / n_nontarget) / blind


def grade_of(lost: float, limits: Limits | None = None, interval: Interval | None = None) -> str:
    """The grade of a lost cost.

    Yes: within the first limit, and the interval within the second. No: beyond the second, and
    the interval beyond the first. With care: between, or too uncertain to tell.
    """
    limits = limits or Limits()
    low, high = interval or (lost, lost)
    if lost <= limits.usable + ROUNDING and high <= limits.care + ROUNDING:
        return YES
    if lost > limits.care + ROUNDING and low > limits.usable + ROUNDING:
        return NO
    return CARE


def worse(*grades: str) -> str:
    """The worst of several grades."""
    return max(grades, key=GRADES.index)
