"""Speed of comparing voiceprints, as ratios to bare matrix products of the same run."""

import os

THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(THREADS))

import subprocess  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
from models import paper_bundle, paper_model  # noqa: E402
from timing import best_of, table  # noqa: E402

from dcaplda.runtime.several import merged_voiceprints  # noqa: E402

N, R = 4903, 302
ONE_CORE = "one-core"
UTTERANCES, PAIRS = 145_000, 580_000


def dense() -> list[tuple[str, ...]]:
    """4903 x 4903 trials from voiceprints."""
    rng = np.random.default_rng(0)
    torch.set_num_threads(THREADS)
    embeddings = rng.standard_normal((N, 512)).astype(np.float32)
    seconds = rng.uniform(4, 240, N).astype(np.float32)
    left = rng.standard_normal((N, R)).astype(np.float32)
    right = rng.standard_normal((R, N)).astype(np.float32)
    out = np.empty((N, N), dtype=np.float32)
    dsd, plda = (paper_bundle(v, threads=THREADS) for v in ("d-plda-dsd", "plda"))
    prints = {b: b.voiceprints(embeddings, seconds) for b in (dsd, plda)}
    model = paper_model("d-plda-dsd")
    x, d = torch.tensor(embeddings), torch.tensor(seconds)

    def written_out() -> None:
        with torch.no_grad():
            model(x, d, x, d)

    best = best_of(
        {
            "matmul": lambda: np.matmul(left, right, out=out),
            "dsd": lambda: dsd.compare(prints[dsd], prints[dsd], out=out),
            "plda": lambda: plda.compare(prints[plda], prints[plda], out=out),
            "torch": written_out,
        }
    )
    whole = best["dsd"] + best_of({"v": lambda: dsd.voiceprints(embeddings, seconds)}, 3)["v"]
    return [
        ("bare matrix product [4903,302] x [302,4903]", f"{best['matmul']:.3f} s", ""),
        (
            "plda from voiceprints",
            f"{best['plda']:.3f} s",
            f"{best['plda'] / best['matmul']:.2f} x product",
        ),
        (
            "d-plda-dsd from voiceprints",
            f"{best['dsd']:.3f} s",
            f"{best['dsd'] / best['matmul']:.2f} x product (at most 2.0)",
        ),
        ("  against plda", "", f"{best['dsd'] / best['plda']:.2f} x plda (at most 1.7)"),
        (
            "equations written out in torch, from embeddings",
            f"{best['torch']:.3f} s",
            f"{best['torch'] / best['dsd']:.1f} x slower than from voiceprints (at least 6)",
        ),
        (
            "  against voiceprints and comparison",
            f"{whole:.3f} s",
            f"{best['torch'] / whole:.1f} x slower",
        ),
    ]


def one_core() -> list[tuple[str, ...]]:
    """The same on one core, by its processor time; OpenBLAS has one thread here."""
    rng = np.random.default_rng(0)
    embeddings = rng.standard_normal((N, 512)).astype(np.float32)
    seconds = rng.uniform(4, 240, N).astype(np.float32)
    left, right = rng.standard_normal((2, N, R), dtype=np.float32)
    out = np.empty((N, N), dtype=np.float32)
    dsd, plda = (paper_bundle(v, threads=1) for v in ("d-plda-dsd", "plda"))
    prints = {b: b.voiceprints(embeddings, seconds) for b in (dsd, plda)}

    def tiles() -> None:
        for _ in dsd.compare_blocks(prints[dsd], prints[dsd]):
            pass

    best = best_of(
        {
            "bare matrix product [4903,302] x [302,4903]": lambda: np.matmul(
                left, right.T, out=out
            ),
            "plda from voiceprints": lambda: plda.compare(prints[plda], prints[plda], out=out),
            "d-plda-dsd from voiceprints": lambda: dsd.compare(prints[dsd], prints[dsd], out=out),
            "d-plda-dsd, tile by tile to a consumer": tiles,
        },
        rounds=9,
        clock=time.process_time,
    )
    bare = next(iter(best.values()))
    limit = {"d-plda-dsd from voiceprints": " (at most 1.35)"}
    return [
        (name, f"{spent:.3f} s", f"{spent / bare:.2f} x product{limit.get(name, '')}")
        for name, spent in best.items()
    ]


