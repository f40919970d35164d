"""Recordings of several people, put together from utterances, and how well they were clustered.

    conversations.py make [--seed=0] [--each=30] <data-dir> <out-dir>
    conversations.py judge <out-dir>/reference <utt2spk>
    conversations.py cosine <train-out-dir> <out-dir>

`make` draws, for each domain of a Kaldi directory, recordings of two to six people: two to eight
utterances of at most 5 s of one session of each (chunks only where utt2kind tells). An utterance
may be in several, each time under a name of its own. Writes reco2utt, xvector.scp, utt2dur and
`reference` (utterance, recording, speaker, seconds, domain). `judge` prints the share of the
seconds that are with another speaker, clusters and speakers matched as well as can be, and by how
many the number of speakers is wrong. `cosine` is what people do without LLRs: cosine around the
mean of the training recordings, average link, the threshold that is best on those.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from tables import columns, fail, write

from dcaplda.runtime.clustering.linkage import average_link
from dcaplda.runtime.tables.vectors import read_vectors

LONGEST = 5.0
FEWEST, MOST = 2, 8
"""Utterances of a person in a recording."""


def make(folder: Path, out: Path, seed: int, each: int) -> None:
    """Draw recordings of every domain."""
    table = {
        name: {row[0]: row[1] for row in columns(folder / name)}
        for name in ("xvector.scp", "utt2spk", "utt2dom", "utt2sess", "utt2dur", "utt2kind")
        if (folder / name).is_file()
    }
    sessions: dict[str, dict[str, dict[str, list[str]]]] = {}
    for utterance, domain in sorted(table["utt2dom"].items()):
        chunk = table.get("utt2kind", {}).get(utterance, "chunk") == "chunk"
        if chunk and float(table["utt2dur"][utterance]) <= LONGEST:
            people = sessions.setdefault(domain, {})
            own = people.setdefault(table["utt2spk"][utterance], {})
            own.setdefault(table["utt2sess"][utterance], []).append(utterance)
    written: dict[str, list[str]] = {
        "reco2utt": [],
        "reference": [],
        "xvector.scp": [],
        "utt2dur": [],
    }
    for domain, people in sorted(sessions.items()):
        for number, chosen in enumerate(_drawn(people, random.Random(f"{seed} {domain}"), each)):
            name = f"{domain}-{number:03d}"
            written["reco2utt"].append(" ".join([name, *(f"{name}-{u}" for u in chosen)]))
            for utterance in chosen:
                own, length = f"{name}-{utterance}", table["utt2dur"][utterance]
                place = folder.resolve() / table["xvector.scp"][utterance]
                written["reference"].append(
                    f"{own} {name} {table['utt2spk'][utterance]} {length} {domain}"
                )
                written["xvector.scp"].append(f"{own} {place}")
                written["utt2dur"].append(f"{own} {length}")
    out.mkdir(parents=True, exist_ok=True)
    for name, lines in written.items():
        write(out / name, lines)


def _drawn(
    people: dict[str, dict[str, list[str]]], chance: random.Random, each: int
) -> Iterator[list[str]]:
    """Utterances of so many recordings of one domain; people have sessions, sessions utterances."""
    usable = {
        person: [own for own in of.values() if len(own) >= FEWEST]
        for person, of in sorted(people.items())
    }
    usable = {person: own for person, own in usable.items() if own}
    for _ in range(each if len(usable) > 1 else 0):
        chosen: list[str] = []
        for person in chance.sample(sorted(usable), min(chance.randint(2, 6), len(usable))):
            own = chance.choice(usable[person])
            chosen += chance.sample(own, chance.randint(FEWEST, min(len(own), MOST)))
        yield chosen


def confusion(speakers: list[str], clusters: list[str], seconds: list[float]) -> float:
    """Seconds that are not with the speaker whom their cluster is matched with."""
    rows, columns_ = sorted(set(clusters)), sorted(set(speakers))
    shared = np.zeros((len(rows), len(columns_)))
    for speaker, cluster, length in zip(speakers, clusters, seconds, strict=True):
        shared[rows.index(cluster), columns_.index(speaker)] += length
    matched = shared[linear_sum_assignment(-shared)].sum()
    return float(sum(seconds) - matched)


def judged(reference: Path, found: dict[str, str]) -> list[tuple[str, float, float, int]]:
    """Domain, wrong seconds, all seconds and speakers too many, of each recording."""
    recordings: dict[str, list[list[str]]] = {}
    for row in columns(reference, 5):
        recordings.setdefault(row[1], []).append(row)
    results = []
    for rows in recordings.values():
        missing = [row[0] for row in rows if row[0] not in found]
        if missing:
            raise fail(f"'{missing[0]}' of {reference} has no speaker")
        speakers, seconds = [row[2] for row in rows], [float(row[3]) for row in rows]
        clusters = [found[row[0]] for row in rows]
        wrong = confusion(speakers, clusters, seconds)
        results.append((rows[0][4], wrong, sum(seconds), len(set(clusters)) - len(set(speakers))))
    return results


def show(results: list[tuple[str, float, float, int]]) -> None:
    """One line of all, one of each domain."""
    domains = sorted({row[0] for row in results})
    for name in ("all", *domains):
        rows = [row for row in results if name in ("all", row[0])]
        share = sum(row[1] for row in rows) / sum(row[2] for row in rows)
        more = np.array([row[3] for row in rows])
        print(
            f"{name}: {100 * share:.2f} % of the seconds confused, {more.mean():+.2f} speakers "
            f"(off by {np.abs(more).mean():.2f}), {len(rows)} recordings"
        )


def cosine(train: Path, out: Path) -> None:
    """Average link of cosines with the threshold that suits recordings of the training set."""
    tables = {place: read_vectors(f"scp:{place / 'xvector.scp'}") for place in (train, out)}
    mean = tables[train].matrix.mean(axis=0)

    def clustered(place: Path, threshold: float) -> list[tuple[str, float, float, int]]:
        table, row, labels = tables[place], tables[place].rows(), {}
        for _, *own in columns(place / "reco2utt"):
            x = table.matrix[[row[u] for u in own]] - mean
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            labels |= dict(zip(own, map(str, average_link(x @ x.T, threshold)), strict=True))
        return judged(place / "reference", labels)

    def wrong(threshold: float) -> float:
        return sum(row[1] for row in clustered(train, threshold))

    best = min((float(t) for t in np.arange(0.0, 0.71, 0.05)), key=wrong)
    print(f"threshold {best:.2f}")
    show(clustered(out, best))


def main(argv: list[str]) -> None:
    """Run one of the commands."""
    options = dict(a[2:].split("=", 1) for a in argv if a.startswith("--") and "=" in a)
    words = [a for a in argv if not a.startswith("--")]
    match words:
        case ["make", folder, out]:
            make(Path(folder), Path(out), int(options.get("seed", 0)), int(options.get("each", 30)))
        case ["judge", reference, utt2spk]:
            show(judged(Path(reference), {r[0]: r[1] for r in columns(Path(utt2spk))}))
        case ["cosine", train, out]:
            cosine(Path(train), Path(out))
        case _:
            raise fail(f"usage: {__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
