"""Draws the utterances of a simulated world: training data, held-out and unseen test sets."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.oracle import Trials
from dcaplda.eval.world import Array, Domain, Index, World
from dcaplda.eval.world_config import WorldConfig

# Streams of random numbers besides the world's own; see world.py.
_TRAIN, _TEST, _COHORT, _CALIBRATION = 1, 2, 3, 4


@dataclass(frozen=True)
class Recordings:
    """Recordings of some speakers, and what all chunks of each share."""

    speaker: Index
    condition: Index
    quality: Index
    """Of the recording's speaker."""
    center: Array
    """mean(g) + y + shift + e, (R, D)."""


@dataclass(frozen=True)
class Utterances:
    """Embeddings of utterances with everything that the files tell about them."""

    ids: list[str]
    speakers: list[str]
    sessions: list[str]
    domains: list[str]
    seconds: Array
    embeddings: NDArray[np.float32]
    conditions: list[str]
    """The truth about each utterance's recording; no system may use it."""
    qualities: list[str]


@dataclass(frozen=True)
class EvaluationSet:
    """Utterances of one unseen group of speakers, and two lists of trials between them."""

    name: str
    group: str
    utterances: Utterances
    models: dict[str, list[int]]
    """Enrolment models of several utterances: name -> rows."""
    single: "LabelledTrials"
    multi: "LabelledTrials"


@dataclass(frozen=True)
class LabelledTrials:
    """Trials by name, and the same by rows for the oracle."""

    enroll: list[str]
    test: list[str]
    is_target: NDArray[np.bool_]
    rows: Trials


def log_uniform(rng: np.random.Generator, bounds: list[float], count: int) -> Array:
    """Seconds whose logarithm is uniform, to the hundredth that files hold."""
    drawn: Array = np.exp(rng.uniform(math.log(bounds[0]), math.log(bounds[1]), count))
    return drawn.round(2)


def draw_recordings(
    rng: np.random.Generator, world: World, domain: Domain, speakers: int, recordings: int
) -> Recordings:
    """Speakers with as many recordings each, speaker by speaker."""
    dim = world.dim
    quality = rng.choice(len(domain.quality_weights), speakers, p=domain.quality_weights)
    voice = domain.quality_means[quality]
    voice = voice + np.sqrt(world.between) * rng.standard_normal((speakers, dim))
    speaker = np.repeat(np.arange(speakers), recordings)
    condition = rng.choice(len(domain.condition_weights), len(speaker), p=domain.condition_weights)
    noise = np.sqrt(domain.session[condition]) * rng.standard_normal((len(speaker), dim))
    center = voice[speaker] + domain.shifts[condition] + noise
    return Recordings(speaker, condition, quality[speaker], center)


def draw_utterances(
    rng: np.random.Generator,
    world: World,
    domain: Domain,
    recordings: Recordings,
    which: Index,
    seconds: Array,
) -> NDArray[np.float32]:
    """Embeddings of utterances of `seconds`, each cut from recording `which`."""
    variance = domain.chunk[recordings.condition[which]] / seconds[:, None]
    noise = np.sqrt(variance) * rng.standard_normal(variance.shape)
    return world.embeddings(recordings.center[which] + noise).astype(np.float32)


def _described(
    world: World,
    domain: Domain,
    recordings: Recordings,
    which: Index,
    seconds: Array,
    embeddings: NDArray[np.float32],
    prefix: str,
    marks: list[str],
) -> Utterances:
    """Give names: <prefix>-s0001-r02 and what `marks` adds for each utterance."""
    speaker_of = recordings.speaker
    first = np.searchsorted(speaker_of, speaker_of)  # first recording of the same speaker
    names = [f"{prefix}-s{speaker_of[r]:05d}" for r in range(len(speaker_of))]
    sessions = [f"{names[r]}-r{r - first[r]:02d}" for r in range(len(speaker_of))]
    return Utterances(
        ids=[f"{sessions[r]}{mark}" for r, mark in zip(which, marks, strict=True)],
        speakers=[names[r] for r in which],
        sessions=[sessions[r] for r in which],
        domains=[domain.name] * len(which),
        seconds=seconds,
        embeddings=embeddings,
        conditions=[domain.condition_names[recordings.condition[r]] for r in which],
        qualities=[domain.quality_names[recordings.quality[r]] for r in which],
    )


