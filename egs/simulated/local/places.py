"""Unlabelled utterances and several enrolled ones, beside the exact LLR: tables for adaptation.sh.

    places.py table <dir>                 nothing, 10 and 30 utterances heard, and the oracle
    places.py numbers <bundle> <data-dir> the same people enrolled with 1, 2, 3, 5 and 10 utterances

<dir> has <set>/single.tsv and multi.tsv of egs/recordings/local/adaptation.py, the halvings beside
them, and data/<set> with the oracle's scores. The oracle knows the world and the trial's domain, so
also its offset: it is the floor. Runs in the project's environment.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "recordings/local"))
from adaptation import ALL, Place, Row, halvings_of, read_rows  # noqa: E402
from tables import columns, fail  # noqa: E402

from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin  # noqa: E402
from dcaplda.runtime import Backend  # noqa: E402
from dcaplda.runtime.several import merged_voiceprints, offsets_to_groups  # noqa: E402

NUMBERS = (1, 2, 3, 5, 10)
WAYS = {"single": "one", "joint": "three, joint", "scores": "three, mean of scores"}


def figures(llrs: np.ndarray, targets: np.ndarray) -> tuple[float, ...]:
    """Actual and minimum at 0.5, at 0.01."""
    both = llrs[targets], llrs[~targets]
    return tuple(f(*both, prior) for prior in (0.5, 0.01) for f in (cllr, min_cllr_lin))


def oracle_rows(data: Path, halvings: Path, kind: str) -> Iterator[Row]:
    """The exact LLRs of the same trials."""
    exact = {(a, b): float(llr) for a, b, llr in columns(data / f"oracle_{kind}", 3)}
    for domain, halving, folder in halvings_of(halvings):
        rows = columns(folder / "trials", 3)
        llrs = np.array([exact[row[0], row[1]] for row in rows])
        targets = np.array([row[2] == "target" for row in rows])
        yield Row(domain, halving, "oracle", "oracle", *figures(llrs, targets))


def cell(found: list[Row]) -> str:
    """Mean over sets and halvings; every set has as many."""
    actual, least, rare = (
        float(np.mean([getattr(r, name) for r in found])) for name in ("cllr", "least", "rare")
    )
    return f"{actual:.3f} / {least:.3f} [{rare:.3f}]"


def table(root: Path) -> None:
    """Rows of ways, columns of utterances heard."""
    sets = sorted(p.parent for p in root.glob("*/single.tsv"))
    if not sets:
        raise fail(f"{root}: has no set that was measured; run adaptation.sh")
    print("| enrolled | nothing | 10 | 30 | oracle |\n| --- | --- | --- | --- | --- |")
    for kind in ("single", "multi"):
        rows = [row for place in sets for row in read_rows(place / f"{kind}.tsv")]
        floor = [
            row
            for place in sets
            for row in oracle_rows(root.parent / "data" / place.name, place / kind, kind)
        ]
        for way in dict.fromkeys(row.way for row in rows):
            own = [row for row in rows if row.way == way and row.pool != ALL]
            cells = [cell([r for r in own if r.pool == pool]) for pool in ("0", "10", "30")]
            print(f"| {WAYS[way]} | " + " | ".join([*cells, cell(floor)]) + " |")


def numbers(bundle: str, data: Path) -> None:
    """The first recordings of everybody are enrolled; those behind the first ten are the tests."""
    backend = Backend.load(bundle, threads=1)
    found: dict[int, list[tuple[float, ...]]] = {n: [] for n in NUMBERS}
    for folder in sorted(data.glob("eval-*")):
        place = Place(folder)
        own: dict[str, list[str]] = {}
        for utterance in sorted(place.ids):
            own.setdefault(place.speaker[utterance], []).append(utterance)
        people = [p for p, names in own.items() if len(names) > max(NUMBERS)]
        if not people:
            raise fail(f"{folder}: nobody has more than {max(NUMBERS)} utterances")
        tests = [u for p in people for u in own[p][max(NUMBERS) :]]
        test = backend.voiceprints(place.embeddings(tests), seconds_of(place, tests))
        targets = np.array([[place.speaker[u] == p for u in tests] for p in people])
        for n in NUMBERS:
            names = [u for p in people for u in own[p][:n]]
            rows = backend.voiceprints(place.embeddings(names), seconds_of(place, names))
            groups = offsets_to_groups(np.arange(len(people) + 1) * n)
            enroll = merged_voiceprints(backend, rows, groups, len(people))
            found[n].append(figures(backend.compare(enroll, test), targets))
    print("| enrolled | actual / minimum [at 0.01] | over the minimum |\n| --- | --- | --- |")
    for n, values in found.items():
        actual, least, rare, _ = np.mean(values, axis=0)
        print(f"| {n} | {actual:.3f} / {least:.3f} [{rare:.3f}] | {actual / least - 1:+.0%} |")


def seconds_of(place: Place, utterances: list[str]) -> np.ndarray:
    """Of these utterances, in that order."""
    return place.seconds[[place.row[u] for u in utterances]]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["table", directory]:
            table(Path(directory))
        case ["numbers", made, folder]:
            numbers(made, Path(folder))
        case _:
            raise fail("places.py: expected table <dir>, or numbers <bundle> <data-dir>")
