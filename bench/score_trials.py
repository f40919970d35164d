"""score-trials as a user runs it: a new process, Kaldi files in, a score file out.

Three sizes over 4903 utterances of 512 dimensions at the paper's model sizes (d-plda-dsd),
each the best of several runs: the wall clock of the whole process, its split as the tool
itself reports it, its processor time and its peak memory. Beside the largest: the least that its
steps could take, polars' reading and writing of the same files and the bare matrix product.
"""

import argparse
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import table

UTTERANCES, DIM = 4903, 512
# Trials, seconds allowed (on two quiet cores), and what Kaldi's ivector-plda-scoring took.
SIZES = [(5_000_000, 3.5, 49.0), (581_480, 2.5, 5.7), (37_720, 1.5, 0.7)]
MEMORY_LIMIT = 1500
STAGES = {
    "read": ("load model", "read trials", "read tables"),
    "voiceprints": ("voiceprints",),
    "compare": ("compare",),
    "write": ("write",),
}


def make_inputs(folder: Path) -> None:
    """A bundle, an scp of embeddings, durations, and trial lists with VoxCeleb-like names."""
    import numpy as np
    from models import paper_model

    from dcaplda.export.bundle_writer import export_model
    from dcaplda.runtime.tables.vector_writer import write_vectors

    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"))
    videos = ["".join(word) for word in rng.choice(letters, (UTTERANCES, 11))]
    ids = [f"id{10270 + i // 123}-{video}-{i % 30:05d}" for i, video in enumerate(videos)]
    vectors = rng.standard_normal((UTTERANCES, DIM)).astype(np.float32)
    write_vectors(f"ark,scp:{folder}/xvector.ark,{folder}/xvector.scp", ids, vectors)
    seconds = rng.uniform(4, 60, UTTERANCES)
    lines = (f"{name} {s:.2f}\n" for name, s in zip(ids, seconds, strict=True))
    (folder / "utt2dur").write_text("".join(lines))
    for count, _, _ in SIZES:
        pairs = rng.integers(0, UTTERANCES, (count, 2))
        target = rng.random(count) < 0.05
        with open(folder / f"trials.{count}", "w") as stream:
            stream.writelines(
                f"{ids[a]} {ids[b]} {'target' if same else 'nontarget'}\n"
                for (a, b), same in zip(pairs.tolist(), target.tolist(), strict=True)
            )
    export_model(paper_model("d-plda-dsd"), folder / "model")


BARE = """
import sys, time
import numpy as np
import polars as pl
trials, scores, count = sys.argv[1:]
rng = np.random.default_rng(0)
left, right = rng.standard_normal((2, int(count), 302), dtype=np.float32)
out = np.zeros((int(count), int(count)), np.float32)
def lap(what, work):
    start = time.perf_counter(), time.process_time()
    made = work()
    print(what, time.perf_counter() - start[0], time.process_time() - start[1], sep=";")
    return made
lap("bare product [4903,302] x [302,4903]", lambda: np.matmul(left, right.T, out=out))
names = dict(has_header=False, separator=" ", quote_char=None)
lap("polars reads the trials", lambda: pl.read_csv(trials, **names))
table = pl.read_csv(scores, **names, schema_overrides={"column_3": pl.Float32})
lap("polars writes the scores", lambda: table.write_csv(
    scores + ".again", include_header=False, separator=" ", quote_style="never"))
"""


def bare_steps(folder: Path, count: int) -> list[tuple[str, ...]]:
    """Wall and processor seconds of what no program of these steps can do without."""
    command = [sys.executable, "-c", BARE, f"{folder}/trials.{count}", f"{folder}/scores"]
    done = subprocess.run([*command, str(UTTERANCES)], capture_output=True, text=True, check=True)
    rows = (line.split(";") for line in done.stdout.splitlines())
    return [(what, f"{float(wall):.2f}", f"{float(spent):.2f}") for what, wall, spent in rows]


def run_once(folder: Path, count: int) -> tuple[float, dict[str, float], float, float]:
    """Wall seconds, seconds of each stage, processor seconds and peak megabytes of one run."""
    scp = f"scp:{folder}/xvector.scp"
    command = [sys.executable, "-m", "dcaplda.bin.score_trials", "--verbose=1"]
    command += [f"--durations={folder}/utt2dur", f"{folder}/model", scp, scp]
    command += [f"{folder}/trials.{count}", f"{folder}/scores"]
    start = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    talk = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    if status:
        raise SystemExit(f"score-trials failed:\n{talk}")
    laps = dict(re.findall(r"VLOG\[1\]: (.+) took ([0-9.]+) s", talk))
    split = {name: sum(float(laps[lap]) for lap in parts) for name, parts in STAGES.items()}
    return wall, split, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    """Print the table; the status tells whether every limit was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    rows, kept, bare = [], True, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: the peak memory that the system reports of a child starts
        # with its parent's, so this one has to stay small.
        maker = multiprocessing.get_context("spawn").Process(target=make_inputs, args=(folder,))
        maker.start()
        maker.join()
        for count, limit, kaldi in SIZES:
            wall, split, spent, memory = min(
                (run_once(folder, count) for _ in range(rounds)), key=lambda run: run[0]
            )
            bare = bare_steps(folder, count) if count == SIZES[0][0] else bare
            kept &= wall <= limit and memory <= MEMORY_LIMIT
            stages = tuple(f"{split[stage]:.2f}" for stage in STAGES)
            start_up = f"{wall - sum(split.values()):.2f}"
            totals = (
                f"{wall:.2f}",
                f"{limit:.1f}",
                f"{spent:.2f}",
                f"{kaldi:.1f}",
                f"{memory:.0f}",
            )
            rows.append((f"{count:,}", start_up, *stages, *totals))
    header = (
        "trials",
        "start",
        *STAGES,
        "all (s)",
        "at most",
        "processor (s)",
        "Kaldi (s)",
        "peak MB",
    )
    print("score-trials, d-plda-dsd, 4903 utterances of 512, files to file")
    print(table(rows, header))
    print(table(bare, (f"{SIZES[0][0]:,}: the least", "all (s)", "processor (s)")))
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