def merged(parts: list[Utterances]) -> Utterances:
    """Utterances of several domains as one collection."""
    columns: dict[str, Any] = {}
    for item in dataclasses.fields(Utterances):
        values = [getattr(part, item.name) for part in parts]
        is_list = isinstance(values[0], list)
        columns[item.name] = sum(values, []) if is_list else np.concatenate(values)
    return Utterances(**columns)


def taken(utterances: Utterances, rows: Index) -> Utterances:
    """Some of the utterances."""
    columns: dict[str, Any] = {}
    for item in dataclasses.fields(Utterances):
        column = getattr(utterances, item.name)
        is_list = isinstance(column, list)
        columns[item.name] = [column[row] for row in rows] if is_list else column[rows]
    return Utterances(**columns)


def training_sets(config: WorldConfig, world: World, seed: int) -> dict[str, Utterances]:
    """`train`: chunks of every training recording; `train_full`: the recordings whole."""
    chunks, whole = [], []
    for number, (name, section) in enumerate(config.by_role("train").items()):
        rng = np.random.default_rng([seed, _TRAIN, number])
        domain = world.domains[name]
        drawn = draw_recordings(rng, world, domain, section.speakers, section.recordings)
        count = len(drawn.speaker)
        which = np.repeat(np.arange(count), config.sets.chunks)
        marks = [f"-c{c}" for c in range(config.sets.chunks)] * count
        seconds = log_uniform(rng, config.sets.chunk_seconds, len(which))
        vectors = draw_utterances(rng, world, domain, drawn, which, seconds)
        chunks.append(_described(world, domain, drawn, which, seconds, vectors, name, marks))
        which = np.arange(count)
        seconds = log_uniform(rng, section.full_seconds, count)
        vectors = draw_utterances(rng, world, domain, drawn, which, seconds)
        whole.append(
            _described(world, domain, drawn, which, seconds, vectors, name, ["-full"] * count)
        )
    return {"train": merged(chunks), "train_full": merged(whole)}


def cohort_rows(config: WorldConfig, training: Utterances, seed: int) -> Index:
    """Rows of training utterances for score normalization: as many of each domain."""
    rng = np.random.default_rng([seed, _COHORT])
    domains = np.array(training.domains)
    chosen = []
    for name in dict.fromkeys(training.domains):
        rows = np.flatnonzero(domains == name)
        chosen.append(rng.permutation(rows)[: config.sets.cohort])
    return np.sort(np.concatenate(chosen))


