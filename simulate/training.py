"""What a simulated world is trained on: chunks, whole recordings, a cohort, calibration trials."""

import numpy as np

from dcaplda.simulate.config import WorldConfig
from dcaplda.simulate.draws import (
    CALIBRATION,
    COHORT,
    TRAIN,
    Utterances,
    described,
    draw_recordings,
    draw_utterances,
    log_uniform,
    merged,
)
from dcaplda.simulate.world import Index, World


def training_sets(config: WorldConfig, world: World, seed: int) -> dict[str, Utterances]:
    """`train`: chunks of every training recording; `train_full`: the recordings whole."""
    chunks, whole = [], []
    for number, (name, section) in enumerate(config.by_role("train").items()):
        rng = np.random.default_rng([seed, TRAIN, number])
        domain = world.domains[name]
        drawn = draw_recordings(rng, world, domain, section.speakers, section.recordings)
        count = len(drawn.speaker)
        which = np.repeat(np.arange(count), config.sets.chunks)
        marks = [f"-c{c}" for c in range(config.sets.chunks)] * count
        seconds = log_uniform(rng, config.sets.chunk_seconds, len(which))
        vectors = draw_utterances(rng, world, domain, drawn, which, seconds)
        chunks.append(described(domain, drawn, which, seconds, vectors, name, marks))
        which = np.arange(count)
        seconds = log_uniform(rng, section.full_seconds, count)
        vectors = draw_utterances(rng, world, domain, drawn, which, seconds)
        whole.append(described(domain, drawn, which, seconds, vectors, name, ["-full"] * count))
    return {"train": merged(chunks), "train_full": merged(whole)}


def cohort_rows(config: WorldConfig, training: Utterances, seed: int) -> Index:
    """Rows of training utterances for score normalization: as many of each domain."""
    rng = np.random.default_rng([seed, COHORT])
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
    rng = np.random.default_rng([seed, CALIBRATION])
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
