"""Time and memory of eval-scores on long lists, from files to the last metric.

Makes trials and scores of 5 and of 24 million lines (the full matrix of 2236 and of 4903
utterances, VoxCeleb-like ids), a list of 37,720 trials over 40 speakers (the size of VoxCeleb1-O)
and a table of 71 sets and 10 systems for the intervals; runs the tool on each as a process of its
own. The metrics alone, without reading, are timed on the same scores in memory.

    python bench/eval.py                everything (two minutes and 4 GB of disk)
    python bench/eval.py --quick        without the 24 million
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from timing import table

from dcaplda.eval.metrics.measure import Settings, measure
from dcaplda.eval.people import PeopleOfSet
from dcaplda.eval.resampling.resampler import Resampler
from dcaplda.eval.trials.conditions import SideFiles, SideTables
from dcaplda.eval.trials.ids import IdTable
from dcaplda.eval.trials.joining import join, read_scores
from dcaplda.eval.trials.keys import read_key

Scores = tuple[np.ndarray, np.ndarray]
Shape = tuple[int, int, int]
"""Speakers, target and nontarget trials of a set."""
VOXCELEB_O: Shape = (40, 18_860, 18_860)
N_EACH = 120
"""Utterances of a speaker."""
STYLE: dict = {"include_header": False, "separator": " "}
SHAPES = (
    (11, 1562, 3960), (11, 1430, 3960), (10, 1125, 3600), (10, 708, 3480), (10, 168, 1660),
    (6, 648, 2160), (6, 576, 2160), (5, 507, 1800), (10, 657, 3540), (10, 578, 3540),
    (5, 720, 1800), (5, 720, 1800), (11, 388, 1980), (10, 267, 1800), (10, 165, 1740),
    (10, 37, 440), (6, 108, 1080), (5, 102, 900), (10, 163, 1800), (5, 360, 900),
    (30, 4291, 10800), (10, 1440, 3600), (30, 1076, 5400), (10, 597, 1800),
)  # fmt: skip
"""Shapes of the development sets of the recordings, by domain."""


def write_matrix(folder: Path, n_utterances: int) -> Scores:
    """The full matrix of trials between utterances of 118 speakers; returns the scores."""
    rng = np.random.default_rng(0)
    speaker = rng.integers(0, 118, n_utterances)
    names = pl.Series(
        [f"id{10000 + s}/{rng.integers(10**11):011d}/{i:05d}.wav" for i, s in enumerate(speaker)]
    )
    kept: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    with open(folder / "trials", "wb") as trials, open(folder / "scores", "wb") as scores:
        for row in range(n_utterances):
            same = speaker == speaker[row]
            values = np.where(same, 4.0, -4.0) + rng.normal(0, 3, n_utterances)
            values = values.astype(np.float32)
            frame = pl.DataFrame(
                {
                    "enroll": pl.repeat(names[row], n_utterances, eager=True),
                    "test": names,
                    "label": np.where(same, "target", "nontarget"),
                    "score": values,
                }
            )
            frame.select("enroll", "test", "label").write_csv(trials, **STYLE)
            frame.select("enroll", "test", "score").write_csv(scores, float_precision=5, **STYLE)
            kept[0].append(values[same])
            kept[1].append(values[~same])
    return np.concatenate(kept[0]).astype(float), np.concatenate(kept[1]).astype(float)


def write_set(place: Path, shape: Shape, n_systems: int, seed: int) -> None:
    """Files `place`.trials and .utt2spk, and scores of systems .0, .1 and so on."""
    rng = np.random.default_rng(seed)
    n_speakers, n_target, n_nontarget = shape
    sides = np.hstack(
        [_pairs(rng, n_speakers, n_target, True), _pairs(rng, n_speakers, n_nontarget, False)]
    )[:, rng.permutation(n_target + n_nontarget)]
    speaker = sides // N_EACH
    same = speaker[0] == speaker[1]
    people = [f"s{u // N_EACH}" for u in range(n_speakers * N_EACH)]
    names = np.array([f"{who}-{u % N_EACH}" for u, who in enumerate(people)])
    pl.DataFrame({"utterance": names, "speaker": people}).write_csv(f"{place}.utt2spk", **STYLE)
    frame = pl.DataFrame({"enroll": names[sides[0]], "test": names[sides[1]]})
    label = pl.Series("label", np.where(same, "target", "nontarget"))
    frame.with_columns(label).write_csv(f"{place}.trials", **STYLE)
    effect = rng.normal(0, 1, n_speakers)
    base = np.where(same, 4.0, -4.0) + effect[speaker[0]] + effect[speaker[1]]
    for system in range(n_systems):
        score = pl.Series("score", base + rng.normal(0, 3, same.size))
        frame.with_columns(score).write_csv(f"{place}.{system}", float_precision=5, **STYLE)


def _pairs(rng: np.random.Generator, n_speakers: int, n_trials: int, same: bool) -> np.ndarray:
    """Two utterances (2, n_trials) of each of as many different trials."""
    first = rng.integers(0, n_speakers, 4 * n_trials)
    other = rng.integers(1, n_speakers, first.size)
    second = first if same else (first + other) % n_speakers
    sides = np.stack([first, second]) * N_EACH + rng.integers(0, N_EACH, (2, first.size))
    sides = np.unique(sides, axis=1)
    return sides[:, rng.permutation(sides.shape[1])[:n_trials]]


def write_table(folder: Path) -> None:
    """Sets and systems as the recordings' recipe has them with evaluation sets: 71 and 10."""
    lines = []
    for number in range(71):
        shape = SHAPES[number % len(SHAPES)]
        write_set(folder / f"set{number}", shape, 10, number)
        lines += ["[[set]]", f'name = "set{number}"', f'trials = "set{number}.trials"']
        lines += [f'utt2spk = "set{number}.utt2spk"', f'group = "group{number % 5}"']
    for system in range(10):
        lines += ["[[system]]", f'name = "system{system}"', f'scores = "{{set}}.{system}"']
    (folder / "sets.toml").write_text("\n".join(lines) + "\n")


