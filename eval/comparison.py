"""Did a system get better or worse since an earlier evaluation? Paired intervals with its JSON.

The file keeps the Cllr of every draw of people (`kept_draws`). A later evaluation of the same
people with the same seed draws the same, so differences are paired as those of `differences` are.

Many differences are looked at, and of a hundred at 95 % some would stand out by chance. So the
intervals are wide enough for all of them together: the share of draws in which none of the
differences is farther from its mean, in units of its own spread, is the confidence.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dcaplda.eval.differences import Difference
from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.results import Interval, Result
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.fields import parse_json

JUDGED = "cllr_"
"""What metrics that decide begin with: actual Cllr at every prior."""
Place = tuple[str, str, bool]
"""System, set or group, and whether it is a group's average."""


def kept_draws(result: Result) -> dict[str, Any]:
    """What a JSON record keeps for later comparisons: which draws, and what they gave."""
    if result.replicates is None or not result.draws:
        return {}
    kept = {}
    for column, name in enumerate(result.values):
        if name.startswith(JUDGED):
            values = result.replicates[:, column].astype("<f4")
            kept[name] = base64.b64encode(values.tobytes()).decode()
    return {"draws": result.draws, "replicates": kept}


@dataclass(frozen=True)
class Earlier:
    """A record of an earlier evaluation."""

    values: dict[str, float]
    draws: str
    replicates: dict[str, Floats] = field(repr=False)


@dataclass(frozen=True)
class Comparison:
    """What changed since an earlier evaluation."""

    differences: list[Difference]
    """Now minus then, of the metrics that decide; intervals where the draws are the same."""
    gone: list[str]
    """What the earlier evaluation has and this one has not."""
    unpaired: list[str]
    """What cannot be told from chance: other people, another seed, no draws."""

    def changed(self, sign: int) -> list[tuple[Difference, str]]:
        """Differences that are worse (+1) or better (-1) beyond chance, and their metrics."""
        return [
            (difference, name)
            for difference in self.differences
            for name, (low, high) in difference.intervals.items()
            if (low > 0.0 if sign > 0 else high < 0.0)
        ]

    def sentences(self, sign: int) -> list[str]:
        """What is worse (+1) or better (-1) beyond chance, a sentence each."""
        word = "worse" if sign > 0 else "better"
        return [
            f"{word}: {_words((d.system, d.set, d.average))}, Cllr at {name.removeprefix(JUDGED)} "
            f"changed by {d.values[name]:+.4f} ({d.intervals[name][0]:+.4f} to "
            f"{d.intervals[name][1]:+.4f})"
            for d, name in self.changed(sign)
        ]

    def summary(self, confidence: float) -> str:
        """How many differences there are of each kind."""
        n_paired = sum(len(difference.intervals) for difference in self.differences)
        n_worse, n_better = (len(self.changed(sign)) for sign in (1, -1))
        if not n_paired:
            return "nothing can be told from chance"
        return (
            f"{n_worse} worse, {n_better} better, {n_paired - n_worse - n_better} not told from "
            f"chance ({100 * confidence:g} % intervals of all {n_paired} differences together)"
        )


def read_earlier(path: str) -> dict[Place, Earlier]:
    """The records of a JSON file that eval-scores wrote."""
    try:
        records = parse_json(Path(path).read_bytes())
        return {_place(record): _earlier(record) for record in records}
    except OSError as error:
        raise InputError(f"--against={path}: cannot be read ({error.strerror})") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise InputError(
            f"--against={path}: not a file that eval-scores --json wrote ({error!r})"
        ) from None


def _place(record: dict[str, Any]) -> Place:
    return record["system"], record["set"], "average_of" in record


def _earlier(record: dict[str, Any]) -> Earlier:
    values = {
        name: float("inf") if value is None else float(value)
        for name, value in record.items()
        if name.startswith(JUDGED)
    }
    drawn = {
        name: np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float64)
        for name, text in record.get("replicates", {}).items()
    }
    return Earlier(values, str(record.get("draws", "")), drawn)


def compare(
    results: list[Result], earlier: dict[Place, Earlier], name: str, confidence: float
) -> Comparison:
    """Every result against the earlier one of the same system and set; one system needs no name."""
    now = _known_as({(r.system, r.set, bool(r.average_of)): r for r in results}, earlier)
    gone = [_words(place) for place in earlier if place not in now]
    unpaired = []
    found: list[tuple[Result, Earlier, list[str]]] = []
    for place, then in earlier.items():
        result = now.get(place)
        if result is None:
            continue
        names = [metric for metric in result.values if metric.startswith(JUDGED)]
        if set(names) != set(then.values):
            priors = ",".join(metric.removeprefix(JUDGED) for metric in then.values)
            raise InputError(f"--against={name}: is of other priors; give --prior={priors}")
        if not result.draws or result.draws != then.draws:
            unpaired.append(_words(place))
        found.append((result, then, names))
    if not found:
        raise InputError(f"--against={name}: has none of these sets and systems")
    spans = _together(found, confidence)
    differences = [
        Difference(
            result.system,
            name,
            result.set,
            bool(result.average_of),
            {metric: result.values[metric] - then.values[metric] for metric in names},
            span,
        )
        for (result, then, names), span in zip(found, spans, strict=True)
    ]
    return Comparison(differences, gone, unpaired)


def _known_as(now: dict[Place, Result], earlier: dict[Place, Earlier]) -> dict[Place, Result]:
    """The results under the names of the earlier evaluation: where both have one system only,
    its name, which may be that of a file, does not matter."""
    old, new = ({place[0] for place in places} for places in (earlier, now))
    if len(old) == len(new) == 1:
        return {(next(iter(old)), *place[1:]): result for place, result in now.items()}
    return now


def _words(place: Place) -> str:
    return f"{place[0]} on {place[1]}" + (" (mean)" if place[2] else "")


def _together(
    found: Sequence[tuple[Result, Earlier, list[str]]], confidence: float
) -> list[dict[str, Interval]]:
    """Intervals of all paired differences at once; none for those that are not paired."""
    centres, rows, owners = [], [], []
    for number, (result, then, names) in enumerate(found):
        if not result.draws or result.draws != then.draws or result.replicates is None:
            continue
        columns = list(result.values)
        for metric in names:
            with np.errstate(invalid="ignore"):  # both infinite: no difference is known
                drawn = result.replicates[:, columns.index(metric)].astype("<f4")
                drawn = drawn.astype(np.float64) - then.replicates[metric]
                centre = result.values[metric] - then.values[metric]
            if np.isfinite(drawn).all() and np.isfinite(centre):
                centres.append(centre)
                rows.append(drawn - drawn.mean())
                owners.append((number, metric))
    spans: list[dict[str, Interval]] = [{} for _ in found]
    if not rows:
        return spans
    widths = _widths(rows, confidence)
    for (number, metric), centre, width in zip(owners, centres, widths, strict=True):
        spans[number][metric] = centre - width, centre + width
    return spans


def _widths(rows: list[Floats], confidence: float) -> list[float]:
    """Half-widths of intervals that hold together; a difference without spread has none."""
    spread = [float(row.std()) for row in rows]
    n_draws = min(row.size for row in rows)
    moving = [row[:n_draws] / s for row, s in zip(rows, spread, strict=True) if s > 0.0]
    if not moving:
        return spread
    farthest = np.max(np.abs(moving), axis=0)
    reach = float(np.quantile(farthest, confidence, method="inverted_cdf"))
    return [reach * s for s in spread]
