"""What an evaluation found: plain records, and averages over groups of sets."""

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dcaplda.eval.metrics.bootstrap import intervals
from dcaplda.eval.metrics.curves import Curves
from dcaplda.eval.metrics.measure import PER_PRIOR, limits
from dcaplda.eval.metrics.scalars import calibration_loss
from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.trials.joining import Counts

Interval = tuple[float, float]


@dataclass(frozen=True)
class Part:
    """Metrics of one condition; none where a class has no trial."""

    kind: str
    enroll: str
    test: str
    n_target: int
    n_nontarget: int
    values: dict[str, float] | None


@dataclass(frozen=True)
class Facts:
    """What the trials of a set are made of."""

    n_enroll: int
    n_test: int
    n_speakers: int | None = None
    seconds: tuple[float, float, float] | None = None
    """Least, median and most seconds of an id."""
    domains: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """One system on one set, or its average over a group of sets."""

    system: str
    set: str
    group: str
    n_target: int
    n_nontarget: int
    values: dict[str, float]
    affine: dict[float, tuple[float, float]] = field(default_factory=dict)
    """Best (alpha, beta) of eq. 16 on these very trials, by prior."""
    intervals: dict[str, Interval] = field(default_factory=dict)
    parts: tuple[Part, ...] = ()
    counts: Counts = Counts()
    facts: Facts | None = None
    curves: Curves | None = field(default=None, repr=False)
    average_of: tuple[str, ...] = ()
    """Sets behind an average; empty for a set."""
    further_groups: tuple[str, ...] = ()
    """Averages in which the set counts besides that of its group."""
    replicates: Floats | None = field(default=None, repr=False)
    """(replicates, metrics): the values of the bootstrap, in the order of `values`. Replicate i
    draws the same people for every system, and for every set of the same people."""
    draws: str = ""
    """What the draws were: equal for two results whose replicates draw the same people."""
    examined: Any = field(default=None, repr=False)
    """What a closer look found, if one was asked for."""


def spans(
    values: dict[str, float], replicates: Floats | None, confidence: float
) -> dict[str, Interval]:
    """The interval of each metric; none without replicates."""
    if replicates is None:
        return {}
    within = [limits(name) for name in values]
    found = intervals(replicates, confidence, list(values.values()), within)
    return dict(zip(values, found, strict=True))


def averages(results: list[Result], confidence: float = 0.95) -> list[Result]:
    """A result for each system and named group: the plain mean of its sets, as in the paper.

    The loss to miscalibration is that of the mean Cllr, not a mean of shares. Where all sets
    have replicates, so has the average, replicate by replicate.
    """
    pairs = dict.fromkeys((group, r.system) for r in results for group in _groups(r))
    found = []
    for group, system in pairs:
        members = [r for r in results if group in _groups(r) and r.system == system]
        names = list(members[0].values)
        values = _mean(np.array([[[r.values[name] for name in names]] for r in members]), names)
        drawn = [member.replicates for member in members]
        rows = None
        if all(values_of is not None for values_of in drawn):
            rows = _mean(np.array(drawn), names)
        found_values = dict(zip(names, values[0].tolist(), strict=True))
        found.append(
            Result(
                system,
                group,
                group,
                sum(member.n_target for member in members),
                sum(member.n_nontarget for member in members),
                found_values,
                intervals=spans(found_values, rows, confidence),
                average_of=tuple(member.set for member in members),
                replicates=rows,
                draws="" if rows is None else _joint_name([member.draws for member in members]),
            )
        )
    return found


def _joint_name(names: list[str]) -> str:
    return f"{zlib.crc32(' '.join(names).encode()):08x}"


def _groups(result: Result) -> tuple[str, ...]:
    return tuple(group for group in (result.group, *result.further_groups) if group)


def _mean(values: Floats, names: list[str]) -> Floats:
    """(sets, replicates, metrics) to the (replicates, metrics) of their average."""
    mean = values.mean(axis=0)
    loss = PER_PRIOR[3]
    for column, name in enumerate(names):
        if name.startswith(loss):
            prior = name.removeprefix(loss)
            actual, least = (mean[:, names.index(f"{m}{prior}")] for m in ("cllr", "min_cllr_lin"))
            mean[:, column] = [calibration_loss(*pair) for pair in zip(actual, least, strict=True)]
    return mean
