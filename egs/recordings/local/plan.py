"""Files that run.sh works with, made from the TOML that names the folders.

    plan.py prepare <data.toml> <train.toml> <paper.toml> <data-root> <exp-dir>
    plan.py best <run-dir> ...             the run with the least development loss
    plan.py table <exp-dir> <system> ...   the table of sets and systems for eval-scores
    plan.py least <exp-dir> <results.json> the system with the least development Cllr
    plan.py robustness <exp-dir> <changes> the table of robustness.sh
    plan.py summary <exp-dir>              group means of every system, as a Markdown table

Standard library only, so that any Python from 3.11 on runs it.
"""

import json
import sys
import tomllib
from pathlib import Path

KEYS = {"name", "folder", "trials", "spk2utt", "group", "weight", "calibration"}


def fail(message: str) -> "SystemExit":
    """An error of the user's, in one line."""
    return SystemExit(f"run.sh: ERROR: {message}")


def columns(path: Path, least: int = 2) -> list[list[str]]:
    """Lines of a table, split at blanks."""
    if not path.is_file():
        raise fail(f"{path}: no such file")
    rows = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) < least:
            raise fail(f"{path}:{number}: expected {least} columns, found '{' '.join(row)}'")
    return rows


def read_plan(path: Path) -> dict:
    """The TOML, checked."""
    try:
        plan = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise fail(f"{path}: cannot be read ({error.strerror})") from None
    except tomllib.TOMLDecodeError as error:
        raise fail(f"{path}: not valid TOML ({error})") from None
    unknown = set(plan) - {"train", "cohort", "frame_shift", "dev", "eval"}
    if unknown:
        raise fail(
            f"{path}: no key '{sorted(unknown)[0]}'; known: train, cohort, frame_shift, dev, eval"
        )
    if not plan.get("train") or not plan.get("dev"):
        raise fail(f'{path}: needs train = ["folder"] and at least one [[dev]]')
    names = []
    for entry in [*plan["dev"], *plan.get("eval", [])]:
        for key in set(entry) - KEYS:
            raise fail(f"{path}: a set has no key '{key}'; known: {', '.join(sorted(KEYS))}")
        for key in ("name", "folder", "trials"):
            if key not in entry:
                raise fail(f"{path}: a set needs the key '{key}'")
        names.append(entry["name"])
    if len(set(names)) < len(names):
        raise fail(f"{path}: two sets have the same name")
    return plan


def absolute_scp(folder: Path) -> list[str]:
    """Lines of xvector.scp; a relative file name is one of the folder's, if it has such a file."""
    lines = []
    for name, *place in columns(folder / "xvector.scp"):
        file = " ".join(place)
        path, colon, offset = file.rpartition(":")
        if not (colon and offset.isdigit()):
            path, offset = file, ""
        inside = folder / path
        if not Path(path).is_absolute():
            path = str((inside if inside.is_file() else Path(path)).resolve())
        lines.append(f"{name} {path}{':' + offset if offset else ''}")
    return lines


def durations(folder: Path, frame_shift: float) -> list[str]:
    """Lines of utt2dur, computed from frames where only those are known."""
    if (folder / "utt2dur").is_file() or not (folder / "utt2num_frames").is_file():
        return [" ".join(row) for row in columns(folder / "utt2dur")]
    rows = columns(folder / "utt2num_frames")
    return [f"{name} {float(frames) * frame_shift:g}" for name, frames in rows]


