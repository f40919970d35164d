"""Draws the utterances of a simulated world, and its held-out and unseen test sets."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.simulate.config import WorldConfig
from dcaplda.simulate.oracle import Trials
from dcaplda.simulate.world import Array, Domain, Index, World

# Streams of random numbers besides the world's own; see world.py.
TRAIN, TEST, COHORT, CALIBRATION = 1, 2, 3, 4


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


def described(
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


def evaluation_sets(config: WorldConfig, world: World, seed: int) -> Iterator[EvaluationSet]:
    """Two versions, full and short, of every held-out, development and evaluation domain."""
    sets = config.sets
    for number, (name, section) in enumerate(config.domains.items()):
        rng = np.random.default_rng([seed, TEST, number])
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
            utterances = described(
                domain, recordings, which, seconds, vectors, f"{role}-{name}", marks
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
