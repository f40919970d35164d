"""Labelled training vectors in memory, cleaned of what training cannot use."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime import checks
from dcaplda.runtime.errors import InputError

Index = NDArray[np.int32]
_COLUMNS = 16
"""Columns ordered at a time: a line of the cache, and a thirtieth of embeddings of 512."""

CHUNK = 1 << 13
"""Rows that are worked on together, where a copy of all would take as much memory as there is."""


def row_chunks(count: int) -> list[slice]:
    """All rows, a chunk at a time."""
    return [slice(first, first + CHUNK) for first in range(0, count, CHUNK)]


@dataclass(frozen=True)
class TrainingData:
    """One row per utterance, sorted by domain, speaker and session.

    `speaker` is the class of batches and weights: a person in one domain. `identity` is the
    person: degraded copies in another domain have the same one, and never make an impostor
    trial with the original. Labels count from 0.
    """

    ids: list[str]
    embeddings: NDArray[np.float32]
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

    @property
    def domain_group(self) -> Index:
        """Number of each domain's group: domains that share people, such as degraded copies."""
        group = np.arange(len(self.domain_names))
        pairs = np.unique(np.stack([self.identity, self.domain], axis=1), axis=0)
        for one, other in zip(pairs[:-1], pairs[1:], strict=True):
            if one[0] == other[0]:
                group[group == group[other[1]]] = group[one[1]]
        return np.unique(group, return_inverse=True)[1].astype(np.int32)

    def subset(self, rows: NDArray[np.integer], vectors: bool = True) -> "TrainingData":
        """These rows (in rising order), labels renumbered without holes.

        Without `vectors` there are none in it, for those who look at labels or take vectors from
        the whole: there may be gigabytes of them.
        """
        speakers, speaker = np.unique(self.speaker[rows], return_inverse=True)
        domains, domain = np.unique(self.domain[rows], return_inverse=True)
        return TrainingData(
            ids=[self.ids[row] for row in rows],
            embeddings=self.embeddings[rows] if vectors else self.embeddings[:0],
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
    rows, speakers, sessions, domains, seconds = [], [], [], [], []
    for row, name in enumerate(ids):
        reason = _unusable(name, labels)
        if reason:
            dropped[reason] += 1
            continue
        rows.append(row)
        speakers.append(labels.speaker[name])
        sessions.append(labels.session[name])
        domains.append(_domain(name, labels))
        seconds.append(np.nan if labels.seconds is None else labels.seconds[name])
    with_vector = set(ids)
    dropped["utterances without a vector"] = sum(u not in with_vector for u in labels.speaker)
    if not rows:
        raise InputError(
            f"{labels.place}: no utterance has both a vector and labels; {_example(ids, labels)}"
        )
    if not allow_shared_sessions:
        _refuse_shared_sessions(labels.place, speakers, sessions)
    classes = list(zip(domains, speakers, strict=True))
    per_class: dict[tuple[str, str], set[str]] = {}
    for key, session in zip(classes, sessions, strict=True):
        per_class.setdefault(key, set()).add(session)
    keep = [i for i, key in enumerate(classes) if len(per_class[key]) > 1]
    dropped["speakers with one session"] = sum(len(s) == 1 for s in per_class.values())
    dropped["utterances of speakers with one session"] = len(classes) - len(keep)
    if not keep:
        raise InputError(
            f"{labels.place}: no speaker has two sessions, so there are no target trials; "
            "check utt2sess"
        )
    keep.sort(key=lambda i: (classes[i], sessions[i], ids[rows[i]]))
    chosen = [rows[i] for i in keep]
    names = [ids[row] for row in chosen]
    matrix = _ordered(embeddings, np.array(chosen), in_place)
    _refuse_bad_vectors(labels.place, names, matrix)
    recordings = [
        labels.recording[name] if labels.recording else f"{domains[i]}\0{sessions[i]}"
        for i, name in zip(keep, names, strict=True)
    ]
    domain_names, domain = _numbered([domains[i] for i in keep])
    class_names, speaker = _numbered([f"{classes[i][0]}\0{classes[i][1]}" for i in keep])
    return TrainingData(
        ids=names,
        embeddings=matrix,
        seconds=np.array([seconds[i] for i in keep], dtype=np.float32),
        speaker=speaker,
        identity=_numbered([speakers[i] for i in keep])[1],
        session=_numbered([sessions[i] for i in keep])[1],
        recording=_numbered(recordings)[1],
        domain=domain,
        domain_names=domain_names,
        speaker_names=[name.replace("\0", ":") for name in class_names],
        dropped=dict(dropped),
    )


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


def _numbered(names: list[str]) -> tuple[list[str], Index]:
    known, numbers = np.unique(np.array(names), return_inverse=True)
    return [str(name) for name in known], numbers.astype(np.int32)


def _refuse_shared_sessions(place: str, speakers: list[str], sessions: list[str]) -> None:
    owner: dict[str, str] = {}
    for speaker, session in zip(speakers, sessions, strict=True):
        other = owner.setdefault(session, speaker)
        if other != speaker:
            raise InputError(
                f"{place}: session '{session}' has two speakers, '{other}' and '{speaker}'; "
                "correct utt2sess, or set data.allow_shared_sessions = true if they are two "
                "sides of a call"
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
