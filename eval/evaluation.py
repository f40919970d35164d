"""Reads the files of a set, joins them and measures every system on it."""

import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dcaplda.eval.metrics.bootstrap import TrialSpeakers, intervals, replicates
from dcaplda.eval.metrics.curves import curves
from dcaplda.eval.metrics.measure import Settings, WeightedMeasure, measure
from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.results import Facts, Interval, Part, Result
from dcaplda.eval.sets import SetSpec, SystemSpec
from dcaplda.eval.trials import conditions as cond
from dcaplda.eval.trials.joining import Joined, join, read_score_label_lines, read_scores
from dcaplda.eval.trials.keys import Allowance, TrialKey, read_key
from dcaplda.eval.trials.lines import IdTable
from dcaplda.runtime.errors import DcapldaError, InputError
from dcaplda.runtime.tables.columns import Columns

Bar = Callable[[Iterable[int], str], Iterable[int]]


def no_bar(steps: Iterable[int], _: str) -> Iterable[int]:
    """A progress bar that shows nothing."""
    return steps


@dataclass(frozen=True)
class Work:
    """How to evaluate: metrics, tolerance for odd lists, intervals, conditions, pictures."""

    settings: Settings = Settings()
    allow: Allowance = Allowance()
    form: str = "auto"
    columns: Columns | None = None
    """Names of columns if the files have a header line."""
    n_replicates: int = 1000
    confidence: float = 0.95
    seed: int = 0
    edges: tuple[float, ...] = cond.DEFAULT_EDGES
    with_curves: bool = False
    bar: Bar = no_bar


def evaluate_set(spec: SetSpec, systems: list[SystemSpec], work: Work) -> list[Result]:
    """Results of every system on one set; the trial list is read once."""
    ids = IdTable()
    key = read_key(spec.trials, ids, work.allow, work.form, work.columns)
    tables = cond.SideTables.read(spec.files)
    return [_evaluate(spec, system, key, tables, work) for system in systems]


def _evaluate(
    spec: SetSpec, system: SystemSpec, key: TrialKey, tables: cond.SideTables, work: Work
) -> Result:
    scores = read_scores(system.scores_of(spec.name), key.ids, work.columns)
    joined = join(key, scores, work.allow)
    del scores
    names = key.ids.names
    target, nontarget = joined.split()
    try:
        found = measure(target, nontarget, work.settings)
    except InputError as error:
        raise InputError(f"set '{spec.name}', system '{system.name}': {error}") from None
    speakers = cond.trial_speakers(joined, names, tables) if tables.speaker else None
    spans: dict[str, Interval] = {}
    rows = None
    if speakers is not None and work.n_replicates:
        _check_speakers(joined, names, speakers, tables)
        drawn = TrialSpeakers.of(speakers[0], speakers[1], joined.labels)
        label = f"{system.name} on {spec.name}"
        people = [tables.speaker_of(names[i]) for i in np.unique([joined.enroll, joined.test])]
        rows = _replicates(target, nontarget, drawn, work, _draw_seed(people, work.seed), label)
        spans = dict(zip(work.settings.names, intervals(rows, work.confidence), strict=True))
    return Result(
        system.name,
        spec.name,
        spec.group,
        target.size,
        nontarget.size,
        found.values,
        found.affine,
        spans,
        tuple(_parts(joined, names, tables, work)),
        joined.counts,
        _facts(joined, names, tables, speakers),
        curves(target, nontarget, work.settings) if work.with_curves else None,
        further_groups=spec.further_groups,
        replicates=rows,
    )


def _check_speakers(
    joined: Joined, names: list[str], speakers: np.ndarray, tables: cond.SideTables
) -> None:
    """The labels and utt2spk must tell the same story, or there is no sampling theory."""
    wrong = (speakers[0] == speakers[1]) != joined.labels
    if not wrong.any():
        return
    place = int(np.argmax(wrong))
    label = "target" if joined.labels[place] else "nontarget"
    pair = names[joined.enroll[place]], names[joined.test[place]]
    who = tables.speaker_of(pair[0]), tables.speaker_of(pair[1])
    raise InputError(
        f"'{tables.files.utt2spk}': speakers of '{pair[0]}' and '{pair[1]}' are '{who[0]}' and "
        f"'{who[1]}', but the trial is labelled {label} ({np.count_nonzero(wrong)} such trials); "
        "correct one of the files"
    )


def _draw_seed(people: list[str], seed: int) -> list[int]:
    """A seed that sets of the same people share, and sets of other people do not.

    So versions of one set, as short and full, vary together in an average, and different sets
    independently.
    """
    return [seed, zlib.crc32("\n".join(sorted(set(people))).encode())]


def _replicates(
    target: Floats,
    nontarget: Floats,
    speakers: TrialSpeakers,
    work: Work,
    seed: list[int],
    label: str,
) -> Floats:
    weighted = WeightedMeasure(target, nontarget, work.settings)
    return replicates(
        weighted, speakers, work.n_replicates, seed, lambda steps: work.bar(steps, label)
    )


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
    joined: Joined, names: list[str], tables: cond.SideTables, speakers: np.ndarray | None
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
        None if speakers is None else int(np.unique(speakers).size),
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