def write(path: Path, lines: list[str]) -> None:
    """A text file of these lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


def copy_folder(root: Path, names: list[str], target: Path, frame_shift: float) -> None:
    """One or several folders as one, with absolute paths; where one has a table, all must."""
    folders = [root / name for name in names]
    write(target / "xvector.scp", [line for f in folders for line in absolute_scp(f)])
    write(target / "utt2dur", [line for f in folders for line in durations(f, frame_shift)])
    for table in ("utt2spk", "utt2sess", "utt2dom", "segments"):
        found = [f for f in folders if (f / table).is_file()]
        if table == "utt2dom" and len(found) < len(folders):
            lines = [
                f"{row[0]} {f.name}" if f not in found else " ".join(row[:2])
                for f in folders
                for row in columns(f / (table if f in found else "utt2spk"))
            ]
            write(target / table, lines)
        elif found:
            if len(found) < len(folders):
                raise fail(f"{found[0].name} has {table}, another training folder has not")
            write(target / table, [" ".join(row) for f in found for row in columns(f / table)])


def split_trials(entry: dict, folder: Path, target: Path) -> list[str]:
    """Trials of each domain of the test; returns the domains."""
    domain = {row[0]: row[1] for row in columns(folder / "utt2dom")}
    parts: dict[str, list[str]] = {}
    for row in columns(folder / entry["trials"], 3):
        test = row[2] if row[0] in ("0", "1") else row[1]
        if test not in domain:
            raise fail(f"{folder / entry['trials']}: test '{test}' is not in utt2dom")
        parts.setdefault(domain[test], []).append(" ".join(row))
    for name, lines in parts.items():
        write(target / entry["name"] / name, lines)
    return sorted(parts)


def dev_section(entry: dict, place: Path) -> list[str]:
    """[[dev]] of the training recipe."""
    values = {
        "name": entry["name"],
        "group": entry.get("group", entry["name"]),
        "xvectors": f"scp:{place / 'xvector.scp'}",
        "durations": str(place / "utt2dur"),
        "trials": str(place / entry["trials"]),
        "split": "domain",
        "utt2dom": str(place / "utt2dom"),
    }
    if "spk2utt" in entry:
        values["spk2utt"] = str(place / entry["spk2utt"])
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    return ["", "[[dev]]", *lines, f"weight = {float(entry.get('weight', 1.0))}"]


def prepare(data_toml: str, train_toml: str, paper_toml: str, root: str, exp: str) -> None:
    """Everything before the first training run."""
    plan, source, target = read_plan(Path(data_toml)), Path(root), Path(exp).resolve()
    shift = float(plan.get("frame_shift", 0.01))
    copy_folder(source, plan["train"], target / "data/train", shift)
    if plan.get("cohort"):
        copy_folder(source, [plan["cohort"]], target / "data/cohort", shift)
    sets, calibration, dev = [], [], []
    for role in ("dev", "eval"):
        for entry in plan.get(role, []):
            place = target / "data" / entry["folder"]
            if not (place / "xvector.scp").is_file():
                copy_folder(source, [entry["folder"]], place, shift)
                if not (place / "utt2dom").is_file():
                    rows = columns(place / "utt2spk")
                    write(place / "utt2dom", [f"{row[0]} {place.name}" for row in rows])
            for table in (entry["trials"], entry.get("spk2utt")):
                if table:
                    rows = columns(source / entry["folder"] / table)
                    write(place / table, [" ".join(row) for row in rows])
            domains = split_trials(entry, place, target / "trials")
            row = [role, entry["name"], entry["folder"], entry["trials"], entry.get("spk2utt", "-")]
            sets.append("\t".join([*row, entry.get("group", entry["name"]), ",".join(domains)]))
            if role == "dev":
                dev += dev_section(entry, place)
                calibration += [entry["name"]] if entry.get("calibration") else []
    write(target / "sets.tsv", sets)
    write(target / "calibration.sets", calibration or [plan["dev"][0]["name"]])
    for name, recipe in (("train", train_toml), ("paper", paper_toml)):
        lines = Path(recipe).read_text(encoding="utf-8").splitlines()
        write(target / f"conf/{name}.toml", [*lines, *dev])


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
        if (target / "bundles" / system).is_dir():
            lines += [f'model = "{target}/bundles/{system}"']
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
    commands = {"prepare": prepare, "best": best, "table": table, "least": least}
    commands |= {"summary": summary, "robustness": robustness}
    commands[sys.argv[1]](*sys.argv[2:])
