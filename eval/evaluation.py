"""Reads the files of a set, joins them and measures every system on it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dcaplda.eval.metrics.bootstrap import DrawCounts
from dcaplda.eval.metrics.curves import curves
from dcaplda.eval.metrics.measure import Settings, measure
from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.people import People, PeopleOfSet
from dcaplda.eval.resampling.resampler import Resampler
from dcaplda.eval.results import Facts, Part, Result, spans
from dcaplda.eval.sets import SetSpec, SystemSpec
from dcaplda.eval.threads import in_threads
from dcaplda.eval.trials import conditions as cond
from dcaplda.eval.trials.ids import IdTable
from dcaplda.eval.trials.joining import Joined, join, read_score_label_lines, read_scores
from dcaplda.eval.trials.keys import Allowance, TrialKey, read_key
from dcaplda.runtime.errors import DcapldaError, InputError
from dcaplda.runtime.tables.columns import Columns

Advance = Callable[[int], None]
"""Told the number of replicates that were done; called from several threads."""
LARGE = 100 << 20
"""Bytes of a trial list from which sets are evaluated one by one, for the sake of memory."""


def nobody_waits(_: int) -> None:
    """Progress that is not shown."""


@dataclass(frozen=True)
class Examined:
    """All that is known of a system on a set, for whoever wants to look closer."""

    joined: Joined
    names: list[str]
    tables: cond.SideTables
    people: People | None
    target: Floats
    nontarget: Floats


@dataclass(frozen=True)
class Work:
    """How to evaluate: metrics, tolerance for odd lists, intervals, conditions, pictures."""

    settings: Settings = Settings()
    allow: Allowance = Allowance()
    form: str = "auto"
    columns: Columns | None = None
    """Names of columns if the files have a header line."""
    score_column: int | None = None
    """Where the score is in score files without one, counted from 1; None: where it can only be."""
    n_replicates: int = 1000
    confidence: float = 0.95
    seed: int = 0
    edges: tuple[float, ...] = cond.DEFAULT_EDGES
    with_curves: bool = False
    threads: int = 1
    advance: Advance = nobody_waits
    examine: Callable[[Examined], Any] | None = None
    """A closer look at each system on each set, kept as `Result.examined`."""

    @property
    def steps(self) -> int:
        """What `advance` is told in all of one system on one set."""
        return max(1, self.n_replicates)


def evaluate(sets: list[SetSpec], systems: list[SystemSpec], work: Work) -> list[Result]:
    """Results of every system on every set, set by set; several sets at a time."""
    sizes = [Path(spec.trials).stat().st_size for spec in sets if Path(spec.trials).is_file()]
    at_once = 1 if max(sizes, default=0) > LARGE else min(work.threads, len(sets))
    within = replace(work, threads=max(1, work.threads // at_once))
    found = in_threads(lambda spec: evaluate_set(spec, systems, within), sets, at_once)
    return [result for results in found for result in results]


def evaluate_set(spec: SetSpec, systems: list[SystemSpec], work: Work) -> list[Result]:
    """Results of every system on one set; the trial list is read once."""
    ids = IdTable()
    key = read_key(spec.trials, ids, work.allow, work.form, work.columns)
    tables = cond.SideTables.read(spec.files)
    people = PeopleOfSet(tables, work.n_replicates, work.seed)
    return [_evaluate(spec, system, key, people, work) for system in systems]


def _evaluate(
    spec: SetSpec, system: SystemSpec, key: TrialKey, people: PeopleOfSet, work: Work
) -> Result:
    scores = read_scores(system.scores_of(spec.name), key.ids, work.columns, key, work.score_column)
    joined = join(key, scores, work.allow)
    del scores
    names = key.ids.names
    target, nontarget = joined.split()
    try:
        found = measure(target, nontarget, work.settings)
    except InputError as error:
        raise InputError(f"set '{spec.name}', system '{system.name}': {error}") from None
    who = people.of(joined, names)
    rows = None
    if who is not None and who.trials is not None:
        rows = _replicates(target, nontarget, who, work)
    else:
        work.advance(work.steps)
    return Result(
        system.name,
        spec.name,
        spec.group,
        target.size,
        nontarget.size,
        found.values,
        found.affine,
        spans(found.values, rows, work.confidence),
        tuple(_parts(joined, names, people.tables, work)),
        joined.counts,
        _facts(joined, names, people.tables, None if who is None else who.n_speakers),
        curves(target, nontarget, work.settings) if work.with_curves else None,
        further_groups=spec.further_groups,
        replicates=rows,
        draws="" if who is None else who.draws,
        examined=None
        if work.examine is None
        else work.examine(Examined(joined, names, people.tables, who, target, nontarget)),
    )


def _replicates(target: Floats, nontarget: Floats, who: People, work: Work) -> Floats:
    assert who.trials is not None and who.counts is not None
    resampler = Resampler(target, nontarget, who.trials, work.settings)

    def rows(counts: DrawCounts) -> Floats:
        found = resampler.rows(counts)
        work.advance(counts.shape[0])
        return found

    batches = list(resampler.batches(who.counts, work.threads))
    return np.concatenate(list(in_threads(rows, batches, work.threads)))


def _parts(joined: Joined, names: list[str], tables: cond.SideTables, work: Work) -> Iterable[Part]:
    for condition in cond.conditions(joined, names, tables, work.edges):
        scores, labels = joined.scores[condition.trials], joined.labels[condition.trials]
        target, nontarget = scores[labels], scores[~labels]
        values = None
        if target.size and nontarget.size:
            values = measure(target, nontarget, work.settings).values
        yield Part(
            condition.kind, condition.enroll, condition.test, target.size, nontarget.size, values
        )


def _facts(
    joined: Joined, names: list[str], tables: cond.SideTables, n_speakers: int | None
) -> Facts:
    used = cond.used_names(joined, names)
    seconds = None
    if tables.seconds:
        lengths = [tables.seconds_of(name) for name in used]
        seconds = min(lengths), float(np.median(lengths)), max(lengths)
    domains = {tables.domain_of(name) for name in used} if tables.domain else set()
    return Facts(
        int(np.unique(joined.enroll).size),
        int(np.unique(joined.test).size),
        n_speakers,
        seconds,
        tuple(sorted(domains)),
    )


def evaluate_lines(source: str, work: Work) -> Result:
    """The result of Kaldi's `score label` lines, which have no ids."""
    scores, labels = read_score_label_lines(source)
    name = "stdin" if source in ("-", "") else Path(source).name
    target, nontarget = scores[labels], scores[~labels]
    try:
        found = measure(target, nontarget, work.settings)
    except DcapldaError as error:
        raise InputError(f"'{name}': {error}") from None
    drawn = curves(target, nontarget, work.settings) if work.with_curves else None
    return Result(
        "scores", name, "", target.size, nontarget.size, found.values, found.affine, curves=drawn
    )