def calibration_trials(
    config: WorldConfig, training: Utterances, seed: int
) -> tuple[Index, list[tuple[int, int, bool]]]:
    """Trials of training speakers for the calibration of systems that have none of their own.

    As the paper makes them: as many speakers of each domain (all, where there are too few), two
    sessions of each and one utterance of each session; all trials within a domain, where
    nontargets beyond `nontargets` per domain are thinned out. Returns the rows used and
    (row, row, is target) of each trial.
    """
    rng = np.random.default_rng([seed, _CALIBRATION])
    domains, speakers = np.array(training.domains), np.array(training.speakers)
    names = list(dict.fromkeys(training.domains))
    share = max(2, config.sets.calibration_speakers // len(names))
    used: list[int] = []
    trials: list[tuple[int, int, bool]] = []
    for name in names:
        mine = np.flatnonzero(domains == name)
        people = rng.permutation(np.unique(speakers[mine]))[:share]
        chosen = mine[np.isin(speakers[mine], people)]
        first, second = _one_of_two_sessions(rng, training, chosen)
        left, right = (index.reshape(-1) for index in np.indices((len(first), len(second))))
        others = np.flatnonzero(left != right)
        if len(others) > config.sets.nontargets:
            others = np.sort(rng.choice(others, config.sets.nontargets, replace=False))
        for code in np.sort(np.concatenate([np.flatnonzero(left == right), others])):
            a, b = left[code], right[code]
            trials.append((first[a], second[b], bool(a == b)))
        used += first + second
    return np.sort(np.array(used)), trials


def _one_of_two_sessions(
    rng: np.random.Generator, training: Utterances, rows: Index
) -> tuple[list[int], list[int]]:
    """For each speaker of `rows`, an utterance of one session and one of another."""
    people: dict[str, dict[str, list[int]]] = {}
    for row in rows:
        sessions = people.setdefault(training.speakers[row], {})
        sessions.setdefault(training.sessions[row], []).append(int(row))
    first, second = [], []
    for sessions in people.values():
        lists = list(sessions.values())
        a, b = rng.choice(len(lists), 2, replace=False)
        first.append(int(rng.choice(lists[a])))
        second.append(int(rng.choice(lists[b])))
    return first, second


def evaluation_sets(config: WorldConfig, world: World, seed: int) -> Iterator[EvaluationSet]:
    """Two versions, full and short, of every held-out, development and evaluation domain."""
    sets = config.sets
    for number, (name, section) in enumerate(config.domains.items()):
        rng = np.random.default_rng([seed, _TEST, number])
        role = {"train": "trnh", "dev": "dev", "eval": "eval"}[section.role]
        short = sets.eval_short_seconds if role == "eval" else sets.dev_short_seconds
        count = sets.heldout_speakers if role == "trnh" else section.speakers
        per_speaker = sets.enroll_recordings + sets.test_recordings
        recordings = draw_recordings(rng, world, world.domains[name], count, per_speaker)
        chosen = _nontargets(rng, count, config)
        for version, bounds in (("full", section.full_seconds), ("short", short)):
            which = np.arange(len(recordings.speaker))
            seconds = log_uniform(rng, bounds, len(which))
            vectors = draw_utterances(rng, world, world.domains[name], recordings, which, seconds)
            title = f"{role}-{name}-{version}"
            marks = [f"-{version}"] * len(which)
            domain = world.domains[name]
            utterances = _described(
                world, domain, recordings, which, seconds, vectors, f"{role}-{name}", marks
            )
            group = role if role != "eval" else name
            yield _with_trials(title, group, utterances, count, config, chosen)


@dataclass(frozen=True)
class _Nontargets:
    """Which pairs (enrolment, test) of different speakers are trials: codes row * tests + test."""

    single: Index
    multi: Index


def _nontargets(rng: np.random.Generator, speakers: int, config: WorldConfig) -> _Nontargets:
    """The same pairs for both versions of a domain, so that they differ in duration alone."""
    sets = config.sets
    test_speaker = np.repeat(np.arange(speakers), sets.test_recordings)
    made = []
    for per_speaker, most in (
        (sets.enroll_recordings, sets.nontargets),
        (1, sets.multi_nontargets),
    ):
        owner = np.repeat(np.arange(speakers), per_speaker)
        codes = np.flatnonzero((owner[:, None] != test_speaker).reshape(-1))
        if len(codes) > most:
            codes = np.sort(rng.choice(codes, most, replace=False))
        made.append(codes)
    return _Nontargets(*made)


def _with_trials(
    name: str,
    group: str,
    utterances: Utterances,
    speakers: int,
    config: WorldConfig,
    nontargets: _Nontargets,
) -> EvaluationSet:
    """Single trials enrol each of a speaker's first recordings, multi trials all of them."""
    sets = config.sets
    per_speaker = sets.enroll_recordings + sets.test_recordings
    rows = np.arange(speakers * per_speaker).reshape(speakers, per_speaker)
    enroll_rows = rows[:, : sets.enroll_recordings]
    test_rows = rows[:, sets.enroll_recordings :].reshape(-1)
    # Both versions of a domain may be scored in one go, so their models differ in name.
    version = name.rsplit("-", 1)[1]
    models = {
        f"{utterances.speakers[own[0]]}-model-{version}": [int(row) for row in own]
        for own in enroll_rows
    }
    singles = {utterances.ids[row]: [int(row)] for row in enroll_rows.reshape(-1)}
    return EvaluationSet(
        name=name,
        group=group,
        utterances=utterances,
        models=models,
        single=_trials(utterances, singles, test_rows, nontargets.single),
        multi=_trials(utterances, models, test_rows, nontargets.multi),
    )


def _trials(
    utterances: Utterances, models: dict[str, list[int]], test_rows: Index, nontargets: Index
) -> LabelledTrials:
    names, members = list(models), list(models.values())
    speakers = np.array(utterances.speakers)
    owner = speakers[[rows[0] for rows in members]]
    targets = np.flatnonzero((owner[:, None] == speakers[test_rows]).reshape(-1))
    codes = np.sort(np.concatenate([targets, nontargets]))
    model, test = codes // len(test_rows), codes % len(test_rows)
    return LabelledTrials(
        enroll=[names[m] for m in model],
        test=[utterances.ids[row] for row in test_rows[test]],
        is_target=np.isin(codes, targets),
        rows=Trials(members=members, enroll_index=model, test_index=test_rows[test]),
    )
