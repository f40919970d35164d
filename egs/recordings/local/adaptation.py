"""What unlabelled utterances of a place bring, and what wrong ones cost: runs and tables.

    adaptation.py measure <bundle> <data-dir> <halvings-dir> <trials> <spk2utt|-> <out.tsv>
    adaptation.py wrong <bundle> <data-dir> <halvings-dir> <spk2utt|-> <out.tsv> <pools-dir> ...
    adaptation.py table <name>=<out.tsv> ...           rows of sets, columns of pool sizes
    adaptation.py lodo <out.tsv> ...                   each of one corpus left out; with intervals
    adaptation.py compare <out.tsv> ... -- <out.tsv> ...   the same corpora, before and after
    adaptation.py wrong-table <name>=<out.tsv>,<out.tsv>... ...

<halvings-dir> is made by halvings.py. `measure` does by the runtime's API what these commands do
for one halving and pool, only faster (grep -wf, since a pool is a list of utterances):

    grep -wFf pool.30 xvector.scp > pool.scp
    adapt-backend <bundle> scp:pool.scp <adapted>
    score-trials --durations=utt2dur --spk2utt=<spk2utt> <adapted> scp:xvector.scp scp:xvector.scp \
        trials scores
    eval-scores trials scores

Where adapt-backend refuses a pool (one voice only), the bundle stays as it is, and the table says
how often. Runs in the project's environment.
"""

import random
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from halvings import trial_sides
from lodo import groups_of
from tables import columns, fail, write

from dcaplda.eval.metrics.scalars import cllr, min_cllr_lin
from dcaplda.runtime import Backend
from dcaplda.runtime.errors import InputError
from dcaplda.runtime.several import merged_voiceprints, offsets_to_groups
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_words
from dcaplda.runtime.tables.vectors import read_vectors

FIELDS = ("domain", "halving", "way", "pool", "cllr", "least", "rare", "least_rare", "refused")
POOL = 30
"""Utterances of a wrong pool."""
FEWEST_OF_ONE = 10
"""Utterances of a person who is tried as a pool of one voice."""
ALL = "all"
"""Pool of the rows without adaptation whose trials are the whole list."""
REPLICATES = 10_000


@dataclass(frozen=True)
class Row:
    """One halving of one domain, scored in one way after one pool."""

    domain: str
    halving: int
    way: str
    pool: str
    cllr: float
    """Actual at 0.5."""
    least: float
    """Minimum at 0.5."""
    rare: float
    """Actual at 0.01."""
    least_rare: float
    refused: int = 0

    def line(self) -> str:
        """As it is stored."""
        values = (getattr(self, name) for name in FIELDS)
        return "\t".join(f"{v:.6f}" if isinstance(v, float) else str(v) for v in values)


def read_rows(path: Path) -> list[Row]:
    """What `measure` and `wrong` wrote."""
    kinds = (str, int, str, str, float, float, float, float, int)
    return [
        Row(*(kind(value) for kind, value in zip(kinds, row, strict=True)))
        for row in columns(path, len(FIELDS))
    ]


class Place:
    """Embeddings and seconds of a folder, by utterance."""

    def __init__(self, folder: Path) -> None:
        table = read_vectors(f"scp:{folder / 'xvector.scp'}")
        seconds = read_durations(str(folder / "utt2dur"))
        self.matrix, self.ids, self.row = table.matrix, table.ids, table.rows()
        self.seconds = np.array([seconds[u] for u in table.ids])
        self.speaker = read_words(str(folder / "utt2spk"))
        named = folder / "utt2dom"
        self.domain = read_words(str(named)) if named.is_file() else {}

    def embeddings(self, utterances: Iterable[str]) -> np.ndarray:
        """(n, D), in that order."""
        return self.matrix[[self.row[u] for u in utterances]]


