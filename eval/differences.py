"""Is one system better than another? Differences from a baseline, with paired intervals.

Both systems are measured on the same draws of people, so what makes a draw easy or hard for
both cancels: the interval of a difference is far narrower than the two intervals suggest.
"""

from dataclasses import dataclass

import numpy as np

from dcaplda.eval.metrics.bootstrap import intervals
from dcaplda.eval.results import Interval, Result
from dcaplda.runtime.errors import UsageError


@dataclass(frozen=True)
class Difference:
    """A system's metrics minus the baseline's, on a set or an average."""

    system: str
    baseline: str
    set: str
    average: bool
    """Whether it is of a group's average, which may have the name of a set."""
    values: dict[str, float]
    intervals: dict[str, Interval]
    """Empty where there was no bootstrap."""


def differences(results: list[Result], baseline: str, confidence: float) -> list[Difference]:
    """Every other system against the baseline, set by set and average by average."""
    if baseline not in {result.system for result in results}:
        known = ", ".join(dict.fromkeys(result.system for result in results))
        raise UsageError(f"--baseline={baseline}: no such system; there are {known}")
    base = {(r.set, bool(r.average_of)): r for r in results if r.system == baseline}
    found = []
    for result in results:
        other = base[result.set, bool(result.average_of)]
        if result.system == baseline:
            continue
        names = list(result.values)
        values = {name: result.values[name] - other.values[name] for name in names}
        spans: dict[str, Interval] = {}
        if result.replicates is not None and other.replicates is not None:
            with np.errstate(invalid="ignore"):  # both infinite: no difference is known
                rows = result.replicates - other.replicates
            found_spans = intervals(rows, confidence, list(values.values()))
            spans = dict(zip(names, found_spans, strict=True))
        average = bool(result.average_of)
        found.append(Difference(result.system, baseline, result.set, average, values, spans))
    return found
