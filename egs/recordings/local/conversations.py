"""Recordings of several people, put together from utterances, and how well they were clustered.

    conversations.py make [--seed=0] [--each=30] [--domains=a,b] <data-dir> <out-dir>
    conversations.py judge <out-dir>/reference <utt2spk>
    conversations.py cosine <train-out-dir> <out-dir> [<utt2spk>]
    conversations.py table <exp-dir> <system>...
    conversations.py paired <out-dir>... -- <system> <other>

`make` draws, for each domain of a Kaldi directory, recordings of two to six people: two to eight
utterances of at most 5 s of one session of each (chunks only where utt2kind tells). An utterance
may be in several, each time under a name of its own. Writes reco2utt, xvector.scp, utt2dur and
`reference` (utterance, recording, speaker, seconds, domain). `judge` prints the share of the
seconds that are with another speaker, clusters and speakers matched as well as can be, and by how
many the number of speakers is wrong. `cosine` is what people do without LLRs: cosine around the
mean of the training recordings, average link, the threshold that is best on those. `table` and
`paired` are of what conversations.sh left: `<out-dir>/<system>.utt2spk`. A paired difference is
the mean over corpora (domains that share people), with its interval of 95 % by Student's t.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import t as student
from tables import absolute_scp, columns, fail, write

from dcaplda.runtime.clustering.linkage import average_link
from dcaplda.runtime.tables.vectors import read_vectors

LONGEST = 5.0
FEWEST, MOST = 2, 8
"""Utterances of a person in a recording."""
SETS = ("left-out", "seen", "unseen")
"""Folders of conversations.sh, the columns of a table."""

Judged = tuple[str, float, float, int]
"""Of one recording: domain, wrong seconds, all seconds and speakers too many."""


def make(folder: Path, out: Path, seed: int, each: int, only: list[str]) -> None:
    """Draw recordings of every domain; what a domain has does not depend on the others."""
    table = {
        name: {row[0]: row[1] for row in columns(folder / name)}
        for name in ("utt2spk", "utt2dom", "utt2sess", "utt2dur", "utt2kind")
        if (folder / name).is_file()
    }
    sessions: dict[str, dict[str, dict[str, list[str]]]] = {}
    place = dict(line.split(" ", 1) for line in absolute_scp(folder))
    unknown = set(only) - set(table["utt2dom"].values())
    if unknown:
        raise fail(f"{folder / 'utt2dom'}: no domain '{min(unknown)}'")
    for utterance, domain in sorted(table["utt2dom"].items()):
        if only and domain not in only:
            continue
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
                written["reference"].append(
                    f"{own} {name} {table['utt2spk'][utterance]} {length} {domain}"
                )
                written["xvector.scp"].append(f"{own} {place[utterance]}")
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


def judged(reference: Path, found: dict[str, str]) -> list[Judged]:
    """Every recording of a reference."""
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


def show(results: list[Judged]) -> None:
    """One line of all, one of each domain."""
    domains = sorted({row[0] for row in results})
    for name in ("all", *domains):
        rows = [row for row in results if name in ("all", row[0])]
        more = np.array([row[3] for row in rows])
        print(
            f"{name}: {100 * share(rows):.2f} % of the seconds confused, {more.mean():+.2f} "
            f"speakers (off by {np.abs(more).mean():.2f}), {len(rows)} recordings"
        )


def cosine(train: Path, out: Path, target: Path | None) -> None:
    """Average link of cosines with the threshold that suits recordings of the training set."""
    tables = {place: read_vectors(f"scp:{place / 'xvector.scp'}") for place in (train, out)}
    mean = tables[train].matrix.mean(axis=0)

    def clustered(place: Path, threshold: float) -> dict[str, str]:
        table, row, labels = tables[place], tables[place].rows(), {}
        for _, *own in columns(place / "reco2utt"):
            x = table.matrix[[row[u] for u in own]] - mean
            x /= np.linalg.norm(x, axis=1, keepdims=True)
            labels |= dict(zip(own, map(str, average_link(x @ x.T, threshold)), strict=True))
        return labels

    def wrong(threshold: float) -> float:
        return sum(row[1] for row in judged(train / "reference", clustered(train, threshold)))

    best = min((float(t) for t in np.arange(0.0, 0.71, 0.05)), key=wrong)
    print(f"threshold {best:.2f}")
    found = clustered(out, best)
    if target is not None:
        write(target, [f"{u} {label}" for u, label in found.items()])
    show(judged(out / "reference", found))


def of_system(places: list[Path], system: str) -> list[Judged]:
    """What a system left of the recordings of several folders."""
    results = []
    for place in places:
        found = {r[0]: r[1] for r in columns(place / f"{system}.utt2spk")}
        results += judged(place / "reference", found)
    return results


def table(exp: Path, systems: list[str]) -> None:
    """A Markdown table: systems by the sets of <exp-dir>, a set is a folder or folders of parts."""
    sets = [exp / name for name in SETS if (exp / name).is_dir()]
    print("| clusters by | " + " | ".join(place.name for place in sets) + " |")
    print("| --- |" + " --- |" * len(sets))
    for system in systems:
        cells = []
        for place in sets:
            parts = sorted(path.parent for path in place.rglob("reference"))
            if all((part / f"{system}.utt2spk").is_file() for part in parts):
                rows = of_system(parts, system)
                more = np.array([row[3] for row in rows])
                cells.append(
                    f"{100 * share(rows):.2f} %, {more.mean():+.2f} ({np.abs(more).mean():.2f})"
                )
            else:
                cells.append("")
        print(f"| {system} | " + " | ".join(cells) + " |")


def paired(places: list[Path], systems: list[str]) -> None:
    """By how much the second system is worse than the first, in points, over corpora."""
    corpus = corpora([place / "reference" for place in places])
    results = [of_system(places, system) for system in systems]
    points = []
    for name in sorted(set(corpus.values())):
        own = [[row for row in rows if corpus[row[0]] == name] for rows in results]
        points.append(100 * (share(own[1]) - share(own[0])))
        print(f"{name}: {100 * share(own[0]):.2f} {100 * share(own[1]):.2f} {points[-1]:+.2f}")
    mean, reach = float(np.mean(points)), float("nan")
    if len(points) > 1:
        reach = student.ppf(0.975, len(points) - 1) * np.std(points, ddof=1) / len(points) ** 0.5
    interval = f"{mean - reach:+.2f} to {mean + reach:+.2f}"
    print(f"mean of {len(points)} corpora: {mean:+.2f} ({interval})")


def corpora(references: list[Path]) -> dict[str, str]:
    """The corpus of each domain, named after its first; domains that share people are one."""
    people: dict[str, set[str]] = {}
    for reference in references:
        for row in columns(reference, 5):
            people.setdefault(row[4], set()).add(row[2])
    corpus: dict[str, str] = {}
    for domain in sorted(people):
        related = [d for d in sorted(corpus) if people[d] & people[domain]]
        corpus[domain] = corpus[related[0]] if related else domain
    return corpus


def share(rows: list[Judged]) -> float:
    """Of the seconds that are confused."""
    return sum(row[1] for row in rows) / sum(row[2] for row in rows)


def main(argv: list[str]) -> None:
    """Run one of the commands."""
    options = dict(a[2:].split("=", 1) for a in argv if a.startswith("--") and "=" in a)
    words = [a for a in argv if not a.startswith("--")]
    match words:
        case ["make", folder, out]:
            seed, each = int(options.get("seed", 0)), int(options.get("each", 30))
            only = [name for name in options.get("domains", "").split(",") if name]
            make(Path(folder), Path(out), seed, each, only)
        case ["judge", reference, utt2spk]:
            show(judged(Path(reference), {r[0]: r[1] for r in columns(Path(utt2spk))}))
        case ["cosine", train, out]:
            cosine(Path(train), Path(out), None)
        case ["cosine", train, out, utt2spk]:
            cosine(Path(train), Path(out), Path(utt2spk))
        case ["table", exp, *systems] if systems:
            table(Path(exp), systems)
        case ["paired", _, *_] if "--" in argv and len(argv) - argv.index("--") == 3:
            places = argv[1 : argv.index("--")]
            paired([Path(place) for place in places], argv[-2:])
        case _:
            raise fail(f"usage: {__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
