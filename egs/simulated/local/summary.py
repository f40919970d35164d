#!/usr/bin/env python3
"""Tables per group of sets from the JSON of eval-scores, and what the recipe promises, checked.

Usage: summary.py <results-prefix>     reads <prefix>.single.json, <prefix>.multi-*.json and, for
                                       the oracle's intervals, oracle.json beside them
"""

import json
import sys
from pathlib import Path

UNSEEN = "unseen"
COLUMNS = (
    ("Cllr.5", "cllr_0.5"),
    ("min", "min_cllr_lin_0.5"),
    ("Cllr.01", "cllr_0.01"),
    ("min", "min_cllr_lin_0.01"),
    ("DCF.01", "dcf_0.01"),
    ("min", "min_dcf_0.01"),
    ("EER %", "eer"),
)

Row = dict
Table = dict[tuple[str, str], dict[str, float]]


def read(path: Path) -> list[Row]:
    """Results of eval-scores: sets and averages of groups."""
    return json.loads(path.read_text())


def by_group(rows: list[Row]) -> Table:
    """(group, system) -> metrics; `unseen` is the mean over all evaluation sets."""
    return {
        (row["set"], row["system"]): {name: row[name] for _, name in COLUMNS}
        for row in rows
        if "average_of" in row
    }


def groups(table: Table) -> list[str]:
    """Groups in the order of the file, `unseen` last."""
    found = dict.fromkeys(group for group, _ in table if group != UNSEEN)
    return [*found, *([UNSEEN] if any(group == UNSEEN for group, _ in table) else [])]


def systems(table: Table) -> list[str]:
    """Systems in the order of the file."""
    return list(dict.fromkeys(system for _, system in table))


def print_groups(table: Table) -> None:
    """One block of lines per group."""
    width = max(len(system) for system in systems(table))
    for group in groups(table):
        note = ", the mean of the unseen evaluation groups" if group == UNSEEN else ""
        print(f"\nGroup {group}{note}")
        print(" " * width + "".join(f"{title:>9}" for title, _ in COLUMNS))
        for system in systems(table):
            values = table[group, system]
            cells = "".join(f"{values[name]:9.{2 if name == 'eer' else 3}f}" for _, name in COLUMNS)
            print(f"{system:<{width}}{cells}")


def print_multi(prefix: str, single: Table) -> None:
    """Enrolment of three utterances: mean of scores, mean of voiceprints, the oracle's own."""
    ways = {way: Path(f"{prefix}.multi-{way}.json") for way in ("scores", "voiceprints")}
    if not all(path.is_file() for path in ways.values()):
        return
    tables = {way: by_group(read(path)) for way, path in ways.items()}
    width = max(len(system) for system in systems(single))
    print("\nEnrolment of 3 utterances, mean over the unseen groups: actual / minimum Cllr at 0.5")
    print(f"{'':<{width}}{'single':>18}{'3, scores':>18}{'3, voiceprints':>18}")
    for system in systems(single):
        cells = ""
        for table in (single, tables["scores"], tables["voiceprints"]):
            values = table[UNSEEN, system]
            shown = f"{values['cllr_0.5']:.3f} / {values['min_cllr_lin_0.5']:.3f}"
            cells += f"{shown:>18}"
        print(f"{system:<{width}}{cells}")


def print_oracle_check(rows: list[Row], oracle: list[Row]) -> None:
    """Is a system below the lower end of the oracle's interval in any set?"""
    low = {
        row["set"]: row["intervals"]
        for row in oracle
        if "intervals" in row and "average_of" not in row
    }
    beaten = [
        f"{row['system']} on {row['set']}: {row[name]:.4f} below {low[row['set']][name][0]:.4f}"
        for row in rows
        for name in ("cllr_0.5", "cllr_0.01")
        if row["set"] in low and row["system"] != "oracle" and row[name] < low[row["set"]][name][0]
    ]
    if low:
        print(f"\nSystems below the oracle's 95% interval in any of {len(low)} sets: {len(beaten)}")
        for line in beaten:
            print(f"  {line}")


def print_order(rows: list[Row]) -> None:
    """Systems by their mean over the unseen sets, with intervals by bootstrap over people."""
    chosen = [r for r in rows if r["set"] == UNSEEN and "average_of" in r and "intervals" in r]
    if not chosen:
        return
    name = "cllr_0.5"
    width = max(len(row["system"]) for row in chosen)
    base = next((r["difference"]["baseline"] for r in chosen if "difference" in r), None)
    print("\nMean over the unseen sets, actual Cllr at 0.5, with 95% intervals over people")
    print(f"{'':<{width}}     Cllr            interval" + (f"   minus {base}" if base else ""))
    for row in sorted(chosen, key=lambda row: row[name]):
        low, high = row["intervals"][name]
        line = f"{row['system']:<{width}} {row[name]:8.3f}   {low:7.3f} to {high:.3f}"
        if "difference" in row:
            low, high = row["difference"]["intervals"][name]
            line += f"   {row['difference'][name]:+.3f} ({low:+.3f} to {high:+.3f})"
        print(line)


def print_claims(table: Table) -> None:
    """What the demo is expected to show, as it came out."""
    best, base = "d-plda-dsd", "plda"
    if not {best, base} <= set(systems(table)):
        return

    def loss(group: str, system: str) -> float:
        return table[group, system]["cllr_0.5"]

    gain = 100 * (1 - loss(UNSEEN, best) / loss(UNSEEN, base))
    print(f"\nActual Cllr at 0.5 on the unseen groups: {best} is {gain:.0f}% below {base}", end="")
    if "d-plda" in systems(table):
        print(f" and {100 * (1 - loss(UNSEEN, best) / loss(UNSEEN, 'd-plda')):.0f}% below d-plda")
    unseen = [group for group in groups(table) if group not in ("trnh", "dev", UNSEEN)]
    bad = [g for g in unseen if loss(g, best) > 1 or loss(g, best) > loss(g, base)]
    print(f"Unseen groups where it is above 1 or worse than {base}: {', '.join(bad) or 'none'}")


def main(prefix: str) -> int:
    """Print everything."""
    rows = read(Path(f"{prefix}.single.json"))
    table = by_group(rows)
    print_groups(table)
    print_multi(prefix, table)
    oracle = Path(prefix).with_name("oracle.json")
    if oracle.is_file():
        print_oracle_check([row for row in rows if "average_of" not in row], read(oracle))
    print_order(rows)
    print_claims(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