def run_tool(*arguments: str) -> tuple[str, str, str]:
    """Seconds on the clock and of the processor, and gigabytes at the peak, of one run."""
    command = [sys.executable, "-m", "dcaplda.bin.eval_scores", "--print-args=false", *arguments]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"eval-scores failed with status {status}")
    busy = usage.ru_utime + usage.ru_stime
    return f"{seconds:.1f} s", f"{busy:.1f} s", f"{usage.ru_maxrss / 1e6:.2f} GB"


def bench_matrix(n_utterances: int, limits: tuple[float, float]) -> list[tuple[str, ...]]:
    """Rows of the table for one matrix; limits in seconds and gigabytes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        target, nontarget = write_matrix(folder, n_utterances)
        files = f"{folder}/trials", f"{folder}/scores"
        plain = run_tool(*files)
        with_report = run_tool(f"--report={folder}/report.html", *files)
    size = f"{n_utterances**2 / 1e6:.1f} million trials"
    start = time.perf_counter()
    measure(target, nontarget, Settings())
    alone = time.perf_counter() - start
    limit = f"at most {limits[0]:g} s, {limits[1]:g} GB"
    return [
        (f"{size}: files to table", *plain, limit),
        (f"{size}: with report", *with_report, ""),
        (f"{size}: metrics alone", f"{alone:.1f} s", "", "", ""),
    ]


def bench_bootstrap() -> list[tuple[str, ...]]:
    """Rows of the table for the intervals of one set, and of many sets and systems."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "set"
        write_set(place, VOXCELEB_O, 1, 1)
        one = run_tool(f"--utt2spk={place}.utt2spk", f"{place}.trials", f"{place}.0")
        write_table(Path(name))
        many = run_tool("--bootstrap=200", f"--table={name}/sets.toml")
    n_trials = sum(VOXCELEB_O[1:])
    return [
        (f"{n_trials:,} trials, 1000 replicates", *one, "at most 3 s"),
        ("71 sets, 10 systems, 200 replicates", *many, "at most 60 s"),
        (f"{n_trials:,} trials, replicates alone", "", *_alone(), ""),
    ]


def _alone() -> list[str]:
    """What `print_alone` prints, without threads of numpy's, as the tool has none."""
    command = [sys.executable, __file__, "--alone"]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def print_alone() -> None:
    """Processor time of all draws at once, and how much longer one by one takes; no files."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "set"
        write_set(place, VOXCELEB_O, 1, 1)
        ids = IdTable()
        key = read_key(f"{place}.trials", ids)
        joined = join(key, read_scores(f"{place}.0", ids, like=key))
        tables = SideTables.read(SideFiles(utt2spk=f"{place}.utt2spk"))
        people = PeopleOfSet(tables, 1000, 0).of(joined, ids.names)
    assert people is not None and people.trials is not None and people.counts is not None
    resampler = Resampler(*joined.split(), people.trials, Settings())
    start = time.process_time()
    for batch in resampler.batches(people.counts):
        resampler.rows(batch)
    at_once = time.process_time() - start
    start = time.process_time()
    for counts in people.counts[::10]:
        resampler.plain(*people.trials.weights(counts))
    one_by_one = 10 * (time.process_time() - start)
    print(f"{at_once:.2f} s")
    print(f"({one_by_one / at_once:.1f} times as long one by one)")


def main() -> None:
    """Print the table."""
    if "--alone" in sys.argv:
        print_alone()
        return
    rows = bench_bootstrap() + bench_matrix(2236, (3.0, 4.0))
    if "--quick" not in sys.argv:
        rows += bench_matrix(4903, (15.0, 4.0))
    print(table(rows, ("eval-scores", "time", "processor", "peak memory", "wanted")))


if __name__ == "__main__":
    main()
