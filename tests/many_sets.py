"""Findings of as many sets and systems as a test asks for, from scores drawn once."""

from dataclasses import replace
from functools import cache

import numpy as np

from dcaplda.eval.differences import differences
from dcaplda.eval.evaluation import Work
from dcaplda.eval.metrics.bootstrap import intervals
from dcaplda.eval.metrics.curves import curves
from dcaplda.eval.metrics.measure import Settings, measure
from dcaplda.eval.report.findings import Findings
from dcaplda.eval.results import Facts, Part, Result, averages

N_DRAWS = 12
BINS = ("<4 s", "4-8 s", "8-16 s", "16-32 s", "32+ s")
DOMAINS = ("tel", "mic")


@cache
def drawn(number: int) -> Result:
    """One of a dozen results, with curves, conditions and replicates as an evaluation has them."""
    rng = np.random.default_rng(number)
    middle, scale, shift = rng.uniform(2, 6), rng.choice([0.5, 1.0, 1.0, 2.0]), rng.normal(0, 1)
    if number % 3 == 0:  # calibrated
        scale, shift = 1.0, 0.0
    target = scale * rng.normal(middle, np.sqrt(2 * middle), 600) + shift
    nontarget = scale * rng.normal(-middle, np.sqrt(2 * middle), 6000) + shift
    settings = Settings()
    found = measure(target, nontarget, settings)
    # A hard draw of people is hard for every metric.
    shared, own = rng.normal(1, 0.08, (40, 1)), rng.normal(1, 0.005, (40, len(found.values)))
    rows = np.array(list(found.values.values())) * shared * own
    spans = dict(zip(settings.names, intervals(rows), strict=True))
    pairs = [("duration", a, b) for a in BINS for b in BINS]
    pairs += [("domain", a, b) for a in DOMAINS for b in DOMAINS]
    parts = [
        Part(kind, a, b, 60 + i, 600, None if i == 4 else drawn_values(number, i))
        for i, (kind, a, b) in enumerate(pairs)
    ]
    return Result(
        "", "", "", target.size, nontarget.size, found.values, found.affine, spans, tuple(parts),
        facts=Facts(300, 400, 60, (2.5, 12.0, 61.3), DOMAINS),
        curves=curves(target, nontarget, settings), replicates=rows,
    )  # fmt: skip


@cache
def drawn_values(number: int, part: int) -> dict[str, float]:
    rng = np.random.default_rng([number, part])
    return measure(rng.normal(3, 2, 40), rng.normal(-3, 2, 200), Settings()).values


def findings(
    n_sets: int,
    systems: tuple[str, ...] = ("plda", "d-plda-dsd"),
    *,
    n_groups: int = 0,
    baseline: str = "",
    name: str = "set-{}",
) -> Findings:
    """Sets in groups of about the same size; `name` has the number of the set in it."""
    results = [
        replace(
            drawn((7 * i + 5 * j) % N_DRAWS),
            system=system,
            set=name.format(i),
            group=f"group-{i * n_groups // n_sets}" if n_groups else "",
        )
        for i in range(n_sets)
        for j, system in enumerate(systems)
    ]
    means = averages(results)
    found = differences(results + means, baseline, 0.95) if baseline else []
    return Findings(results, means, Work(n_replicates=40), differences=found)
