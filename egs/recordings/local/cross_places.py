"""Enrolled at one place, tested at another: what telling the places, and hearing them, brings.

    cross_places.py <bundle> <data-dir> <trials> <spk2utt> [halvings]

For every domain of the tests and every halving (10 unless said), half of the people give the
unlabelled utterances of both places and the other half the trials, by the runtime's `Places`, which
is what `score-trials --places=utt2dom --pool=...` does. Prints a Markdown row: nothing told (one
place assumed), places told, 10 and 30 utterances heard at each; actual / minimum Cllr at 0.5
[actual at 0.01], mean over domains and halvings. Runs in the project's environment.
"""

import sys
from pathlib import Path

import numpy as np
from tables import columns

from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.runtime import Backend, InputError
from dcaplda.runtime.places import Places
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_words
from dcaplda.runtime.tables.vectors import read_vectors

HEARD = (0, 10, 30)


class Data:
    """Tables of a data directory, in the order of its vectors."""

    def __init__(self, folder: Path) -> None:
        table = read_vectors(f"scp:{folder}/xvector.scp", str(folder))
        self.row, self.vectors = table.rows(), table.matrix
        tables = {name: read_words(str(folder / name)) for name in ("utt2dom", "utt2spk")}
        seconds = read_durations(str(folder / "utt2dur"), 0.0)
        self.domain = np.array([tables["utt2dom"][name] for name in table.ids])
        self.speaker = np.array([tables["utt2spk"][name] for name in table.ids])
        self.seconds = np.array([seconds[name] for name in table.ids])


def figures(llrs: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
    """Actual and minimum at 0.5, actual at 0.01."""
    target, other = llrs[targets].astype(float), llrs[~targets].astype(float)
    return cllr(target, other, 0.5), min_cllr_lin(target, other, 0.5), cllr(target, other, 0.01)


def _accepted(backend: Backend, pool: np.ndarray) -> np.ndarray:
    """The pool, or nothing where it is refused as one person's."""
    try:
        Places(backend, {"here": pool})
    except InputError:
        return pool[:0]
    return pool


def scored(backend: Backend, data: Data, trials: list, pools: dict, told: bool) -> np.ndarray:
    """LLRs of (rows of the model, row of the test, target) under these pools."""
    models = sorted({model for model, _, _ in trials})
    number = {model: k for k, model in enumerate(models)}
    rows = np.concatenate([np.array(model) for model in models])
    groups = np.repeat(np.arange(len(models)), [len(model) for model in models])
    tests, test_of = np.unique([test for _, test, _ in trials], return_inverse=True)
    heard = {name: _accepted(backend, pool) for name, pool in pools.items()}
    places = Places(backend, heard if told else {"somewhere": []})

    def names(chosen: np.ndarray) -> list[str]:
        return list(data.domain[chosen]) if told else ["somewhere"] * len(chosen)

    enroll = places.sides(data.vectors[rows], data.seconds[rows], names(rows), groups)
    test = places.sides(data.vectors[tests], data.seconds[tests], names(tests))
    return places.llrs(enroll, test, [number[model] for model, _, _ in trials], test_of)


def main(bundle: str, folder: str, trial_list: str, spk2utt: str, halvings: str = "10") -> None:
    """Measure and print."""
    backend, data = Backend.load(bundle, threads=1), Data(Path(folder))
    members = read_lists(spk2utt)
    trials = [
        (tuple(data.row[u] for u in members[model]), data.row[test], kind == "target")
        for model, test, kind in columns(Path(trial_list), 3)
    ]
    found: dict[str, list] = {}
    rng = np.random.default_rng(0)
    for place in sorted({str(data.domain[test]) for _, test, _ in trials}):
        people = np.unique(data.speaker[data.domain == place])
        for _ in range(int(halvings)):
            heard = set(rng.permutation(people)[: len(people) // 2])
            listening = np.isin(data.speaker, list(heard))
            own = [
                t
                for t in trials
                if data.domain[t[1]] == place and not (listening[t[1]] or listening[t[0][0]])
            ]
            targets = np.array([kind for _, _, kind in own])
            involved = {place} | {str(data.domain[model[0]]) for model, _, _ in own}
            mixed = {
                name: rng.permutation(np.flatnonzero((data.domain == name) & listening))
                for name in sorted(involved)
            }
            for told, count in ((False, 0), *((True, count) for count in HEARD)):
                pools = {name: data.vectors[rows[:count]] for name, rows in mixed.items()}
                key = f"{count} heard" if told else "not told"
                llrs = scored(backend, data, own, pools, told)
                found.setdefault(key, []).append((place, *figures(llrs, targets)))
    cells = []
    for rows in found.values():
        by_place = [
            np.mean([row[1:] for row in rows if row[0] == place], axis=0)
            for place in sorted({row[0] for row in rows})
        ]
        actual, least, rare = np.mean(by_place, axis=0)
        cells.append(f"{actual:.3f} / {least:.3f} [{rare:.3f}]")
    print(f"| {Path(trial_list).name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
