"""Do the warnings mean something? The tables of egs/simulated/RESULTS.md.

python docs/plots/warnings.py <simulate-xvectors directory> <bundle>

Every utterance of every test set is looked at as a verification would. A trial is flagged if
one of its two sides is. Seen conditions should be flagged as rarely as promised; in unseen
ones, what is flagged should be worse calibrated than what is not.
"""

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.runtime import Backend
from dcaplda.runtime.tables.text_tables import read_durations
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.runtime.trials.lists import read_trials

KINDS = ("duration", "embedding", "side-information")
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Set:
    """LLRs and labels of a set's single-enrolment trials, and what is flagged."""

    name: str
    llrs: NDArray[np.float32]
    targets: Flags
    flagged: Flags
    utterance_flags: Flags
    """(utterances, kinds)."""


def evaluate(backend: Backend, folder: Path) -> Set:
    """Score a set's trials and look at its utterances."""
    table = read_vectors(f"scp:{folder}/xvector.scp")
    known = read_durations(str(folder / "utt2dur"), 0.0)
    seconds = np.array([known[name] for name in table.ids], np.float32)
    prints = backend.voiceprints(table.matrix, seconds)
    flags = np.zeros((len(prints), len(KINDS)), bool)
    norms = np.linalg.norm(table.matrix, axis=1).tolist()
    distances = backend.familiarity.distances(prints)
    for row in range(len(prints)):
        figures_of_row = [float(seconds[row])], [norms[row]], [distances[row]]
        said = backend.familiarity.warnings(*figures_of_row, "test")
        flags[row] = [any(f"test: {kind}" in line for line in said) for kind in KINDS]
    trials = read_trials(str(folder / "trials_single"))
    rows = table.rows()
    enroll = np.array([rows[name] for name in trials.enroll_ids])[trials.enroll_index]
    test = np.array([rows[name] for name in trials.test_ids])[trials.test_index]
    assert trials.targets is not None
    flagged = flags.any(axis=1)
    return Set(
        folder.name,
        backend.score_trials(prints, prints, enroll, test),
        trials.targets,
        flagged[enroll] | flagged[test],
        flags,
    )


def figures(sets: Iterable[Set], which: bool | None) -> str:
    """Trials, Cllr, and the part of it that miscalibration causes, of (un)flagged trials."""
    llrs, targets = [], []
    for one in sets:
        chosen = np.ones(len(one.llrs), bool) if which is None else one.flagged == which
        llrs.append(one.llrs[chosen])
        targets.append(one.targets[chosen])
    scores, same = np.concatenate(llrs), np.concatenate(targets)
    if not 20 <= same.sum() <= len(same) - 20:
        return f"{len(same)} | – | – |"
    pair = scores[same], scores[~same]
    actual, least = cllr(*pair), min_cllr_lin(*pair)
    return f"{len(same)} | {actual:.3f} | {actual - least:.3f} |"


def in_proportion(sets: list[Set], utt2dom: Path) -> list[float]:
    """Flagged shares of the seen domains, each counting as much as it did in training."""
    domains = [line.split()[1] for line in utt2dom.read_text().splitlines()]
    total = np.zeros(len(KINDS) + 1)
    for domain in set(domains):
        flags = [one.utterance_flags for one in sets if one.name.startswith(f"trnh-{domain}-")]
        joined = np.concatenate(flags)
        shares = np.array([joined.any(axis=1).mean(), *joined.mean(axis=0)])
        total += shares * domains.count(domain) / len(domains)
    return total.tolist()


def groups(names: list[str]) -> list[tuple[str, str]]:
    """Beginnings of set names, and what to call the sets."""
    seen = sorted({name.rsplit("-", 1)[0] for name in names if name.startswith("trnh-")})
    unseen = sorted({name.rsplit("-", 1)[0] for name in names if not name.startswith("trnh-")})
    return [
        ("trnh-", "**seen conditions, new speakers**"),
        *((name, f"seen: {name.removeprefix('trnh-')}") for name in seen),
        ("dev-", "**unseen, development**"),
        ("eval-", "**unseen, evaluation**"),
        *((n, f"unseen: {n.split('-', 1)[1]}") for n in unseen if n.startswith("eval-")),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("bundle")
    options = parser.parse_args()
    backend = Backend.load(options.bundle)
    names = [line.split()[0] for line in (options.data / "test_sets").read_text().splitlines()]
    sets = [evaluate(backend, options.data / name) for name in names]
    print("| utterances | flagged | " + " | ".join(KINDS) + " |")
    print("| --- |" + " ---: |" * (len(KINDS) + 1))
    for role, label in groups(names):
        flags = np.concatenate([one.utterance_flags for one in sets if one.name.startswith(role)])
        shares = [flags.any(axis=1).mean(), *flags.mean(axis=0)]
        print(f"| {label} | " + " | ".join(f"{100 * share:.2f} %" for share in shares) + " |")
    shares = in_proportion(sets, options.data / "train" / "utt2dom")
    cells = " | ".join(f"{100 * share:.2f} %" for share in shares)
    print(f"| seen, domains weighted as in training | {cells} |")
    print("\n| trials | flagged? | number | Cllr | of that miscalibration |")
    print("| --- | --- | ---: | ---: | ---: |")
    roles = [("trnh-", "seen"), ("dev-", "unseen, development"), ("eval-", "unseen, evaluation")]
    roles += [(name, f"unseen: {name[5:]}") for name, _ in groups(names) if "eval-" in name[:-1]]
    for role, label in dict(roles).items():
        chosen = [one for one in sets if one.name.startswith(role)]
        for which, word in ((False, "no"), (True, "yes")):
            print(f"| {label} | {word} | {figures(chosen, which)}")


if __name__ == "__main__":
    main()