class Trials:
    """The trials of a halving, ready to be scored by any bundle."""

    def __init__(
        self, place: Place, listed: list[list[str]], models: dict[str, list[str]] | None
    ) -> None:
        sides = [trial_sides(row) for row in listed]
        names = sorted({model for model, _, _ in sides})
        members = [models[n] if models else [n] for n in names]
        tests = sorted({test for _, test, _ in sides})
        number = {name: k for k, name in enumerate(names)}
        column = {name: k for k, name in enumerate(tests)}
        self.enroll = np.array([place.row[u] for own in members for u in own])
        self.offsets = np.cumsum([0, *(len(own) for own in members)])
        self.tests = np.array([place.row[u] for u in tests])
        self.model = np.array([number[model] for model, _, _ in sides])
        self.test = np.array([column[test] for _, test, _ in sides])
        self.target = np.array([target for _, _, target in sides])
        self.place = place

    @property
    def ways(self) -> tuple[str, ...]:
        """What a model of several utterances can be scored by."""
        single = len(self.enroll) == len(self.offsets) - 1
        return ("single",) if single else ("joint", "scores")

    def measured(self, backend: Backend) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Way and its figures: actual and minimum at 0.5, at 0.01."""
        place = self.place
        enroll, tests = (
            backend.voiceprints(place.matrix[rows], place.seconds[rows])
            for rows in (self.enroll, self.tests)
        )
        for way in self.ways:
            models, offsets = enroll, self.offsets
            if way == "joint":
                groups = offsets_to_groups(offsets)
                models = merged_voiceprints(backend, enroll, groups, len(offsets) - 1)
                offsets = None
            llrs = backend.score_trials(models, tests, self.model, self.test, groups=offsets)
            both = llrs[self.target], llrs[~self.target]
            yield way, tuple(f(*both, prior) for prior in (0.5, 0.01) for f in (cllr, min_cllr_lin))


def halvings_of(folder: Path) -> list[tuple[str, int, Path]]:
    """Domain, number and directory of each halving."""
    if not folder.is_dir():
        raise fail(f"{folder}: no such directory; halvings.py makes it")
    found = [
        (p.parent.parent.name, int(p.parent.name), p.parent) for p in folder.glob("*/*/trials")
    ]
    return sorted(found)


def rows_of(
    backend: Backend, trials: Trials, pool: np.ndarray, name: str, where: tuple[str, int]
) -> list[Row]:
    """The figures after one pool; a pool that is refused leaves the bundle as it is."""
    refused = 0
    try:
        adapted = backend.adapted(pool)
    except InputError:
        adapted, refused = backend, 1
    return [Row(*where, way, name, *f, refused) for way, f in trials.measured(adapted)]


def measure(bundle: str, data: str, halvings: str, trial_list: str, spk2utt: str, out: str) -> None:
    """Nothing, and each pool of each halving; and nothing on the whole list (pool `all`)."""
    backend, place = Backend.load(bundle, threads=1), Place(Path(data))
    models = None if spk2utt == "-" else read_lists(spk2utt)
    whole: dict[str, list[list[str]]] = {}
    for row in columns(Path(trial_list), 3):
        whole.setdefault(place.domain.get(trial_sides(row)[1], ""), []).append(row)
    lines = []
    for domain, listed in sorted(whole.items()):
        found = Trials(place, listed, models).measured(backend)
        lines += [Row(domain, 0, way, ALL, *figures).line() for way, figures in found]
    for domain, halving, folder in halvings_of(Path(halvings)):
        trials = Trials(place, columns(folder / "trials", 3), models)
        pools: dict[str, list[str]] = {"0": []}
        for path in sorted(folder.glob("pool.*"), key=lambda p: int(p.suffix[1:])):
            pools[path.suffix[1:]] = [row[0] for row in columns(path, 1)]
        for name, pool in pools.items():
            found = rows_of(backend, trials, place.embeddings(pool), name, (domain, halving))
            lines += [row.line() for row in found]
    write(Path(out), lines)


def wrong(bundle: str, data: str, halvings: str, spk2utt: str, out: str, *pools: str) -> None:
    """Pools of other corpora, of two places, and of one person; trials of the first halving.

    `pool` in the rows is `0`, `30` (right), `other:<domain>`, `two:<domain>` (half of the right
    pool, half of that domain) or `one:<person>`.
    """
    backend, place = Backend.load(bundle, threads=1), Place(Path(data))
    models = None if spk2utt == "-" else read_lists(spk2utt)
    sources = [Place(Path(folder)) for folder in pools]
    everything = [place, *sources]
    joined = {
        "utt2dom": {u: d for source in everything for u, d in source.domain.items()},
        "utt2spk": {u: s for source in everything for u, s in source.speaker.items()},
    }
    corpus = {domain: k for k, group in enumerate(groups_of(joined)) for domain in group}
    chance = random.Random(0)
    drawn = {}
    for source in sources:
        for domain in sorted(set(source.domain.values())):
            own = [u for u in source.ids if source.domain[u] == domain]
            drawn[domain] = source.embeddings(chance.sample(own, min(POOL, len(own))))
    lines = []
    for domain, halving, folder in halvings_of(Path(halvings)):
        if halving:
            continue
        trials = Trials(place, columns(folder / "trials", 3), models)
        right = [row[0] for row in columns(folder / f"pool.{POOL}", 1)]
        half = place.embeddings(right[: POOL // 2])
        tried = {"0": place.embeddings([]), str(POOL): place.embeddings(right)}
        for other, pool in drawn.items():
            if corpus[other] != corpus[domain]:
                tried[f"other:{other}"] = pool
                tried[f"two:{other}"] = np.concatenate([half, pool[: POOL - len(half)]])
        for person, own in heard_people(place, domain, folder / "trials", models).items():
            if len(own) >= FEWEST_OF_ONE:
                tried[f"one:{person}"] = place.embeddings(chance.sample(own, min(POOL, len(own))))
        for name, pool in tried.items():
            lines += [r.line() for r in rows_of(backend, trials, pool, name, (domain, halving))]
    write(Path(out), lines)


def heard_people(
    place: Place, domain: str, trials: Path, models: dict[str, list[str]] | None
) -> dict[str, list[str]]:
    """Utterances, by person, of those of the domain who are in no trial."""
    judged = set()
    for row in columns(trials, 3):
        model, test, _ = trial_sides(row)
        judged |= {place.speaker[u] for u in (*(models[model] if models else [model]), test)}
    found: dict[str, list[str]] = {}
    for utterance in place.ids:
        person = place.speaker[utterance]
        if place.domain.get(utterance, domain) == domain and person not in judged:
            found.setdefault(person, []).append(utterance)
    return found


Figure = Callable[[Row], float]


def domain_means(rows: list[Row], figure: Figure) -> dict[str, float]:
    """Mean over the halvings of each domain."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row.domain, []).append(figure(row))
    return {domain: float(np.mean(values)) for domain, values in found.items()}


