"""Many seeds: run them side by side, compare them, and put the best one's model in front."""

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from dcaplda.runtime.errors import ModelError, UsageError
from dcaplda.runtime.fields import Table
from dcaplda.runtime.files import replacing
from dcaplda.train.curves import CURVES
from dcaplda.train.page import PAGE
from dcaplda.train.store import CONFIG as MODEL_CONFIG
from dcaplda.train.store import WEIGHTS
from dcaplda.train.summary import SUMMARY, TABLE, read_summary, write_summary

SEEDS = "seeds.txt"
CHILD_LOG = "train.log"
MOST_SEEDS, MOST_DIGITS = 10_000, 18
_POLL_SECONDS = 0.2


def parse_seeds(text: str) -> list[int]:
    """`0-19`, `3,7` or a mixture, in rising order."""
    seeds: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--seeds={text}: expected numbers and ranges, as 0-19 or 1,4,7")
        if max(len(first), len(last)) > MOST_DIGITS:
            raise UsageError(f"--seeds={text}: a seed has at most {MOST_DIGITS} digits")
        low, high = int(first), int(last if dash else first)
        if high < low:
            raise UsageError(f"--seeds={text}: {part} runs backwards")
        if high - low >= MOST_SEEDS:
            raise UsageError(f"--seeds={text}: {part} are more than {MOST_SEEDS} seeds")
        seeds.update(range(low, high + 1))
    return sorted(seeds)


def seed_directory(directory: Path, seed: int) -> Path:
    """Where a seed's run lives; `select_best` looks for these."""
    return directory / f"seed-{seed}"


def run_all(
    commands: Mapping[int, Sequence[str]], directory: Path, jobs: int, say: Callable[[str], None]
) -> None:
    """Run one command per seed, `jobs` at a time; each talks into its directory's train.log."""
    waiting = list(commands.items())
    running: dict[int, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
    failed: list[int] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                seed, command = waiting.pop(0)
                place = seed_directory(directory, seed)
                place.mkdir(parents=True, exist_ok=True)
                talk = open(place / CHILD_LOG, "ab")
                running[seed] = (subprocess.Popen(command, stdout=talk, stderr=talk), talk)
                say(f"seed {seed}: started; it talks into {place / CHILD_LOG}")
            time.sleep(_POLL_SECONDS)
            for seed, (child, stream) in list(running.items()):
                if child.poll() is None:
                    continue
                stream.close()
                del running[seed]
                if child.returncode:
                    failed.append(seed)
                _tell(directory, seed, child.returncode, say)
    finally:
        for child, stream in running.values():
            child.terminate()
            child.wait()
            stream.close()
    if failed:
        place = seed_directory(directory, failed[0]) / CHILD_LOG
        lines = place.read_text(encoding="utf-8", errors="replace").splitlines()
        raise ModelError(
            f"{len(failed)} of {len(commands)} seeds failed; seed {failed[0]}: "
            f"{lines[-1] if lines else 'it said nothing'}; correct it and add --resume"
        )


def _tell(directory: Path, seed: int, status: int, say: Callable[[str], None]) -> None:
    summary = read_summary(seed_directory(directory, seed)) or {}
    average = _summary_table(summary, directory).get("average", float | None, None)
    figure = "" if average is None else f", average development loss {average:.4f}"
    say(f"seed {seed}: {'finished' if status == 0 else 'failed'}{figure}")


def _summary_table(summary: dict[str, Any], place: Path) -> Table:
    return Table(summary, str(place / SUMMARY), ModelError, "train this seed again")


def select_best(directory: Path) -> tuple[int, list[str]]:
    """Copy the best seed's model to the directory itself; returns the seed and a report.

    The best is the one with the least average loss on the development sets, or where no seed had
    any, on the parts held out.
    """
    summaries: dict[int, dict[str, Any]] = {}
    unfinished = []
    for place in sorted(directory.glob("seed-*")):
        number = place.name.removeprefix("seed-")
        if not number.isdecimal():
            continue
        summary = read_summary(place)
        if summary is None:
            unfinished.append(place.name)
        else:
            summaries[int(number)] = summary
    if not summaries:
        raise ModelError(f"{directory}: has no finished run seed-N/ to select from")
    what = "average development loss"
    tables = {s: _summary_table(x, seed_directory(directory, s)) for s, x in summaries.items()}
    found = {seed: told.get("average", float | None, None) for seed, told in tables.items()}
    if all(average is None for average in found.values()):
        what = "held-out Cllr"
        parts = {seed: told.optional_table("held_out") for seed, told in tables.items()}
        found = {s: p and p.get("cllr", float | None, None) for s, p in parts.items()}
    if any(average is None for average in found.values()):
        raise ModelError(
            f"{directory}: the runs had no development sets, and held no parts out, to be "
            "selected by"
        )
    averages = {seed: float(average) for seed, average in found.items()}
    ranked = sorted(averages, key=lambda seed: (averages[seed], seed))
    spread = {
        "best": averages[ranked[0]],
        "median": float(np.median(list(averages.values()))),
        "worst": averages[ranked[-1]],
    }
    lines = [f"seed {seed}: {what} {averages[seed]:.4f}" for seed in ranked]
    lines += [
        f"{name}: {value:.4f} ({100 * (value / spread['best'] - 1):+.1f}%)"
        for name, value in spread.items()
    ]
    lines += [f"{name} is not finished and was left out" for name in unfinished]
    _copy_model(seed_directory(directory, ranked[0]), directory)
    with replacing(directory / SEEDS) as path:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    seeds = {"averages": {str(seed): averages[seed] for seed in ranked}, **spread}
    write_summary(directory, {**summaries[ranked[0]], "seeds": seeds})
    return ranked[0], lines


def _copy_model(source: Path, target: Path) -> None:
    names = (WEIGHTS, MODEL_CONFIG, "config.toml", CURVES, TABLE)
    # The page is there where something was measured; older runs have none.
    for name in (*names, *([PAGE] if (source / PAGE).exists() else [])):
        with replacing(target / name) as path:
            shutil.copyfile(source / name, path)
