"""Every training domain in turn as the unseen one: data, trials and recipes for robustness.sh.

    lodo.py prepare <exp-dir>             after stage 0 of run.sh; writes <exp-dir>/lodo/<domain>/
    lodo.py table <exp-dir> <changes>     means over the held-out domains, as a Markdown table

Domains that share people (a recording and its degraded copy) are held out together. What is held
out takes no part in anything: not in LDA and PLDA, not in training, and its domains are taken
out of the development sets that choose the step. Its own people are the trials.

Standard library only, so that any Python from 3.11 on runs it.
"""

import json
import random
import sys
import tomllib
from pathlib import Path

from tables import columns, fail, write

TABLES = ("xvector.scp", "utt2dur", "utt2spk", "utt2sess", "utt2dom")
TARGETS, NONTARGETS = 4000, 20000
"""Most trials of a domain; more would only repeat the same few people."""
HELD_OUT = "held-out"


def read_tables(folder: Path) -> dict[str, dict[str, str]]:
    """Tables of a data directory, by utterance; without utt2sess an utterance is a session."""
    found = {
        name: {row[0]: " ".join(row[1:]) for row in columns(folder / name)}
        for name in TABLES
        if (folder / name).is_file()
    }
    if "utt2dom" not in found or len(set(found["utt2dom"].values())) < 2:
        raise fail(f"{folder}: has one domain only; none can be held out")
    return found


def groups_of(tables: dict[str, dict[str, str]]) -> list[list[str]]:
    """Domains that share people belong together."""
    home: dict[str, str] = {}
    parent = {domain: domain for domain in tables["utt2dom"].values()}

    def root(domain: str) -> str:
        while parent[domain] != domain:
            domain = parent[domain]
        return domain

    for utterance, domain in sorted(tables["utt2dom"].items()):
        person = tables["utt2spk"][utterance]
        parent[root(domain)] = root(home.setdefault(person, domain))
    found: dict[str, list[str]] = {}
    for domain in sorted(parent):
        found.setdefault(root(domain), []).append(domain)
    return sorted(found.values())


def trials_of(utterances: list[str], tables: dict[str, dict[str, str]]) -> list[str]:
    """Pairs of one domain and of different sessions: all targets, and nontargets by chance."""
    chance = random.Random(0)
    session = tables.get("utt2sess", {})
    by_domain: dict[str, list[str]] = {}
    for utterance in utterances:
        by_domain.setdefault(tables["utt2dom"][utterance], []).append(utterance)
    lines = []
    for members in by_domain.values():
        pairs: dict[str, list[str]] = {"target": [], "nontarget": []}
        for place, one in enumerate(members):
            for other in members[place + 1 :]:
                if session.get(one, one) != session.get(other, other):
                    same = tables["utt2spk"][one] == tables["utt2spk"][other]
                    kind = "target" if same else "nontarget"
                    pairs[kind].append(f"{one} {other} {kind}")
        for kind, most in (("target", TARGETS), ("nontarget", NONTARGETS)):
            few = pairs[kind]
            lines += few if len(few) <= most else chance.sample(few, most)
    return lines


def without(domains: list[str], section: dict, place: Path) -> dict | None:
    """A development set without trials whose test is of these domains; None if none is left."""
    domain = {row[0]: row[1] for row in columns(Path(section["utt2dom"]))}
    kept = []
    for row in columns(Path(section["trials"]), 3):
        if domain[row[2] if row[0] in ("0", "1") else row[1]] not in domains:
            kept.append(" ".join(row))
    if not kept:
        return None
    write(place / section["name"], kept)
    return {**section, "trials": str(place / section["name"])}


def dev_lines(section: dict) -> list[str]:
    """[[dev]] in TOML; strings and numbers only."""
    return ["", "[[dev]]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]


def prepare(exp: str) -> None:
    """Directories <exp-dir>/lodo/<domain>/ with a training set, a recipe and trials."""
    root = Path(exp).resolve()
    tables = read_tables(root / "data/train")
    recipe = (root / "conf/train.toml").read_text(encoding="utf-8")
    head = recipe.split("\n[[dev]]")[0].splitlines()
    sections = tomllib.loads(recipe)["dev"]
    names = []
    for domains in groups_of(tables):
        place = root / "lodo" / domains[0]
        names.append(domains[0])
        inside = [u for u in tables["xvector.scp"] if tables["utt2dom"][u] in domains]
        hidden = set(inside)
        for name, table in tables.items():
            rest = [f"{u} {value}" for u, value in table.items() if u not in hidden]
            write(place / "train" / name, rest)
            write(place / "held" / name, [f"{u} {table[u]}" for u in inside])
        write(place / "held/trials", trials_of(inside, tables))
        held = {
            "name": HELD_OUT,
            "group": HELD_OUT,
            "xvectors": f"scp:{place / 'held/xvector.scp'}",
            "durations": str(place / "held/utt2dur"),
            "trials": str(place / "held/trials"),
            "split": "domain",
            "utt2dom": str(place / "held/utt2dom"),
            "weight": 0.0,
        }
        kept = [without(domains, section, place / "dev") for section in sections]
        lines = [line for section in kept if section for line in dev_lines(section)]
        write(place / "train.toml", [*head, *lines, *dev_lines(held)])
    write(root / "lodo/names", names)


def table(exp: str, changes: str) -> None:
    """Mean over the held-out domains of actual / minimum Cllr, and the range over seeds."""
    root = Path(exp) / "lodo"
    names = [row[0] for row in columns(root / "names", 1)]
    print("| change | seeds | held out, p 0.5 | p 0.01 | worst domain, p 0.5 |")
    print("| --- | --- | --- | --- | --- |")
    for change in [row[0] for row in columns(Path(changes), 1) if row[0][0] not in "#@"]:
        by_seed: dict[str, list[dict]] = {}
        for name in names:
            for run in sorted((root / name / change).glob("seed-*/training_summary.json")):
                sets = json.loads(run.read_text(encoding="utf-8"))["dev"]
                own = [r for r in sets if r["group"] == HELD_OUT]
                by_seed.setdefault(run.parent.name, []).extend(own)
        if not by_seed:
            continue
        cells = []
        for prior in ("0.5", "0.01"):
            means = [
                [sum(r[f"{key}@{prior}"] for r in rows) / len(rows) for key in ("cllr", "min_cllr")]
                for rows in by_seed.values()
            ]
            actual, least = ([mean[k] for mean in means] for k in (0, 1))
            spread = f" ({min(actual):.3f}-{max(actual):.3f})" if len(means) > 1 else ""
            n = len(means)
            cells.append(f"{sum(actual) / n:.3f} / {sum(least) / n:.3f}{spread}")
        worst = max((r for rows in by_seed.values() for r in rows), key=lambda r: r["cllr@0.5"])
        domain = worst["name"].removeprefix(f"{HELD_OUT}/")
        cells.append(f"{domain} {worst['cllr@0.5']:.3f}")
        print(f"| {change} | {len(by_seed)} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    {"prepare": prepare, "table": table}[sys.argv[1]](*sys.argv[2:])