def mean(rows: list[Row], figure: Figure) -> float:
    """Mean over domains."""
    return float(np.mean(list(domain_means(rows, figure).values())))


def cell(rows: list[Row]) -> str:
    """`actual / minimum (least halving-largest) [at 0.01]`."""
    by_halving = [
        mean([r for r in rows if r.halving == k], lambda r: r.cllr)
        for k in sorted({r.halving for r in rows})
    ]
    spread = f" ({min(by_halving):.3f}-{max(by_halving):.3f})" if len(by_halving) > 1 else ""
    return (
        f"{mean(rows, lambda r: r.cllr):.3f} / {mean(rows, lambda r: r.least):.3f}"
        f"{spread} [{mean(rows, lambda r: r.rare):.3f}]"
    )


def sizes(rows: list[Row]) -> list[str]:
    """Pool sizes in rising order."""
    return sorted({r.pool for r in rows if r.pool != ALL}, key=int)


def header(first: str, names: list[str]) -> list[str]:
    """Two lines that open a table."""
    words = {ALL: "nothing, all people", "0": "nothing"}
    shown = [words.get(name, name) for name in names]
    return [f"| {first} | " + " | ".join(shown) + " |", "| --- " * (len(names) + 1) + "|"]


def refusals(rows: list[Row]) -> str:
    """How many pools were of one voice."""
    tried = {(r.domain, r.halving, r.pool): r.refused for r in rows if r.pool not in ("0", ALL)}
    return f"{sum(tried.values())} of {len(tried)} pools refused as one person's"


def table(*sets: str) -> None:
    """Rows of sets and ways, columns of pool sizes."""
    lines: list[str] = []
    notes = []
    for entry in sets:
        name, _, path = entry.partition("=")
        rows = read_rows(Path(path))
        names = [ALL, *sizes(rows)]
        lines = lines or header("set", names)
        for way in dict.fromkeys(r.way for r in rows):
            own = [r for r in rows if r.way == way]
            cells = [cell([r for r in own if r.pool == n]) for n in names]
            shown = name if way == "single" else f"{name}, {way}"
            lines.append(f"| {shown} | " + " | ".join(cells) + " |")
        notes.append(f"{name}: {refusals(rows)}")
    print("\n".join([*lines, "", "; ".join(notes) + "."]))


def corpora(paths: Iterable[str]) -> list[list[Row]]:
    """Rows of each corpus; several files of one directory are several seeds of its halvings."""
    found: dict[Path, list[Row]] = {}
    for path in map(Path, paths):
        own = found.setdefault(path.parent, [])
        first = 1 + max((r.halving for r in own), default=-1)
        own += [replace(row, halving=row.halving + first) for row in read_rows(path)]
    return list(found.values())


