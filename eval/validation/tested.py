"""What the trials of a set are made of: people, recordings, sessions, seconds, domains."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from dcaplda.eval.evaluation import Examined
from dcaplda.eval.trials.conditions import SideTables, used_names

Spread = tuple[float, float, float]
"""Least, median and most."""


@dataclass(frozen=True)
class Coverage:
    """Counts of what was compared; None where no table told."""

    n_recordings: int
    n_people: int | None
    people_with_target: int | None
    """People who have a comparison with themselves."""
    targets_of_a_person: Spread | None
    """Comparisons of a person's own recordings, among those who have any."""
    n_sessions: int | None
    sessions_of_a_person: Spread | None
    same_session_targets: int | None
    """Target trials with a session on both sides, which are too easy."""
    seconds: tuple[Spread, Spread] | None
    """Of the first and of the second side of the trials."""
    domains: tuple[tuple[str, int | None, int], ...]
    """Name, people and recordings of each."""


def coverage_of(seen: Examined) -> Coverage:
    """Count what was compared."""
    tables = seen.tables
    used = used_names(seen.joined, seen.names)
    recordings = sorted({u for name in used for u in tables.utterances_of(name)})
    speaker = {u: tables.speaker_of(u) for u in recordings} if tables.speaker else None
    own = _own_comparisons(seen) if tables.speaker else None
    return Coverage(
        len(recordings),
        None if speaker is None else len(set(speaker.values())),
        None if own is None else len(own),
        _spread(own.values()) if own else None,
        len({s for u in recordings for s in tables.sessions_of(u)}) if tables.session else None,
        _sessions_of_people(tables, speaker) if tables.session and speaker else None,
        _same_session(seen) if tables.session else None,
        _seconds(seen) if tables.seconds else None,
        _domains(tables, recordings, speaker) if tables.domain else (),
    )


def _spread(values: Iterable[float]) -> Spread:
    found: Sequence[float] = sorted(values)
    return float(found[0]), float(np.median(found)), float(found[-1])


def _own_comparisons(seen: Examined) -> Counter[str]:
    codes, counts = np.unique(seen.joined.enroll[seen.joined.labels], return_counts=True)
    own: Counter[str] = Counter()
    for code, count in zip(codes, counts, strict=True):
        own[seen.tables.speaker_of(seen.names[code])] += int(count)
    return own


def _sessions_of_people(tables: SideTables, speaker: dict[str, str]) -> Spread:
    sessions: dict[str, set[str]] = {}
    for utterance, who in speaker.items():
        sessions.setdefault(who, set()).update(tables.sessions_of(utterance))
    return _spread(len(found) for found in sessions.values())


def _same_session(seen: Examined) -> int:
    joined = seen.joined
    pairs = np.stack([joined.enroll[joined.labels], joined.test[joined.labels]], axis=1)
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    of = {int(code): seen.tables.sessions_of(seen.names[code]) for code in np.unique(distinct)}
    same = [bool(of[int(one)] & of[int(other)]) for one, other in distinct]
    return int(counts[np.array(same, bool)].sum())


def _seconds(seen: Examined) -> tuple[Spread, Spread]:
    first, second = (
        _spread(seen.tables.seconds_of(seen.names[code]) for code in np.unique(side))
        for side in (seen.joined.enroll, seen.joined.test)
    )
    return first, second


def _domains(
    tables: SideTables, recordings: list[str], speaker: dict[str, str] | None
) -> tuple[tuple[str, int | None, int], ...]:
    members: dict[str, list[str]] = {}
    for utterance in recordings:
        members.setdefault(tables.domain_of(utterance), []).append(utterance)
    return tuple(
        (name, None if speaker is None else len({speaker[u] for u in found}), len(found))
        for name, found in sorted(members.items())
    )
