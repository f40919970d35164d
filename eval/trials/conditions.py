"""Who spoke, how long and where: tables over ids, and the trials of each condition."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.trials.joining import Joined
from dcaplda.runtime.errors import InputError, TableError, UsageError
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_words
from dcaplda.runtime.values import check_seconds

DEFAULT_EDGES = (4.0, 8.0, 16.0, 32.0)
"""Seconds between duration bins: powers of two, since log duration is what matters."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class SideFiles:
    """Names of the tables that describe the ids of a trial list; empty: not given."""

    utt2spk: str = ""
    utt2dur: str = ""
    utt2dom: str = ""
    spk2utt: str = ""
    frame_shift: float = 0.0
    utt2sess: str = ""


@dataclass(frozen=True)
class SideTables:
    """Speaker, seconds and domain of utterances, and the utterances of enrolment models."""

    files: SideFiles
    speaker: dict[str, str]
    seconds: dict[str, float]
    domain: dict[str, str]
    models: dict[str, list[str]]
    session: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, files: SideFiles) -> "SideTables":
        """Read what is given."""
        return cls(
            files,
            read_words(files.utt2spk) if files.utt2spk else {},
            _read_seconds(files) if files.utt2dur else {},
            read_words(files.utt2dom) if files.utt2dom else {},
            read_lists(files.spk2utt) if files.spk2utt else {},
            read_words(files.utt2sess) if files.utt2sess else {},
        )

    def utterances_of(self, name: str) -> list[str]:
        """The utterances of a model, or the one that an id is."""
        return self.models.get(name, [name])

    def sessions_of(self, name: str) -> frozenset[str]:
        """Sessions of an utterance or of all utterances of a model."""
        found = [self.session.get(utterance) for utterance in self.utterances_of(name)]
        if None in found:
            raise self._missing(name, self.files.utt2sess)
        return frozenset(session for session in found if session is not None)

    def speaker_of(self, name: str) -> str:
        """Speaker of an utterance, of a model of several, or of a model named by its speaker."""
        if name in self.speaker:
            return self.speaker[name]
        speakers = {self.speaker.get(utterance) for utterance in self.models.get(name, ())}
        if len(speakers) == 1 and None not in speakers:
            return str(speakers.pop())
        if len(speakers) > 1 and None not in speakers:
            raise InputError(f"'{self.files.spk2utt}': model '{name}' mixes several speakers")
        if name in self.known_speakers:
            return name
        raise self._missing(name, self.files.utt2spk)

    @cached_property
    def known_speakers(self) -> frozenset[str]:
        """All speakers of utt2spk."""
        return frozenset(self.speaker.values())

    def seconds_of(self, name: str) -> float:
        """Seconds of speech of an utterance, or of all utterances of a model together."""
        if name in self.seconds:
            return self.seconds[name]
        parts = [self.seconds.get(utterance) for utterance in self.models.get(name, ())]
        if not parts or None in parts:
            raise self._missing(name, self.files.utt2dur)
        return float(sum(part for part in parts if part is not None))

    def domain_of(self, name: str) -> str:
        """Domain of an utterance or of a model; 'mixed' for a model over several."""
        if name in self.domain:
            return self.domain[name]
        domains = {self.domain.get(utterance) for utterance in self.models.get(name, ())}
        if not domains or None in domains:
            raise self._missing(name, self.files.utt2dom)
        return str(domains.pop()) if len(domains) == 1 else "mixed"

    def _missing(self, name: str, table: str) -> TableError:
        if name in self.models:
            absent = "an utterance of the model"
            return TableError(f"'{table}': has no entry for {absent} '{name}'")
        way_out = "" if self.models else "; is it a model? then give --spk2utt"
        return TableError(f"'{table}': has no entry for '{name}' of the trials{way_out}")


def _read_seconds(files: SideFiles) -> dict[str, float]:
    seconds = read_durations(files.utt2dur, files.frame_shift)
    check_seconds(seconds, f"'{files.utt2dur}'", TableError)
    return seconds


@dataclass(frozen=True)
class Condition:
    """A part of a set's trials: the two sides' bins or domains, and which trials they are."""

    kind: str
    """`duration` or `domain`."""
    enroll: str
    test: str
    trials: Mask


def bin_names(edges: tuple[float, ...]) -> list[str]:
    """Names of the duration bins: below the first edge, between, from the last up."""
    middle = [f"{low:g}-{high:g} s" for low, high in zip(edges[:-1], edges[1:], strict=True)]
    return [f"<{edges[0]:g} s", *middle, f"{edges[-1]:g}+ s"]


def check_edges(edges: tuple[float, ...]) -> tuple[float, ...]:
    """Return the edges of duration bins if they are positive and rise."""
    ends = (0.0, *edges)
    rising = all(low < high for low, high in zip(ends[:-1], ends[1:], strict=True))
    if not edges or not rising or not np.isfinite(edges[-1]):
        shown = ",".join(f"{edge:g}" for edge in edges)
        raise UsageError(f"--duration-bins={shown}: expected rising seconds, as 4,8,16,32")
    return edges


def per_trial(joined: Joined, names: list[str], value_of: dict[str, int]) -> NDArray[np.int64]:
    """Both sides' values (2, N) from a value for each id that occurs."""
    lookup = np.zeros(len(names), np.int64)
    for code, name in enumerate(names):
        if name in value_of:
            lookup[code] = value_of[name]
    return np.stack([lookup[joined.enroll], lookup[joined.test]])


def used_names(joined: Joined, names: list[str]) -> list[str]:
    """Ids that occur on either side, sorted, so that nothing depends on the order of files."""
    present = np.zeros(len(names), bool)
    present[joined.enroll] = True
    present[joined.test] = True
    return sorted(names[code] for code in np.flatnonzero(present))


def trial_speakers(joined: Joined, names: list[str], tables: SideTables) -> NDArray[np.int64]:
    """Speaker numbers of both sides (2, N), numbered in the order of their names."""
    speaker = {name: tables.speaker_of(name) for name in used_names(joined, names)}
    number = {name: place for place, name in enumerate(sorted(set(speaker.values())))}
    return per_trial(joined, names, {name: number[who] for name, who in speaker.items()})


def conditions(
    joined: Joined, names: list[str], tables: SideTables, edges: tuple[float, ...] = DEFAULT_EDGES
) -> Iterator[Condition]:
    """Every pair of duration bins and of domains that has a trial."""
    used = used_names(joined, names)
    if tables.seconds:
        # A duration equal to an edge belongs to the longer bin.
        bins = {
            name: int(np.searchsorted(edges, tables.seconds_of(name), "right")) for name in used
        }
        yield from _pairs("duration", bin_names(edges), per_trial(joined, names, bins))
    if tables.domain:
        domain = {name: tables.domain_of(name) for name in used}
        known = sorted(set(domain.values()))
        place = {name: known.index(value) for name, value in domain.items()}
        yield from _pairs("domain", known, per_trial(joined, names, place))


def _pairs(kind: str, labels: list[str], sides: NDArray[np.int64]) -> Iterator[Condition]:
    pair = sides[0] * len(labels) + sides[1]
    for number in np.unique(pair):
        enroll, test = divmod(int(number), len(labels))
        yield Condition(kind, labels[enroll], labels[test], pair == number)