def paired(by_corpus: list[dict[str, float]]) -> str:
    """Mean over domains of differences, and its 95% interval by bootstrap over corpora."""
    sums = np.array([sum(own.values()) for own in by_corpus])
    counts = np.array([len(own) for own in by_corpus])
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(sums), size=(REPLICATES, len(sums)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{sums.sum() / counts.sum():+.4f} ({low:+.4f} to {high:+.4f})"


def gaps(left: list[list[Row]], right: list[list[Row]], figure: Figure) -> list[dict[str, float]]:
    """right - left of each domain, corpus by corpus."""
    pairs = zip(left, right, strict=True)
    found = []
    for before, after in ((domain_means(a, figure), domain_means(b, figure)) for a, b in pairs):
        found.append({domain: after[domain] - before[domain] for domain in before})
    return found


def of_pool(groups: list[list[Row]], size: str) -> list[list[Row]]:
    """Rows after a pool of this size."""
    return [[r for r in own if r.pool == size] for own in groups]


def lodo(*paths: str) -> None:
    """Each domain that was left out, the mean, and what each step of the pool brings."""
    groups = corpora(paths)
    rows = [row for own in groups for row in own]
    names = sizes(rows)
    lines = header("left out", names)
    for domain in sorted({r.domain for r in rows}):
        own = [r for r in rows if r.domain == domain]
        lines.append(
            f"| {domain} | " + " | ".join(cell(of_pool([own], n)[0]) for n in names) + " |"
        )
    cells = [cell([r for r in rows if r.pool == n]) for n in names]
    lines.append("| **mean** | " + " | ".join(cells) + " |")
    lines += ["", "| step | actual at 0.5 | minimum at 0.5 | actual at 0.01 |", "| --- " * 4 + "|"]
    figures: list[Figure] = [lambda r: r.cllr, lambda r: r.least, lambda r: r.rare]
    steps = [*zip(names, names[1:], strict=False), (names[0], names[-1])]
    for one, other in dict.fromkeys(steps):
        found = [paired(gaps(of_pool(groups, one), of_pool(groups, other), f)) for f in figures]
        lines.append(f"| {one} to {other} | " + " | ".join(found) + " |")
    print("\n".join([*lines, "", refusals(rows) + "."]))


def compare(*paths: str) -> None:
    """The same corpora and halvings with another training: paired differences."""
    cut = paths.index("--")
    before, after = corpora(paths[:cut]), corpora(paths[cut + 1 :])
    names = sizes(before[0])
    lines = header("after - before", names)
    figures: dict[str, Figure] = {"0.5": lambda r: r.cllr, "0.01": lambda r: r.rare}
    for prior, figure in figures.items():
        cells = [paired(gaps(of_pool(before, n), of_pool(after, n), figure)) for n in names]
        lines.append(f"| actual at {prior} | " + " | ".join(cells) + " |")
    print("\n".join(lines))


def wrong_table(*sets: str) -> None:
    """Mean Cllr after each kind of pool, its cost in percent, and how many were worse off."""
    kinds = {"other": f"{POOL} of another corpus", "two": "half of another corpus"}
    kinds["one"] = f"{FEWEST_OF_ONE} to {POOL} of one person"
    print("| set | pool | tried | refused | nothing | right pool | this pool | cost | worse |")
    print("| --- " * 9 + "|")
    for entry in sets:
        name, _, paths = entry.partition("=")
        rows = [row for path in paths.split(",") for row in read_rows(Path(path))]
        rows = [r for r in rows if r.way in ("single", "joint")]
        plain = {r.domain: r.cllr for r in rows if r.pool == "0"}
        right = {r.domain: r.cllr for r in rows if r.pool == str(POOL)}
        for kind, shown in kinds.items():
            tried = [r for r in rows if r.pool.startswith(f"{kind}:")]
            taken = [r for r in tried if not r.refused]
            head = f"| {name} | {shown} | {len(tried)} | {len(tried) - len(taken)} |"
            if not taken:
                print(f"{head} - | - | - | - | - |")
                continue
            # Each domain counts once, however many pools were tried on it.
            there = set(domain_means(taken, lambda r: r.cllr))
            now = mean(taken, lambda r: r.cllr)
            was, best = (float(np.mean([m[d] for d in there])) for m in (plain, right))
            worse = sum(r.cllr > plain[r.domain] for r in taken)
            print(
                f"{head} {was:.3f} | {best:.3f} | {now:.3f} | {100 * (now / was - 1):+.0f} % | "
                f"{worse} of {len(taken)} |"
            )


TOOLS = {"measure": measure, "wrong": wrong, "table": table, "lodo": lodo, "compare": compare}
TOOLS["wrong-table"] = wrong_table

if __name__ == "__main__":
    TOOLS[sys.argv[1]](*sys.argv[2:])
