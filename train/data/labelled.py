"""Labelled training vectors in memory, cleaned of what training cannot use."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime import checks
from dcaplda.runtime.errors import InputError
from dcaplda.train.data.columns import numbered
from dcaplda.train.data.picked import Vectors, pick

Index = NDArray[np.int32]
_COLUMNS = 16
"""Columns ordered at a time: a line of the cache, and a thirtieth of embeddings of 512."""


@dataclass(frozen=True)
class TrainingData:
    """One row per utterance, sorted by domain, speaker and session.

    `speaker` is the class of batches and weights: a person in one domain. `identity` is the
    person: degraded copies in another domain have the same one, and never make an impostor
    trial with the original. Labels count from 0.
    """

    ids: list[str]
    embeddings: Vectors
    seconds: NDArray[np.float32]
    """Seconds of speech; NaN throughout where durations are not known."""
    speaker: Index
    identity: Index
    session: Index
    recording: Index
    domain: Index
    domain_names: list[str]
    speaker_names: list[str]
    dropped: dict[str, int] = field(default_factory=dict)
    """Utterances left out, by reason."""
    notes: list[str] = field(default_factory=list)
    """What was missing and how it was made up for."""

    @property
    def n_speakers(self) -> int:
        """Speakers, counted once per domain."""
        return len(self.speaker_names)

    @property
    def speaker_domain(self) -> Index:
        """Domain of each speaker; (n_speakers,)."""
        domains = np.empty(self.n_speakers, dtype=np.int32)
        domains[self.speaker] = self.domain
        return domains

    def speaker_weights(self, balance: str) -> NDArray[np.float64]:
        """c_s of eq. 5-7: 1 / speakers of the domain, or 1 for `flat`.

        With `even` also every speaker of a domain has the same mass, however many samples.
        """
        if balance == "flat":
            return np.ones(self.n_speakers)
        domains = self.speaker_domain
        weights = 1.0 / np.bincount(domains)[domains]
        return weights / np.bincount(self.speaker) if balance == "even" else weights

    @cached_property
    def domain_group(self) -> Index:
        """Number of each domain's group: domains that share people, such as degraded copies."""
        group = np.arange(len(self.domain_names))
        pairs = np.unique(np.stack([self.identity, self.domain], axis=1), axis=0)
        for one, other in zip(pairs[:-1], pairs[1:], strict=True):
            if one[0] == other[0]:
                group[group == group[other[1]]] = group[one[1]]
        return np.unique(group, return_inverse=True)[1].astype(np.int32)

    def subset(self, rows: NDArray[np.integer]) -> "TrainingData":
        """These rows (in rising order), labels renumbered without holes; vectors are not copied."""
        speakers, speaker = np.unique(self.speaker[rows], return_inverse=True)
        domains, domain = np.unique(self.domain[rows], return_inverse=True)
        return TrainingData(
            ids=[self.ids[row] for row in rows],
            embeddings=pick(self.embeddings, rows),
            seconds=self.seconds[rows],
            speaker=speaker.astype(np.int32),
            identity=self.identity[rows],
            session=self.session[rows],
            recording=self.recording[rows],
            domain=domain.astype(np.int32),
            domain_names=[self.domain_names[d] for d in domains],
            speaker_names=[self.speaker_names[s] for s in speakers],
        )

    def one_per_recording(self) -> NDArray[np.int64]:
        """Rows of one utterance of each recording: chunks of it say the same about its channel."""
        order = np.random.default_rng(0).permutation(len(self.ids))
        _, first = np.unique(self.recording[order], return_index=True)
        return np.sort(order[first])

    def summary(self) -> list[str]:
        """Lines for the log: what there is per domain, and what was dropped."""
        lines = []
        for number, name in enumerate(self.domain_names):
            rows = self.domain == number
            n_speakers = len(np.unique(self.speaker[rows]))
            n_sessions = len(np.unique(self.session[rows]))
            seconds = self.seconds[rows]
            span = "" if np.isnan(seconds).any() else f", {seconds.min():g} to {seconds.max():g} s"
            lines.append(
                f"domain {name}: {n_speakers} speakers, {n_sessions} sessions, "
                f"{int(rows.sum())} utterances{span}"
            )
        lines += [f"dropped {count} {reason}" for reason, count in self.dropped.items() if count]
        return lines


