"""What it costs to move voiceprints to a place (Gallery.adapt) instead of enrolling again.

    moved_voiceprints.py <bundle> <data-dir> <halvings-dir> <spk2utt|-> [<bundle> ...]

For each halving and pool of halvings.py: speakers enrolled with the bundle and moved to the adapted
one, against speakers enrolled with the adapted one, and against those that are left as they are.
Further sets of four arguments are averaged with the first. Runs in
the project's environment.
"""

import sys
from pathlib import Path

import numpy as np
from adaptation import Place, Trials, halvings_of
from tables import columns, fail

from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.runtime import Backend
from dcaplda.runtime.adaptation import moved_voiceprints
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.joint.layout import PLACE_AT
from dcaplda.runtime.joint.rows import Sides
from dcaplda.runtime.several import merged_voiceprints, offsets_to_groups
from dcaplda.runtime.tables.text_tables import read_lists

WAYS = ("enrolled again", "moved", "left")


def left(parent: Backend, adapted: Backend, rows: np.ndarray) -> np.ndarray:
    """Voiceprints as if the place had been known when they were made, and moved nothing."""
    sides = parent.joint.sides(rows)
    conditions = sides.conditions.copy()
    conditions[:, PLACE_AT] = adapted.joint.scorer.ease, adapted.joint.scorer.known
    return adapted.joint.rows(Sides(sides.x, sides.count, sides.spread, conditions))


def enrolled(backend: Backend, trials: Trials) -> np.ndarray:
    """A voiceprint of each model."""
    place, rows = trials.place, trials.enroll
    singles = backend.voiceprints(place.matrix[rows], place.seconds[rows])
    groups = offsets_to_groups(trials.offsets)
    return merged_voiceprints(backend, singles, groups, len(trials.offsets) - 1)


def figures(trials: Trials, parent: Backend, pool: np.ndarray) -> list[tuple[float, ...]]:
    """Of each way: actual, minimum, actual at 0.01; then LLR differences: rms and 99 %."""
    adapted = parent.adapted(pool)
    place = trials.place
    tests = adapted.voiceprints(place.matrix[trials.tests], place.seconds[trials.tests])
    before = enrolled(parent, trials)
    moved = moved_voiceprints(parent, adapted, before)
    found, truth = [], None
    for models in (enrolled(adapted, trials), moved, left(parent, adapted, before)):
        llrs = adapted.score_trials(models, tests, trials.model, trials.test).astype(np.float64)
        truth = llrs if truth is None else truth
        off = np.abs(llrs - truth)
        both = llrs[trials.target], llrs[~trials.target]
        costs = cllr(*both, 0.5), min_cllr_lin(*both, 0.5), cllr(*both, 0.01)
        found.append((*costs, np.sqrt(np.mean(off**2)), np.quantile(off, 0.99)))
    return found


def main(arguments: list[str]) -> None:
    """Mean over the halvings of a domain, then over domains."""
    if not arguments or len(arguments) % 4:
        raise fail(__doc__.split("\n\n")[1].strip())
    by_domain: dict[str, dict[str, list]] = {}
    for start in range(0, len(arguments), 4):
        bundle, data, halvings, spk2utt = arguments[start : start + 4]
        parent, place = Backend.load(bundle, threads=1), Place(Path(data))
        models = None if spk2utt == "-" else read_lists(spk2utt)
        for domain, _, folder in halvings_of(Path(halvings)):
            trials = Trials(place, columns(folder / "trials", 3), models)
            for path in folder.glob("pool.*"):
                pool = place.embeddings([row[0] for row in columns(path, 1)])
                try:
                    found = figures(trials, parent, pool)
                except InputError:
                    continue  # one voice: there is no adapted bundle
                by_domain.setdefault(path.suffix[1:], {}).setdefault(domain, []).append(found)
    for pool, domains in sorted(by_domain.items()):
        table = np.mean([np.mean(found, axis=0) for found in domains.values()], axis=0)
        for way, (actual, least, rare, rms, most) in zip(WAYS, table, strict=True):
            row = f"| {pool} | {way} | {actual:.4f} / {least:.4f} [{rare:.4f}] "
            print(f"{row}| {rms:.3f} | {most:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1:])
