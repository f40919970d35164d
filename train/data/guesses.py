"""Sessions and domains that nobody wrote down, guessed from ids and embeddings.

Ids often tell more than they were made for: `amnist_tel-01-r0-c1` is a piece of a recording, of a
speaker whose id starts as those of a corpus do, and by its extra word a degraded copy of
`amnist-01-r0`. A guess is kept only where the embeddings agree with it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.train.data.clusters import clusters
from dcaplda.train.data.labelled import Labels
from dcaplda.train.data.picked import row_chunks
from dcaplda.train.recipe.sections import DataSection

_WORDS = re.compile(r"[-_./]")
_PIECE = re.compile(r"[-_./][^-_./]+$")
LEAST_PEOPLE = 5
"""People of a guessed domain: a mean of fewer says more about them than about it."""
MOST_ASKED = 300
"""People whose embeddings are asked whether a guess of sessions is right."""
RATIO = 1.5
"""How many times further apart the domains' means must lie than those of random groups do on
average; and further than those of any of ROUNDS."""
ROUNDS = 99

Floats = NDArray[np.floating]


class _Unit:
    """The vectors at length 1, made when they are asked for: all of them would be a second copy."""

    def __init__(self, vectors: Floats) -> None:
        self.vectors = vectors
        self.norms = np.empty((len(vectors), 1), vectors.dtype)
        for rows in row_chunks(len(vectors)):
            self.norms[rows] = np.linalg.norm(vectors[rows], axis=1, keepdims=True)

    @property
    def all_usable(self) -> bool:
        """Whether all have a length, and a finite one."""
        return bool((np.isfinite(self.norms) & (self.norms > 0)).all())

    def __getitem__(self, rows: list[int]) -> Floats:
        """Some of them."""
        found: Floats = self.vectors[rows] / self.norms[rows]
        return found


@dataclass(frozen=True)
class Guess:
    """Labels completed, and what to tell the user."""

    labels: Labels
    notes: list[str]


def complete(ids: Sequence[str], vectors: Floats, labels: Labels, section: DataSection) -> Guess:
    """Fill in sessions and domains where they are missing and the recipe lets us guess."""
    if not labels.own_sessions and labels.domain is not None:
        return Guess(labels, [])
    rows = {name: row for row, name in enumerate(ids) if name in labels.speaker}
    by_person: dict[str, list[str]] = defaultdict(list)
    for name in rows:
        by_person[labels.speaker[name]].append(name)
    unit = _Unit(vectors)
    if not unit.all_usable:
        return Guess(labels, [])  # refused by name later
    notes: list[str] = []
    session, domain = dict(labels.session), labels.domain
    if labels.own_sessions:
        session, note = _sessions(by_person, rows, unit, session, section.missing_sessions)
        notes.append(note)
    with_copies, marks = _copies(by_person, session)
    if labels.own_sessions and section.missing_sessions == "guessed" and marks:
        session = with_copies
        notes.append(
            f"{len(marks)} utterances are taken for degraded copies by a word in their ids "
            f"({', '.join(sorted(set(marks.values())))}); they share the session of the original"
        )
    if domain is None and section.missing_domains == "guessed":
        domain, note = _domains(by_person, rows, unit, marks)
        notes.append(note)
    return Guess(replace(labels, session=session, domain=domain), notes)


def _sessions(
    by_person: Mapping[str, list[str]],
    rows: Mapping[str, int],
    unit: _Unit,
    session: dict[str, str],
    way: str,
) -> tuple[dict[str, str], str]:
    """Sessions by ids where these say something, else as they are; and what to tell the user."""
    found = _sessions_of_ids(by_person, session) if way == "guessed" else None
    if found is None or not _sessions_hold(by_person, found, rows, unit):
        number = len({session[name] for name in rows})
        return session, (
            "no utt2sess: every utterance is its own session: are these really "
            f"{number} recordings? Pieces of one recording must share a session, or the result "
            "will be too sure; write utt2sess"
        )
    example = next(iter(found))
    return found, (
        "no utt2sess: ids without their last word are taken for sessions "
        f"({len(set(found.values()))} of {len(found)} utterances, as '{found[example]}' of "
        f"'{example}'); write utt2sess if not so"
    )


def _sessions_of_ids(
    by_person: Mapping[str, list[str]], session: Mapping[str, str]
) -> dict[str, str] | None:
    """Ids without their last word, where that leaves people with several sessions of several."""
    found = dict(session)
    several = shared = 0
    for names in by_person.values():
        own = {name: _PIECE.sub("", session[name]) for name in names}
        count = len(set(own.values()))
        several += count > 1
        shared += count < len(set(session[name] for name in names))
        found.update(own)
    enough = several >= 0.5 * len(by_person) and shared >= 0.5 * len(by_person)
    return found if enough else None


def _sessions_hold(
    by_person: Mapping[str, list[str]],
    session: Mapping[str, str],
    rows: Mapping[str, int],
    unit: _Unit,
) -> bool:
    """Whether utterances of a guessed session are more alike than others of their speaker."""
    differences = []
    for names in list(by_person.values())[:MOST_ASKED]:
        names = names[:40]
        x = unit[[rows[name] for name in names]]
        alike = x @ x.T
        label = np.array([session[name] for name in names])
        same = label[:, None] == label[None, :]
        upper = np.triu(np.ones_like(same), 1).astype(bool)
        if (same & upper).any() and (~same & upper).any():
            differences.append(alike[same & upper].mean() - alike[~same & upper].mean())
    if len(differences) < 3:
        return False
    error = np.std(differences) / np.sqrt(len(differences))
    return bool(np.mean(differences) > 2.0 * error)


def _copies(
    by_person: Mapping[str, list[str]], session: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Sessions with copies in that of their original, and the extra word of each copy.

    A session is a copy where its id without one word of letters is another of the same person.
    """
    found, marks = dict(session), {}
    for names in by_person.values():
        known = {tuple(_WORDS.split(session[name])): session[name] for name in names}
        plain = {tuple(_WORDS.split(name)) for name in names}
        for name in names:
            words = _WORDS.split(session[name])
            original = _original(words, known)
            if original is not None:
                found[name], marks[name] = original
                continue
            # Kaldi's suffixes are cut off the session already: the id itself has the word.
            whole = _WORDS.split(name)
            if len(whole) > 1 and whole[-1].isalpha() and tuple(whole[:-1]) in plain:
                marks[name] = whole[-1]
    return found, marks


