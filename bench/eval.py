"""Time and memory of eval-scores on long lists, from files to the last metric.

Makes trials and scores of 5 and of 24 million lines (the full matrix of 2236 and of 4903
utterances, VoxCeleb-like ids), and a list of 37,720 trials over 40 speakers for the bootstrap;
runs the tool on each as a process of its own. The metrics alone, without reading, are timed
on the same scores in memory.

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

Scores = tuple[np.ndarray, np.ndarray]


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
            style = {"include_header": False, "separator": " "}
            frame.select("enroll", "test", "label").write_csv(trials, **style)
            frame.select("enroll", "test", "score").write_csv(scores, float_precision=5, **style)
            kept[0].append(values[same])
            kept[1].append(values[~same])
    return np.concatenate(kept[0]).astype(float), np.concatenate(kept[1]).astype(float)


def write_speakers(folder: Path) -> None:
    """37,720 trials, half of them targets, over 40 speakers (the size of VoxCeleb1-O)."""
    rng = np.random.default_rng(1)
    n_trials, n_speakers, n_each = 37_720, 40, 120
    first = rng.integers(0, n_speakers, 4 * n_trials)
    same = rng.random(first.size) < 0.5
    second = np.where(same, first, (first + rng.integers(1, n_speakers, first.size)) % n_speakers)
    which = rng.integers(0, n_each, (2, first.size))
    _, fresh = np.unique(
        (first * n_each + which[0]) * n_speakers * n_each + second * n_each + which[1],
        return_index=True,
    )
    chosen = rng.permutation(fresh)[:n_trials]
    effect = rng.normal(0, 1, n_speakers)
    with open(folder / "trials", "w") as trials, open(folder / "scores", "w") as scores:
        for i in chosen:
            pair = f"s{first[i]}-{which[0, i]} s{second[i]}-{which[1, i]}"
            value = (4 if same[i] else -4) + effect[first[i]] + effect[second[i]]
            trials.write(f"{pair} {'target' if same[i] else 'nontarget'}\n")
            scores.write(f"{pair} {value + rng.normal(0, 3):.5f}\n")
    with open(folder / "utt2spk", "w") as stream:
        for s in range(n_speakers):
            for i in range(n_each):
                stream.write(f"s{s}-{i} s{s}\n")


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
    """Rows of the table for the bootstrap."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_speakers(folder)
        figures = run_tool(
            f"--utt2spk={folder}/utt2spk",
            "--bootstrap=1000",
            f"{folder}/trials",
            f"{folder}/scores",
        )
    what = "37,720 trials, 1000 bootstrap replicates"
    return [(what, *figures, "at most 60 s")]


def main() -> None:
    """Print the table."""
    rows = bench_bootstrap() + bench_matrix(2236, (12.0, 4.0))
    if "--quick" not in sys.argv:
        rows += bench_matrix(4903, (60.0, 4.0))
    print(table(rows, ("eval-scores", "time", "processor", "peak memory", "wanted")))


if __name__ == "__main__":
    main()