def joint() -> list[tuple[str, ...]]:
    """Speakers of three utterances against single tests, beside plda-dd and single ones."""
    rng = np.random.default_rng(0)
    embeddings = rng.standard_normal((N, 512)).astype(np.float32)
    seconds = rng.uniform(4, 240, N).astype(np.float32)
    plain, backend = paper_bundle("plda-dd", THREADS), paper_bundle("joint", THREADS)
    singles, tests = (
        plain.voiceprints(embeddings, seconds),
        backend.voiceprints(embeddings, seconds),
    )
    groups = np.repeat(np.arange(N), 3)
    three = merged_voiceprints(backend, np.tile(tests, (3, 1)), groups, N)
    out = np.empty((N, N), dtype=np.float32)
    best = best_of(
        {
            "plain": lambda: plain.compare(singles, singles, out=out),
            "single": lambda: backend.compare(tests, tests, out=out),
            "three": lambda: backend.compare(three, tests, out=out),
        }
    )
    ratio = best["three"] / best["plain"]
    pool = rng.standard_normal((1000, 512)).astype(np.float32)
    adapting = best_of({"adapt": lambda: backend.adapted(pool)}, 3)["adapt"]
    return [
        ("plda-dd, single enrolments", f"{best['plain']:.3f} s", ""),
        ("joint, single enrolments", f"{best['single']:.3f} s", ""),
        ("joint, enrolments of three", f"{best['three']:.3f} s", f"{ratio:.2f} x (at most 1.15)"),
        ("adapting with 1000 utterances", f"{adapting:.2f} s", "(at most 2 s)"),
    ]


def sparse() -> list[tuple[str, ...]]:
    """580,000 random pairs over 145,000 utterances."""
    rng = np.random.default_rng(0)
    backend = paper_bundle("d-plda-dsd", threads=THREADS)
    base = backend.voiceprints(rng.standard_normal((5000, 512)), rng.uniform(4, 240, 5000))
    prints = np.tile(base, (UTTERANCES // len(base), 1))
    first, second = rng.integers(0, UTTERANCES, (2, PAIRS))

    def gather_and_dot() -> None:
        scores = np.empty(PAIRS, dtype=np.float32)
        for begin in range(0, PAIRS, 256):
            rows = slice(begin, begin + 256)
            np.einsum("ij,ij->i", prints[first[rows]], prints[second[rows]], out=scores[rows])

    best = best_of(
        {
            "bare": gather_and_dot,
            "ours": lambda: backend.score_trials(prints, prints, first, second),
        },
        rounds=4,
    )
    ratio = best["ours"] / best["bare"]
    return [
        ("gather and dot of 580,000 pairs in numpy blocks", f"{best['bare']:.3f} s", ""),
        ("d-plda-dsd on the same list", f"{best['ours']:.3f} s", f"{ratio:.2f} x (at most 2.5)"),
    ]


def single() -> list[tuple[str, ...]]:
    """One comparison of two voiceprints, and the time from nothing to the first score."""
    backend = paper_bundle("d-plda-dsd", threads=1)
    rng = np.random.default_rng(0)
    two = backend.voiceprints(rng.standard_normal((2, 512)), [10.0, 20.0])
    times = []
    for _ in range(5000):
        start = time.perf_counter()
        backend.compare(two[:1], two[1:])
        times.append(time.perf_counter() - start)
    program = (
        "import time; t = time.perf_counter()\n"
        "import sys, numpy as np\n"
        "from dcaplda.runtime import Backend\n"
        "b = Backend.load(sys.argv[1])\n"
        "b.score(np.ones((1, 512)), [9.0], np.ones((1, 512)), [9.0])\n"
        "print(time.perf_counter() - t)"
    )
    directory = str(backend.directory)
    first = min(
        float(
            subprocess.run(
                [sys.executable, "-c", program, directory],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(3)
    )
    median, high = np.quantile(times, [0.5, 0.99]) * 1e6
    return [
        (
            "one comparison of two voiceprints",
            f"{median:.0f} us",
            f"99th percentile {high:.0f} us (median at most 60)",
        ),
        ("import, load and first score", f"{first:.2f} s", "(at most 1 s)"),
    ]


def memory() -> list[tuple[str, ...]]:
    """Peak memory of 30,000 x 30,000 trials to a consumer that takes the maximum."""
    backend = paper_bundle("d-plda-dsd", threads=THREADS)
    program = (
        "import sys, numpy as np\n"
        "from dcaplda.runtime import Backend\n"
        "b = Backend.load(sys.argv[1], threads=int(sys.argv[2]))\n"
        "rng = np.random.default_rng(0)\n"
        "x = rng.standard_normal((30000, 512), dtype=np.float32)\n"
        "v = b.voiceprints(x, rng.uniform(4, 240, 30000))\n"
        "top = max(float(llrs.max()) for _, _, llrs in b.compare_blocks(v, v))\n"
        # VmHWM is this program's own; ru_maxrss would include the parent it was forked from.
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(int(status['VmHWM'].split()[0]) / 1024)"
    )
    command = [sys.executable, "-c", program, str(backend.directory), str(THREADS)]
    start = time.perf_counter()
    peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return [
        (
            "30,000 x 30,000, maximum only",
            f"{time.perf_counter() - start:.1f} s",
            f"peak {peak:.0f} MB (at most 600)",
        )
    ]


def main() -> None:
    if sys.argv[1:] == [ONE_CORE]:
        print(table(one_core(), ("one core, processor time", "best", "ratio")))
        return
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    subprocess.run([sys.executable, __file__, ONE_CORE], env=alone, check=True)
    print(flush=True)
    print(f"threads: {THREADS}; active: {threading.active_count()}")
    for part in (dense, joint, sparse, single, memory):
        print(table(part(), ("what", "best", "ratio")), flush=True)
        print()


if __name__ == "__main__":
    main()