@dataclass(frozen=True)
class Labels:
    """What is known of the utterances besides their vectors; each a map from utterance id."""

    place: str
    speaker: Mapping[str, str]
    session: Mapping[str, str]
    domain: Mapping[str, str] | None = None
    seconds: Mapping[str, float] | None = None
    recording: Mapping[str, str] | None = None
    own_sessions: bool = False
    """Nothing tells sessions: each utterance is taken for one."""


def assemble(
    ids: Sequence[str],
    embeddings: NDArray[np.float32],
    labels: Labels,
    allow_shared_sessions: bool = False,
    in_place: bool = False,
) -> TrainingData:
    """Join vectors and labels, drop what cannot be used and count it.

    With `in_place` the vectors are ordered where they lie, and are the caller's no more.

    Dropped are utterances without vector, speaker, session or duration, and speakers with one
    session in their domain. An utterance without a domain, where others have one, and a
    session with two speakers are errors: guessing would corrupt the training silently.
    """
    dropped: Counter[str] = Counter()
    rows = _usable_rows(ids, labels, dropped)
    dropped["utterances without a vector"] = _without_vector(ids, labels)
    if not len(rows):
        raise InputError(
            f"{labels.place}: no utterance has both a vector and labels; {_example(ids, labels)}"
        )
    speakers, speaker = _ranked(labels.speaker[ids[row]] for row in rows)
    sessions, session = _ranked(labels.session[ids[row]] for row in rows)
    domains, domain = _ranked(_domain(ids[row], labels) for row in rows)
    if not allow_shared_sessions:
        _refuse_shared_sessions(labels.place, (speakers, speaker), (sessions, session))
    # A class is a person in one domain, and needs two sessions.
    own_class = np.unique(_pairs(domain, speaker), return_inverse=True)[1]
    per_class = np.bincount(np.unique(_pairs(own_class, session)) // (int(session.max()) + 1))
    dropped["speakers with one session"] = int(np.sum(per_class == 1))
    keep = np.flatnonzero(per_class[own_class] > 1)
    dropped["utterances of speakers with one session"] = len(rows) - len(keep)
    if not len(keep):
        raise InputError(
            f"{labels.place}: no speaker has two sessions, so there are no target trials; "
            "check utt2sess"
        )
    keep = keep[np.lexsort((session[keep], speaker[keep], domain[keep]))]
    names = [ids[row] for row in rows[keep]]
    _order_ids(names, keep, _pairs(own_class, session)[keep])
    rows, speaker, session, domain = rows[keep], speaker[keep], session[keep], domain[keep]
    matrix = _ordered(embeddings, rows, in_place)
    _refuse_bad_vectors(labels.place, names, matrix)
    if labels.recording:
        recording = _ranked(labels.recording[name] for name in names)[1]
    else:
        recording = _without_holes(_pairs(domain, session))[1]
    known_domains, domain_number = _without_holes(domain)
    classes, class_number = _without_holes(_pairs(domain, speaker))
    of_class = np.divmod(classes, int(speaker.max()) + 1)
    lengths = labels.seconds
    return TrainingData(
        ids=names,
        embeddings=matrix,
        seconds=np.fromiter(
            (np.nan if lengths is None else lengths[name] for name in names), np.float32, len(names)
        ),
        speaker=class_number,
        identity=_without_holes(speaker)[1],
        session=_without_holes(session)[1],
        recording=recording,
        domain=domain_number,
        domain_names=[domains[number] for number in known_domains],
        speaker_names=[f"{domains[d]}:{speakers[s]}" for d, s in zip(*of_class, strict=True)],
        dropped=dict(dropped),
    )


def _usable_rows(ids: Sequence[str], labels: Labels, dropped: Counter[str]) -> NDArray[np.int64]:
    """Rows of what has all labels; what has not is counted."""
    usable = np.ones(len(ids), dtype=bool)
    for row, name in enumerate(ids):
        reason = _unusable(name, labels)
        if reason:
            dropped[reason] += 1
            usable[row] = False
    return np.flatnonzero(usable)


def _pairs(first: NDArray[np.integer], second: NDArray[np.integer]) -> NDArray[np.int64]:
    """One number for each pair of numbers, in the order of the pairs."""
    return first.astype(np.int64) * (int(second.max()) + 1) + second


def _without_holes(numbers: NDArray[np.integer]) -> tuple[NDArray[np.integer], Index]:
    """The different numbers, and the place of every one among them."""
    found, places = np.unique(numbers, return_inverse=True)
    return found, places.astype(np.int32)


def _order_ids(names: list[str], keep: NDArray[np.int64], session: NDArray[np.int64]) -> None:
    """Order the utterances of each session by their ids, where they are not; in place."""
    starts = np.flatnonzero(np.diff(session, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(names)], strict=True):
        own = names[start:stop]
        if any(map(str.__gt__, own, own[1:])):
            order = sorted(range(len(own)), key=own.__getitem__)
            names[start:stop] = [own[place] for place in order]
            keep[start:stop] = keep[start:stop][order]


def _ordered(
    matrix: NDArray[np.float32], rows: NDArray[np.int64], in_place: bool
) -> NDArray[np.float32]:
    """These rows, in this order, without a second matrix if it can be."""
    if np.array_equal(rows, np.arange(len(matrix))):
        return matrix
    if not in_place or not matrix.flags.writeable:
        return matrix[rows]
    for first in range(0, matrix.shape[1], _COLUMNS):
        columns = slice(first, first + _COLUMNS)
        matrix[: len(rows), columns] = matrix[rows, columns]
    return matrix[: len(rows)]


def _unusable(name: str, labels: Labels) -> str:
    if name not in labels.speaker:
        return "vectors without a speaker"
    if name not in labels.session:
        return "utterances without a session"
    if labels.seconds is not None and name not in labels.seconds:
        return "utterances without a duration"
    return ""


def _domain(name: str, labels: Labels) -> str:
    if labels.domain is None:
        return "all"
    try:
        return labels.domain[name]
    except KeyError:
        raise InputError(
            f"{labels.place}/utt2dom: '{name}' has no domain; add it, or remove utt2dom to train "
            "with one domain"
        ) from None


def _example(ids: Sequence[str], labels: Labels) -> str:
    label = next(iter(labels.speaker), "nothing")
    return f"the vectors have '{ids[0] if len(ids) else 'nothing'}', utt2spk has '{label}'"


def _ranked(words: Iterable[str]) -> tuple[list[str], Index]:
    """The different words in their order, and the number of every one that was given."""
    first, numbers = numbered(words)
    order = sorted(range(len(first)), key=first.__getitem__)
    rank = np.empty(len(first), dtype=np.int32)
    rank[order] = np.arange(len(first))
    return [first[place] for place in order], rank[numbers]


def _without_vector(ids: Sequence[str], labels: Labels) -> int:
    return len(labels.speaker) - sum(name in labels.speaker for name in ids)


def _refuse_shared_sessions(
    place: str, speakers: tuple[list[str], Index], sessions: tuple[list[str], Index]
) -> None:
    """Words and numbers of the utterances' speakers and sessions."""
    first = np.unique(sessions[1], return_index=True)[1]
    owner = speakers[1][first][sessions[1]]
    bad = np.flatnonzero(owner != speakers[1])
    if bad.size:
        session, other, speaker = sessions[1][bad[0]], owner[bad[0]], speakers[1][bad[0]]
        raise InputError(
            f"{place}: session '{sessions[0][session]}' has two speakers, '{speakers[0][other]}' "
            f"and '{speakers[0][speaker]}'; correct utt2sess, or set data.allow_shared_sessions = "
            "true if they are two sides of a call"
        )


def _refuse_bad_vectors(place: str, names: list[str], matrix: NDArray[np.float32]) -> None:
    norms = checks.lengths(matrix)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if bad.size:
        kind = "all zeros" if norms[bad[0]] == 0 else "not finite"
        raise InputError(
            f"{place}: the vector of '{names[bad[0]]}' is {kind} ({bad.size} such); "
            "remove it or extract it again"
        )
