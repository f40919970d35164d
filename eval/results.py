"""What an evaluation found: plain records, and averages over groups of sets."""

from dataclasses import dataclass, field

import numpy as np

from dcaplda.eval.curves import Curves
from dcaplda.eval.joining import Counts
from dcaplda.eval.measure import PER_PRIOR
from dcaplda.eval.metrics import calibration_loss

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


def averages(results: list[Result]) -> list[Result]:
    """A result for each system and named group: the plain mean of its sets, as in the paper.

    The loss to miscalibration is that of the mean Cllr, not a mean of shares.
    """
    pairs = dict.fromkeys((r.group, r.system) for r in results if r.group)
    found = []
    for group, system in pairs:
        members = [r for r in results if r.group == group and r.system == system]
        values = {
            name: float(np.mean([member.values[name] for member in members]))
            for name in members[0].values
        }
        loss = PER_PRIOR[3]
        for name in values:
            if name.startswith(loss):
                prior = name.removeprefix(loss)
                pair = values[f"cllr{prior}"], values[f"min_cllr_lin{prior}"]
                values[name] = calibration_loss(*pair)
        found.append(
            Result(
                system,
                group,
                group,
                sum(member.n_target for member in members),
                sum(member.n_nontarget for member in members),
                values,
                average_of=tuple(member.set for member in members),
            )
        )
    return found
