"""Are pools of places that training heard taken for those places, and no other pool for any?

    known_places.py <bundle> <data-dir> <halvings-dir> [<bundle> <data-dir> <halvings-dir> ...]

For every size of the pools of halvings.py: how many were taken for their own place, for another one
of training and for none, and which share of the judged people's utterances then sounds of the
place. Names of domains are those of training. Runs in the project's environment.
"""

import sys
from pathlib import Path

import numpy as np
from adaptation import Place, halvings_of
from halvings import trial_sides
from tables import columns, fail

from dcaplda.runtime import Backend
from dcaplda.runtime.adaptation import place_name
from dcaplda.runtime.errors import InputError

OWN, OTHER, NONE, REFUSED = "its own", "another", "none", "refused"


def judged(place: Place, domain: str, trials: Path) -> list[str]:
    """Utterances of the place of those who are in its trials."""
    sides = [trial_sides(row) for row in columns(trials, 3)]
    people = {place.speaker[test] for _, test, _ in sides}
    here = (u for u in place.ids if place.domain.get(u, domain) == domain)
    return [u for u in here if place.speaker[u] in people]


def taken(backend: Backend, domain: str, pool: np.ndarray) -> tuple[str, Backend | None]:
    """What a pool of the domain is taken for, and the backend of its place."""
    try:
        adapted = backend.adapted(pool)
    except InputError:
        return REFUSED, None
    name = place_name(backend.info, backend.joint.scorer, pool)
    return (NONE if name is None else OWN if name == domain else OTHER), adapted


def looked_at(bundle: str, data: str, halvings: str) -> dict[int, list[tuple[str, str, float]]]:
    """Domain, answer and share of utterances inside; by size of the pool."""
    backend, place = Backend.load(bundle, threads=1), Place(Path(data))
    found: dict[int, list[tuple[str, str, float]]] = {}
    for domain, _, folder in halvings_of(Path(halvings)):
        rows = [place.row[u] for u in judged(place, domain, folder / "trials")]
        for path in folder.glob("pool.*"):
            pool = place.embeddings([row[0] for row in columns(path, 1)])
            answer, adapted = taken(backend, domain, pool)
            inside = np.nan
            if adapted is not None:
                stored = adapted.voiceprints(place.matrix[rows], place.seconds[rows])
                inside = float(adapted.joint.inside(adapted.joint.sides(stored)).mean())
            found.setdefault(int(path.suffix[1:]), []).append((domain, answer, inside))
    return found


def main(arguments: list[str]) -> None:
    """Sets of three names are taken together."""
    if not arguments or len(arguments) % 3:
        raise fail("known_places.py: expected <bundle> <data-dir> <halvings-dir>, or several such")
    found: dict[int, list[tuple[str, str, float]]] = {}
    for first in range(0, len(arguments), 3):
        for size, rows in looked_at(*arguments[first : first + 3]).items():
            found.setdefault(size, []).extend(rows)
    answers = (OWN, OTHER, NONE, REFUSED)
    print("| heard | pools | " + " | ".join(answers) + " | of the place: least domain |")
    print("| --- " * 7 + "|")
    for size, rows in sorted(found.items()):
        shares = [sum(answer == a for _, answer, _ in rows) / len(rows) for a in answers]
        own: dict[str, list[float]] = {}
        for domain, answer, inside in rows:
            if answer != REFUSED:
                own.setdefault(domain, []).append(inside)
        means = {domain: float(np.mean(values)) for domain, values in own.items()}
        shown = f"{np.mean(list(means.values())):.2f}: {min(means.values()):.2f}" if own else "-"
        cells = " | ".join(f"{share:.0%}" for share in shares)
        print(f"| {size} | {len(rows)} | {cells} | {shown} |")


if __name__ == "__main__":
    main(sys.argv[1:])
