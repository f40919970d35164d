"""score-pairs as a user runs it: all pairs of one table, the ten best of each utterance.

A new process, Kaldi files in, a Parquet file out; processor time beside that of the bare matrix
products of the same pairs, one thread each, and the peak memory. In parts: that of the largest one,
and whether the result is that of one run.
"""

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import argparse  # noqa: E402
import multiprocessing  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from timing import table  # noqa: E402

DIM, WIDTH, SIDE = 512, 302, 4096
MOST, MEMORY = 1.6, 1500


def make_inputs(folder: Path, count: int) -> None:
    """A bundle of the paper's sizes, an scp of embeddings and their durations."""
    from models import paper_model

    from dcaplda.export.bundle_writer import export_model
    from dcaplda.runtime.tables.vector_writer import write_vectors

    rng = np.random.default_rng(0)
    ids = [f"id{i // 40:06d}-{i:08d}" for i in range(count)]
    vectors = rng.standard_normal((count, DIM), dtype=np.float32)
    write_vectors(f"ark,scp:{folder}/xvector.ark,{folder}/xvector.scp", ids, vectors)
    seconds = rng.uniform(4, 60, count)
    lines = (f"{name} {s:.2f}\n" for name, s in zip(ids, seconds, strict=True))
    (folder / "utt2dur").write_text("".join(lines))
    export_model(paper_model("d-plda-dsd"), folder / "model")


def bare_products(count: int) -> float:
    """Processor seconds of the products of all pairs, large squares on and above the diagonal."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((count, WIDTH), dtype=np.float32)
    out = np.zeros((SIDE, SIDE), np.float32)
    start = time.process_time()
    for first in range(0, count, SIDE):
        for second in range(first, count, SIDE):
            left, right = rows[first : first + SIDE], rows[second : second + SIDE]
            np.matmul(left, right.T, out=out[: len(left), : len(right)])
    return time.process_time() - start


def run_tool(folder: Path, target: str, *options: str) -> tuple[float, float]:
    """Processor seconds and peak megabytes of one process."""
    command = [sys.executable, "-m", "dcaplda.bin.score_pairs", "--threads=1", "--top-k=10"]
    command += [f"--durations={folder}/utt2dur", *options, f"{folder}/model"]
    command += [f"scp:{folder}/xvector.scp", f"{folder}/{target}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    talk = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"score-pairs failed:\n{talk}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def in_parts(folder: Path, parts: int) -> tuple[float, float]:
    """Processor seconds of all parts, and peak megabytes of the largest."""
    (folder / f"many{parts}.parquet.parts").mkdir()
    made = [
        run_tool(
            folder,
            f"many{parts}.parquet.parts/{part}-of-{parts}",
            f"--part={part}",
            f"--num-parts={parts}",
        )
        for part in range(1, parts + 1)
    ]
    merging = run_tool(folder, f"many{parts}.parquet", "--cluster=local", f"--nj={parts}")
    return sum(seconds for seconds, _ in (*made, merging)), max(
        peak for _, peak in (*made, merging)
    )


def main() -> int:
    """Print the table; the status tells whether every limit was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--utterances", type=int, default=100_000)
    parser.add_argument("--parts", type=int, nargs="*", default=[16])
    given = parser.parse_args()
    pairs = given.utterances * (given.utterances - 1) / 2
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: a child's peak memory starts with its parent's.
        spawn = multiprocessing.get_context("spawn")
        maker = spawn.Process(target=make_inputs, args=(folder, given.utterances))
        maker.start()
        maker.join()
        with spawn.Pool(1) as pool:
            before = pool.apply(bare_products, (given.utterances,))
        seconds, peak = run_tool(folder, "one.parquet")
        with spawn.Pool(1) as pool:
            bare = 0.5 * (before + pool.apply(bare_products, (given.utterances,)))
        rows = [
            ("bare matrix products", f"{bare:.1f} s", "", ""),
            (
                "score-pairs --top-k=10",
                f"{seconds:.1f} s",
                f"{seconds / bare:.2f}",
                f"{peak:.0f} MB",
            ),
        ]
        kept = seconds <= MOST * bare and peak <= MEMORY
        for parts in given.parts:
            spent, most = in_parts(folder, parts)
            one, many = ((folder / f"{n}.parquet").read_bytes() for n in ("one", f"many{parts}"))
            words = "equal" if one == many else "DIFFERENT"
            rows.append(
                (
                    f"in {parts} parts ({words})",
                    f"{spent:.1f} s",
                    f"{spent / bare:.2f}",
                    f"{most:.0f} MB",
                )
            )
            kept &= one == many and most <= MEMORY
    print(f"all pairs of {given.utterances:,}: {pairs / seconds / 1e6:.0f} million a second")
    print(table(rows, ("what", "processor time", f"x products (at most {MOST})", "peak memory")))
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
