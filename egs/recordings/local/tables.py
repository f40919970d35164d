"""Tables that the recipe works with, made from the TOML that names the folders.

    tables.py prepare <data.toml> <train.toml> <paper.toml> <data-root> <exp-dir>
    tables.py held-out <exp-dir>   sets of the trials that make-trials --split left in data/eval

`-` in place of <data.toml>: <data-root> itself is the training folder, and there are no sets.
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
    if str(path) == "-":
        return {"train": ["."]}
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
    if not plan.get("train"):
        raise fail(f'{path}: needs train = ["folder"]')
    names = []
    for entry in [*plan.get("dev", []), *plan.get("eval", [])]:
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
    """One or several folders as one, with absolute paths; where one has a table, all must.

    Of several folders one without utt2dom is a domain; a single one is left without, so that
    train-backend looks for domains in it.
    """
    folders = [root / name for name in names]
    write(target / "xvector.scp", [line for f in folders for line in absolute_scp(f)])
    write(target / "utt2dur", [line for f in folders for line in durations(f, frame_shift)])
    for table in ("utt2spk", "utt2sess", "utt2dom", "segments"):
        found = [f for f in folders if (f / table).is_file()]
        if table == "utt2dom" and len(folders) > 1 and len(found) < len(folders):
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


def name_domain(place: Path, name: str) -> None:
    """Utterances of a folder without utt2dom are of one domain."""
    if not (place / "utt2dom").is_file():
        write(place / "utt2dom", [f"{row[0]} {name}" for row in columns(place / "utt2spk")])


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
                name_domain(place, place.name)
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
    first = [entry["name"] for entry in plan.get("dev", [])[:1]]
    write(target / "calibration.sets", calibration or first)
    for name, recipe in (("train", train_toml), ("paper", paper_toml)):
        lines = Path(recipe).read_text(encoding="utf-8").splitlines()
        write(target / f"conf/{name}.toml", [*lines, *dev])


def held_out(exp: str) -> None:
    """Name the lists of the people held out as sets, each split by domain."""
    target = Path(exp).resolve()
    place = target / "data/eval"
    name_domain(place, "all")
    sets = []
    for path in sorted(place.glob("trials_*")):
        kind = path.name.removeprefix("trials_")
        entry = {"name": kind, "trials": path.name}
        domains = split_trials(entry, place, target / "trials")
        models = f"enroll_{kind.removesuffix('_cross')}"
        sets.append("\t".join(["eval", kind, "eval", path.name, models, kind, ",".join(domains)]))
    write(target / "sets.tsv", sets)


if __name__ == "__main__":
    {"prepare": prepare, "held-out": held_out}[sys.argv[1]](*sys.argv[2:])