def _original(words: Sequence[str], known: Mapping[tuple[str, ...], str]) -> tuple[str, str] | None:
    for place, word in enumerate(words):
        shorter = (*words[:place], *words[place + 1 :])
        if word.isalpha() and shorter in known:
            return known[shorter], word
    return None


def _domains(
    by_person: Mapping[str, list[str]],
    rows: Mapping[str, int],
    unit: _Unit,
    marks: Mapping[str, str],
) -> tuple[dict[str, str] | None, str]:
    """Domain of every utterance: that of its speaker, apart for each kind of degraded copy."""
    people = list(by_person)
    means = np.stack(
        [
            unit[[rows[n] for n in by_person[p] if n not in marks] or [rows[by_person[p][0]]]].mean(
                axis=0, dtype=np.float64
            )
            for p in people
        ]
    )
    base, how = _domains_of_ids(people, means), "the start of the speakers' ids"
    if base is None:
        label = clusters(means, LEAST_PEOPLE)
        base = [f"cluster{number}" for number in label]
        how = "clusters of the speakers' mean embeddings"
    domain = {}
    for person, own in zip(people, base, strict=True):
        for name in by_person[person]:
            domain[name] = f"{own}_{marks[name]}" if name in marks else own
    sizes = Counter(domain.values())
    if len(sizes) == 1:
        return None, (
            "no utt2dom, and neither ids nor embeddings show several domains: all is one domain. "
            "What other domains do to the scores cannot be learnt from one"
        )
    shown = ", ".join(sorted(sizes)[:8]) + (", ..." if len(sizes) > 8 else "")
    return domain, (
        f"no utt2dom: {len(sizes)} domains are guessed from {how}"
        f"{' and the words of copies' if marks else ''} ({shown}); write utt2dom if you know better"
    )


def _domains_of_ids(people: Sequence[str], means: Floats) -> list[str] | None:
    """First words of the speakers' ids, where they are few and their means lie apart."""
    first = [_WORDS.split(person)[0] for person in people]
    if any(word == person for word, person in zip(first, people, strict=True)):
        first = [re.match(r"[^\W\d]*", person)[0] for person in people]  # type: ignore[index]
    counts = Counter(first)
    large = [word for word, count in counts.items() if word and count >= LEAST_PEOPLE]
    covered = sum(counts[word] for word in large)
    if len(large) < 2 or covered < 0.9 * len(people):
        return None
    names = [word if word in large else "other" for word in first]
    label = np.unique(names, return_inverse=True)[1]
    rng = np.random.default_rng(0)
    by_chance = [_spread(means, rng.permutation(label)) for _ in range(ROUNDS)]
    least = max(RATIO * float(np.mean(by_chance)), max(by_chance))
    return names if _spread(means, label) > least else None


def _spread(means: Floats, label: NDArray[np.integer]) -> float:
    """Mean squared distance of the labels' means from the mean of all."""
    counts = np.bincount(label)
    sums = np.zeros((len(counts), means.shape[1]))
    np.add.at(sums, label, means)
    centres = sums / counts[:, None] - means.mean(axis=0)
    return float((counts * (centres**2).sum(axis=1)).sum() / len(means))
