"""The runtime inside a product: single verifications, threads, a gallery of a million speakers.

Figures are medians or the best of several rounds; those that have a limit are printed with it.
`--speakers` makes the gallery smaller.
"""

import os

THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(THREADS))

import argparse  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from models import paper_bundle, paper_model  # noqa: E402
from timing import best_of, table  # noqa: E402

from dcaplda.export.bundle_writer import export_model  # noqa: E402
from dcaplda.runtime import Backend  # noqa: E402
from dcaplda.runtime.gallery.speakers import Gallery  # noqa: E402

BATCH, TOP_K = 64, 10
HEADER = ("what", "figure", "")
Rows = list[tuple[str, ...]]


def quantiles(function: Callable[[], object], calls: int = 4000) -> tuple[float, float]:
    """Median and 99th percentile of a call, in microseconds."""
    times = np.empty(calls)
    for i in range(calls):
        start = time.perf_counter()
        function()
        times[i] = time.perf_counter() - start
    median, high = np.quantile(times[calls // 10 :], [0.5, 0.99]) * 1e6
    return float(median), float(high)


def throughput(function: Callable[[], object], workers: int, seconds: float) -> float:
    """Calls per second of `workers` threads together."""
    counts = [0] * workers
    begin, end = threading.Barrier(workers + 1), threading.Event()

    def work(number: int) -> None:
        begin.wait()
        while not end.is_set():
            function()
            counts[number] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(workers)]
    for thread in threads:
        thread.start()
    begin.wait()
    start = time.perf_counter()
    time.sleep(seconds)
    done = sum(counts)
    rate = done / (time.perf_counter() - start)
    end.set()
    for thread in threads:
        thread.join()
    return rate


def gain(function: Callable[[], object], seconds: float = 0.5, rounds: int = 8) -> float:
    """Throughput of 8 threads over that of 1: the best of each, from rounds taken in turns."""
    best = {1: 0.0, 8: 0.0}
    for _ in range(rounds):
        for workers in best:
            best[workers] = max(best[workers], throughput(function, workers, seconds))
    return best[8] / best[1]


def familiar_bundle() -> Backend:
    """The paper's sizes, with training statistics, so that every verification looks at them."""
    model = paper_model("d-plda-dsd")
    told = {
        "durations": {"min": 4.0, "max": 240.0},
        "embedding_norm": {"p0.05": 10.0, "p99.95": 40.0},
        "side_information": {
            "mean": [0.0] * 6,
            "covariance": np.eye(6).tolist(),
            "distance_percentiles": {"99.9": 1e6},
        },
    }
    directory = Path(tempfile.mkdtemp()) / "model"
    export_model(model, directory, {"statistics": told})
    return Backend.load(directory, threads=1)


def verifications(backend: Backend) -> Rows:
    """One verification at a time, and by 8 threads."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((BATCH * 4, 512)).astype(np.float32)
    d = rng.uniform(4, 240, len(x)).astype(np.float32)
    ann = backend.enroll(x[0], d[0])
    prints = backend.voiceprints(x, d)
    single = quantiles(lambda: backend.verify(ann, x[1], 21.0, prior=0.01))
    stored = quantiles(lambda: backend.compare_pairs(ann.voiceprints, prints[1:2]))
    singles = gain(lambda: backend.verify(ann, x[1], 21.0, prior=0.01))
    batches = gain(lambda: backend.compare_pairs(prints, backend.voiceprints(x, d)))
    return [
        (
            "verify from an embedding",
            f"{single[0]:.0f} us",
            f"99th percentile {single[1]:.0f} us (at most 150, 1000)",
        ),
        (
            "voiceprint against voiceprint",
            f"{stored[0]:.0f} us",
            f"99th percentile {stored[1]:.0f} us (at most 60)",
        ),
        ("8 threads against 1, single verifications", f"{singles:.2f} x", "(at least 1.3)"),
        ("8 threads against 1, batches of 256", f"{batches:.2f} x", "(at least 1.7)"),
    ]


def some_voiceprints(backend: Backend, count: int) -> np.ndarray:
    """Different voiceprints, quickly: real ones, each scaled a little in its score part."""
    rng = np.random.default_rng(0)
    base = backend.voiceprints(rng.standard_normal((2000, 512)), rng.uniform(4, 240, 2000))
    prints = np.empty((count, base.shape[1]), np.float32)
    for begin in range(0, count, len(base)):
        part = prints[begin : begin + len(base)]
        part[:] = base[: len(part)]
        part[:, :300] *= rng.uniform(0.9, 1.1, (len(part), 1)).astype(np.float32)
    return prints


def searches(backend: Backend, prints: np.ndarray, path: Path, storage: str) -> Rows:
    """Make a gallery of these voiceprints, and search it in memory."""
    names = (f"speaker{i:07d}" for i in range(len(prints)))
    start = time.perf_counter()
    with Gallery.open(path, backend, storage=storage) as gallery:
        gallery.add_many(zip(names, prints, strict=True))
        added = time.perf_counter() - start
        rng = np.random.default_rng(1)
        probes = backend.voiceprints(rng.standard_normal((BATCH, 512)), rng.uniform(4, 240, BATCH))
        columns, vector = np.ascontiguousarray(probes.T), probes[0].copy()
        best = best_of(
            {
                "product": lambda: prints @ columns,
                "batch": lambda: gallery.search_many(probes, TOP_K),
                "vector": lambda: prints @ vector,
                "one": lambda: gallery.search(probes[0], TOP_K),
            },
            rounds=5,
            pause=0.3,
        )
        error = llr_error(backend, gallery, prints, probes)
    batch, one = best["batch"] / best["product"], best["one"] / best["vector"]
    return [
        (f"{storage}: adding them in one transaction", f"{added:.1f} s", ""),
        (f"  {BATCH} probes, bare matrix product", f"{best['product'] * 1e3:.0f} ms", ""),
        (
            f"  {BATCH} probes, exact top {TOP_K}",
            f"{best['batch'] * 1e3:.0f} ms",
            f"{batch:.2f} x product (at most 2.5)",
        ),
        ("  one probe, bare matrix-vector product", f"{best['vector'] * 1e3:.0f} ms", ""),
        (
            f"  one probe, exact top {TOP_K}",
            f"{best['one'] * 1e3:.0f} ms",
            f"{one:.2f} x product (at most 2.5)",
        ),
        ("  LLR error against float32", f"{error[0]:.2g}", f"largest; {error[1]:.2g} rms"),
    ]


def llr_error(
    backend: Backend, gallery: Gallery, prints: np.ndarray, probes: np.ndarray
) -> tuple[float, float]:
    """Largest and root mean square error of LLRs that storage causes, over 1000 speakers."""
    stored = [gallery.get(f"speaker{i:07d}") for i in range(min(1000, len(prints)))]
    rows = np.concatenate([speaker.voiceprints for speaker in stored if speaker])
    errors = backend.compare(rows, probes) - backend.compare(prints[: len(rows)], probes)
    return float(np.abs(errors).max()), float(np.sqrt(np.mean(errors**2)))


OPENING = """
import sys, time, os
import numpy as np
from dcaplda.runtime import Backend
from dcaplda.runtime.gallery.speakers import Gallery
def memory():
    status = dict(line.split(':', 1) for line in open('/proc/self/status'))
    return int(status['VmRSS'].split()[0]) / 1024, int(status['VmHWM'].split()[0]) / 1024
backend = Backend.load(sys.argv[1])
before, _ = memory()
start = time.process_time()
gallery = Gallery.open(sys.argv[2], backend, create=False)
seconds = time.process_time() - start
gallery.search(np.ones(backend.info.voiceprint_dim, np.float32))
now, peak = memory()
print(seconds, now - before, peak - before)
"""
READING = """
import sys, time
start = time.process_time()
data = open(sys.argv[2], 'rb').read()
print(time.process_time() - start)
"""


def opening(backend: Backend, path: Path, raw: int, storage: str) -> Rows:
    """Open the stored gallery in a new process; a bare read of its bytes in another.

    The first to open it leaves a file of rows, from which the others read.
    Both work on one thread and on a file that the system has in memory, so the processor time
    of the process is what they take on a quiet machine, and does not mind a busy one.
    """
    figures: dict[str, list[list[float]]] = {"open": [], "read": []}
    for _ in range(4):
        for name, program in (("open", OPENING), ("read", READING)):
            command = [sys.executable, "-c", program, str(backend.directory), str(path)]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            figures[name].append([float(word) for word in out.split()])
    opened, resident, peak = np.min(figures["open"], axis=0)
    read = min(row[0] for row in figures["read"])
    megabytes = raw / 2**20
    return [
        (f"{storage}: reading the bytes of the file", f"{read:.2f} s", "processor time"),
        ("  opening the gallery", f"{opened:.2f} s", f"{opened / read:.2f} x (at most 1.2)"),
        (
            "  memory of the gallery",
            f"{resident:.0f} MB",
            f"{resident / megabytes:.2f} x its voiceprints, peak {peak / megabytes:.2f} x "
            "(at most 1.3)",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speakers", type=int, default=1_000_000)
    parser.add_argument("--skip-verifications", action="store_true")
    options = parser.parse_args()
    print(f"threads: {THREADS}; load average {os.getloadavg()[0]:.1f}")
    if not options.skip_verifications:
        rows = verifications(familiar_bundle())
        print(table(rows, HEADER), end="\n\n", flush=True)
    backend = paper_bundle("d-plda-dsd", threads=THREADS)
    prints = some_voiceprints(backend, options.speakers)
    print(f"gallery of {options.speakers:,} speakers, {prints.nbytes / 2**20:.0f} MB")
    for storage in ("float32", "float16"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "gallery.db"
            rows = searches(backend, prints, path, storage)
            raw = prints.size * np.dtype(storage).itemsize
            rows += opening(backend, path, raw, storage)
            print(table(rows, HEADER), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
