"""What the recipe decides between its tools, and the tables that it prints.

    plan.py best <run-dir> ...             the run with the least development loss
    plan.py table <exp-dir> <system> ...   the table of sets and systems for eval-scores
    plan.py least <exp-dir> <results.json> the system with the least development Cllr
    plan.py robustness <exp-dir> <changes> the table of robustness.sh
    plan.py summary <exp-dir>              group means of every system, as a Markdown table

Standard library only, so that any Python from 3.11 on runs it.
"""

import json
import sys
from pathlib import Path

from tables import columns, write


def best(*runs: str) -> None:
    """The name of the run whose selected model has the least development loss."""
    found = []
    for run in runs:
        summary = json.loads((Path(run) / "training_summary.json").read_text(encoding="utf-8"))
        found.append((summary["average"], Path(run).name))
        print(f"run.sh: {Path(run).name}: {summary['average']:.4f}", file=sys.stderr)
    print(min(found)[1])


def table(exp: str, *systems: str) -> None:
    """sets.toml for eval-scores: one set per domain, averaged by group."""
    target = Path(exp).resolve()
    lines = []
    for _, name, folder, _, spk2utt, group, domains in (
        row.split("\t") for row in (target / "sets.tsv").read_text(encoding="utf-8").splitlines()
    ):
        for domain in domains.split(","):
            lines += ["[[set]]", f'name = "{name}.{domain}"', f'group = "{group}"']
            lines += [f'trials = "{target}/trials/{name}/{domain}"']
            lines += [f'utt2spk = "{target}/data/{folder}/utt2spk"']
            if spk2utt != "-":
                lines += [f'spk2utt = "{target}/data/{folder}/{spk2utt}"']
    for system in systems:
        lines += [
            "[[system]]",
            f'name = "{system}"',
            f'scores = "{target}/scores/{system}/{{set}}"',
        ]
        for bundle in (target / system / "bundle", target / "runs" / system / "bundle"):
            if bundle.is_dir():
                lines += [f'model = "{bundle}"']
    write(target / "sets.toml", lines)


def least(exp: str, results: str) -> None:
    """The system with the least Cllr at 0.5 over the development sets, each domain alike."""
    dev = {
        row.split("\t")[1]
        for row in (Path(exp) / "sets.tsv").read_text(encoding="utf-8").splitlines()
        if row.startswith("dev\t")
    }
    losses: dict[str, list[float]] = {}
    for row in json.loads(Path(results).read_text(encoding="utf-8")):
        if row.get("set") and row["set"].rpartition(".")[0] in dev:
            losses.setdefault(row["system"], []).append(row["cllr_0.5"])
    print(min(losses, key=lambda system: sum(losses[system])))


def summary(exp: str) -> None:
    """Actual / minimum Cllr of each system, the mean over the domains of each group."""
    results = json.loads((Path(exp) / "results.json").read_text(encoding="utf-8"))
    means = {(r["set"], r["system"]): r for r in results if "average_of" in r}
    groups = list(dict.fromkeys(group for group, _ in means))
    systems = list(dict.fromkeys(system for _, system in means))
    for prior in ("0.5", "0.01"):
        name = f"cllr_{prior}"
        print(
            f"\nMean over domains of actual / minimum Cllr at {prior}, 95% interval over people:\n"
        )
        print("| system | " + " | ".join(groups) + " |")
        print("|" + " --- |" * (len(groups) + 1))
        for system in systems:
            cells = []
            for group in groups:
                row = means[group, system]
                span = row.get("intervals", {}).get(name)
                ends = f" ({span[0]:.3f}-{span[1]:.3f})" if span else ""
                cells.append(f"{row[name]:.3f} / {row[f'min_cllr_lin_{prior}']:.3f}{ends}")
            print(f"| {system} | " + " | ".join(cells) + " |")
    print_differences(results, groups, systems)


def print_differences(results: list[dict], groups: list[str], systems: list[str]) -> None:
    """Differences from the baseline with paired intervals; sets where a system is worse."""
    told = {(r["set"], r["system"]): r["difference"] for r in results if "difference" in r}
    if not told or not all(difference["intervals"] for difference in told.values()):
        return
    base, name = next(iter(told.values()))["baseline"], "cllr_0.5"
    sets = [r["set"] for r in results if "average_of" not in r and r["system"] == base]
    print(
        f"\nActual Cllr at 0.5 minus that of {base}, paired 95% interval over people; domains that"
    )
    print("are worse, and of these the ones whose interval leaves out zero:\n")
    print("| system | " + " | ".join(groups) + f" | worse, of {len(sets)} | beyond the interval |")
    print("|" + " --- |" * (len(groups) + 3))
    for system in (system for system in systems if system != base):
        cells = []
        for group in groups:
            low, high = told[group, system]["intervals"][name]
            cells.append(f"{told[group, system][name]:+.3f} ({low:+.3f} to {high:+.3f})")
        worse = [s for s in sets if told[s, system][name] > 0]
        clear = [s for s in worse if told[s, system]["intervals"][name][0] > 0]
        cells += [str(len(worse)), ", ".join(clear) or "none"]
        print(f"| {system} | " + " | ".join(cells) + " |")


def robustness(exp: str, changes: str) -> None:
    """Group means over the development domains for every change, mean and range over seeds."""
    lines, groups = [], []
    for row in columns(Path(changes), 1):
        if row[0][0] in "#@":
            continue
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for run in sorted((Path(exp) / "robustness" / row[0]).glob("seed-*/training_summary.json")):
            sets = json.loads(run.read_text(encoding="utf-8"))["dev"]
            groups = list(dict.fromkeys(r["group"] for r in sets))
            for group in groups:
                own = [r for r in sets if r["group"] == group]
                for prior in ("0.5", "0.01"):
                    pair = [
                        sum(r[f"{key}@{prior}"] for r in own) / len(own)
                        for key in ("cllr", "min_cllr")
                    ]
                    found.setdefault((group, prior), []).append((pair[0], pair[1]))
        cells = []
        for values in found.values():
            actual, minimum = zip(*values, strict=True)
            n = len(values)
            spread = f" ({min(actual):.3f}-{max(actual):.3f})" if n > 1 else ""
            cells.append(f"{sum(actual) / n:.3f} / {sum(minimum) / n:.3f}{spread}")
        if cells:
            lines.append(f"| {row[0]} | {n} | " + " | ".join(cells) + " |")
    heads = [f"{group}, p {prior}" for group in groups for prior in ("0.5", "0.01")]
    print("| change | seeds | " + " | ".join(heads) + " |")
    print("|" + " --- |" * (len(heads) + 2))
    print("\n".join(lines))


if __name__ == "__main__":
    commands = {"best": best, "table": table, "least": least}
    commands |= {"summary": summary, "robustness": robustness}
    commands[sys.argv[1]](*sys.argv[2:])
