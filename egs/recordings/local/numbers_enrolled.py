"""One to ten utterances enrolled, one and two tested: what each number costs at places left out.

    numbers_enrolled.py measure <bundle> <data-dir> <halvings-dir> <out.tsv>
    numbers_enrolled.py numbers <out.tsv> ...                    rows of numbers, columns of pools
    numbers_enrolled.py compare <out.tsv> ... -- <out.tsv> ...   the same corpora, before and after

<halvings-dir> is made by halvings.py. Who is judged there enrols with all sessions but one, in turn
one utterance of each, and is met in the one that is left, each session once; tests of two are of
that session, as in a call. Who has too few utterances for a number does not enrol with so many.
Nothing heard (pool `0`), and each pool of the halving. Runs in the project's environment.
"""

import random
import sys
from collections.abc import Iterator
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
from adaptation import Place, Row, cell, corpora, gaps, halvings_of, header, of_pool, paired
from halvings import trial_sides
from tables import columns, fail, write

from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.runtime import Backend
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.several import merged_voiceprints, offsets_to_groups
from dcaplda.runtime.tables.text_tables import read_words

ENROLLED = (1, 2, 3, 5, 10)
TESTED = (1, 2)
NAMES = tuple(f"{n}:{m}" for m in TESTED for n in ENROLLED)
Sides = list[tuple[str, str, list[str]]]
"""Person, session and utterances of sides; the session of an enrolment is the one it lacks."""


def shared_out(sessions: dict[str, list[str]]) -> list[str]:
    """One utterance of each session, then a second of each, ..."""
    turns = zip_longest(*sessions.values())
    return [utterance for utterance in chain(*turns) if utterance is not None]


def sides_of(own: dict[str, dict[str, list[str]]], n: int, m: int) -> tuple[Sides, Sides]:
    """Enrolments of n and tests of m utterances, of people's sessions."""
    enrolled, tested = [], []
    for person, sessions in own.items():
        for left, utterances in sessions.items():
            rest = shared_out({s: u for s, u in sessions.items() if s != left})
            if len(rest) >= n:
                enrolled.append((person, left, rest[:n]))
            if len(utterances) >= m:
                tested.append((person, left, utterances[:m]))
    return enrolled, tested


def voiceprints(backend: Backend, place: Place, sides: Sides) -> np.ndarray:
    """One joint voiceprint of each side."""
    names = [utterance for _, _, own in sides for utterance in own]
    seconds = place.seconds[[place.row[u] for u in names]]
    rows = backend.voiceprints(place.embeddings(names), seconds)
    offsets = np.cumsum([0, *(len(own) for _, _, own in sides)])
    return merged_voiceprints(backend, rows, offsets_to_groups(offsets), len(sides))


def figures(backend: Backend, place: Place, enrolled: Sides, tested: Sides) -> Iterator[float]:
    """Actual and minimum at 0.5, at 0.01; nothing where trials of one kind are missing.

    A target trial is an enrolment and the session that it lacks; everybody else's tests are
    nontarget trials.
    """
    if not enrolled or not tested:
        return
    llrs = backend.compare(*(voiceprints(backend, place, sides) for sides in (enrolled, tested)))
    people, lacking = ([side[k] for side in enrolled] for k in (0, 1))
    same = np.array([[p == q for q, _, _ in tested] for p in people])
    left = np.array([[s == t for _, t, _ in tested] for s in lacking])
    both = llrs[same & left], llrs[~same]
    if all(len(scores) for scores in both):
        yield from (f(*both, prior) for prior in (0.5, 0.01) for f in (cllr, min_cllr_lin))


def measure(bundle: str, data: str, halvings: str, out: str) -> None:
    """Every halving of every domain, every pool, every number."""
    backend, place = Backend.load(bundle, threads=1), Place(Path(data))
    session = read_words(str(Path(data) / "utt2sess"))
    lines = []
    for domain, halving, folder in halvings_of(Path(halvings)):
        sides = [trial_sides(row) for row in columns(folder / "trials", 3)]
        judged = sorted({place.speaker[u] for model, test, _ in sides for u in (model, test)})
        order = sorted(u for u in place.ids if place.domain.get(u, domain) == domain)
        random.Random(f"numbers {halving}").shuffle(order)
        own: dict[str, dict[str, list[str]]] = {person: {} for person in judged}
        for utterance in order:
            if place.speaker[utterance] in own:
                sessions = own[place.speaker[utterance]]
                sessions.setdefault(session[utterance], []).append(utterance)
        pools = {path.suffix[1:]: path for path in folder.glob("pool.*")}
        for pool in ("0", *sorted(pools, key=int)):
            heard = [row[0] for row in columns(pools[pool], 1)] if pool != "0" else []
            try:
                adapted, refused = backend.adapted(place.embeddings(heard)), 0
            except InputError:
                adapted, refused = backend, 1
            for name, (n, m) in zip(NAMES, ((n, m) for m in TESTED for n in ENROLLED), strict=True):
                found = tuple(figures(adapted, place, *sides_of(own, n, m)))
                if found:
                    lines.append(Row(domain, halving, name, pool, *found, refused).line())
    write(Path(out), lines)


def shown(name: str) -> str:
    """`3:1` as it is read."""
    return name.replace(":", " against ")


def numbers(*paths: str) -> None:
    """Rows of numbers, columns of pools; domains in which somebody has so many."""
    rows = [row for own in corpora(paths) for row in own]
    pools = sorted({r.pool for r in rows}, key=int)
    lines = header("enrolled against tested", [*pools, "domains"])
    for name in NAMES:
        own = [r for r in rows if r.way == name]
        if own:
            cells = [cell([r for r in own if r.pool == pool]) for pool in pools]
            lines.append(
                f"| {shown(name)} | {' | '.join(cells)} | {len({r.domain for r in own})} |"
            )
    print("\n".join(lines))


def compare(*paths: str) -> None:
    """Paired differences, and their 95% intervals over corpora."""
    cut = paths.index("--")
    before, after = corpora(paths[:cut]), corpora(paths[cut + 1 :])
    pools = sorted({r.pool for own in before for r in own}, key=int)
    lines = header("after - before", pools)
    for name in NAMES:
        one, other = (
            [[r for r in own if r.way == name] for own in side] for side in (before, after)
        )
        kept = [k for k, own in enumerate(one) if own]
        one, other = ([side[k] for k in kept] for side in (one, other))
        if kept:
            cells = [
                paired(gaps(of_pool(one, pool), of_pool(other, pool), lambda r: r.cllr))
                for pool in pools
            ]
            lines.append(f"| {shown(name)} | " + " | ".join(cells) + " |")
    print("\n".join(lines))


if __name__ == "__main__":
    tools = {"measure": measure, "numbers": numbers, "compare": compare}
    if len(sys.argv) < 2 or sys.argv[1] not in tools:
        raise fail(f"numbers_enrolled.py: expected one of {', '.join(tools)}; see its head")
    tools[sys.argv[1]](*sys.argv[2:])
