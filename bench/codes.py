"""Search by codes against exact search: who is missed, what it costs, what `identify` gets wrong.

Simulated people at the paper's sizes (people.py); times are processor time of one thread. The
gallery of `--speakers` is made in `--folder` and removed again.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import argparse  # noqa: E402
import math  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from people import AT_ONCE, World  # noqa: E402
from timing import table  # noqa: E402

from dcaplda.runtime.gallery import coded_search, side  # noqa: E402
from dcaplda.runtime.gallery.speakers import Gallery  # noqa: E402

HEADER = ("what", "figure", "")
TOP_K = 10
PRIOR = 0.5
ROUNDING = 1e-5
"""What float32 LLRs that were computed in another order may change in a probability."""
Rows = list[tuple[str, ...]]

OPENING = """
import sys, time
import numpy as np
from dcaplda.runtime import Backend
from dcaplda.runtime.gallery.speakers import Gallery
def memory():
    status = dict(line.split(':', 1) for line in open('/proc/self/status'))
    return int(status['RssAnon'].split()[0]) * 1024
backend = Backend.load(sys.argv[1], threads=1)
probe = np.load(sys.argv[3])
backend.compare(probe, probe)
import faiss
before, start = memory(), time.process_time()
gallery = Gallery.open(sys.argv[2], backend, create=False, index='codes')
seconds = time.process_time() - start
gallery.search(probe)
print(memory() - before, seconds)
"""


def processor_ms(function: Callable[[int], object], rounds: int) -> float:
    """Processor time of a call, in milliseconds: the median over rounds."""
    function(0)
    times = []
    for number in range(rounds):
        start = time.process_time()
        function(number)
        times.append(time.process_time() - start)
    return float(np.median(times)) * 1e3


def fill(world: World, path: Path, speakers: int) -> None:
    """A gallery of one utterance of each of `speakers` people."""
    with Gallery.open(path, world.backend) as gallery:
        for begin in range(0, speakers, AT_ONCE):
            people = range(begin, min(begin + AT_ONCE, speakers))
            prints = world.voiceprints(people, 0)
            gallery.add_many((f"speaker{i}", row) for i, row in zip(people, prints, strict=True))


def drawn_probes(world: World, speakers: int, clear: int) -> tuple[np.ndarray, np.ndarray]:
    """Another utterance of as many people as it takes for `clear` of them to match clearly.

    Returns probes and the LLR of each with its own speaker.
    """
    probes, llrs = [], []
    for begin in range(0, speakers, AT_ONCE):
        people = range(begin, min(begin + AT_ONCE, speakers))
        probes.append(world.voiceprints(people, 1))
        llrs.append(world.backend.compare_pairs(world.voiceprints(people, 0), probes[-1]))
        if (np.concatenate(llrs) > math.log(speakers)).sum() >= clear:
            break
    llr = np.concatenate(llrs)
    needed = np.flatnonzero(llr > math.log(speakers))
    end = needed[clear - 1] + 1 if len(needed) >= clear else len(llr)
    return np.concatenate(probes)[:end], llr[:end]


def recall(
    exact: Gallery, coded: Gallery, probes: np.ndarray, own: np.ndarray, speakers: int
) -> Rows:
    """Who is missed by codes, and how often the first is the first."""
    first = same = missed = found = proved = sure = wrong = 0
    clear = own > math.log(speakers)
    for begin in range(0, len(probes), 512):
        part = probes[begin : begin + 512]
        right, quick = exact.search_many(part, TOP_K), coded.search_many(part, TOP_K)
        for number, (a, b) in enumerate(zip(right, quick, strict=True), begin):
            name = f"speaker{number}"
            known = any(match.speaker == name for match in a)
            found += clear[number] and known
            missed += clear[number] and known and all(match.speaker != name for match in b)
            first += a[0].speaker == b[0].speaker
            same += [match.speaker for match in a] == [match.speaker for match in b]
            proved += b.exact
            sure += clear[number] and b.proved > 0
            wrong += [m.speaker for m in a][: b.proved] != [m.speaker for m in b][: b.proved]
    count = len(probes)
    return [
        (
            "probes with a clear match",
            f"{clear.sum()}",
            f"of {count}; exact top {TOP_K} has {found}",
        ),
        ("  missed by codes", f"{missed}", "(none)"),
        ("all probes: the same first speaker", f"{100 * first / count:.3f} %", "(at least 99.9)"),
        (f"  the same top {TOP_K}", f"{100 * same / count:.2f} %", ""),
        (f"  top {TOP_K} proved", f"{100 * proved / count:.2f} %", ""),
        (
            "clear matches: the first proved",
            f"{100 * sure / max(clear.sum(), 1):.1f} %",
            f"{wrong} proofs of all probes wrong",
        ),
    ]


def proofs(coded: Gallery, probes: np.ndarray, own: np.ndarray, speakers: int) -> Rows:
    """How often codes prove the first speaker, and what it takes to prove it always."""
    clear = np.flatnonzero(own > math.log(speakers))[:500]
    found = np.array([it.exact for it in coded.search_many(probes[clear], 1)])
    some = probes[clear[~found]][:31]
    share = f"{100 * np.mean(found):.1f} % of {len(clear)}"
    rows = [("clear matches: the first proved", share, "")]
    if len(some) > 1:
        taken = processor_ms(lambda i: coded.search(some[i], 1, prove=True), len(some))
        rows.append(("  the others with prove=True", f"{taken:.1f} ms", ""))
    return rows


def identification(exact: Gallery, coded: Gallery, probes: np.ndarray) -> Rows:
    """Probabilities of identify by codes against those that sum over everybody."""
    right, quick = exact.ranked(probes, 1, PRIOR), coded.ranked(probes, 1, PRIOR)
    known = np.array([it.posterior for it in right])
    made = np.array([it.posterior for it in quick])
    error = np.array([it.posterior_error for it in quick])
    wrong = np.abs(made - known)
    decided = np.sum((made >= 0.5) != (known >= 0.5))
    return [
        (
            "identify: largest error of a probability",
            f"{wrong.max():.2g}",
            f"median {np.median(wrong):.1g}; {decided} other decisions of {len(probes)}",
        ),
        (
            "  within the error that it states",
            f"{100 * np.mean(wrong <= error + ROUNDING):.2f} %",
            f"stated: median {np.median(error):.1g}, largest {error.max():.2g}",
        ),
    ]


def times(exact: Gallery, coded: Gallery, probes: np.ndarray, rounds: int) -> tuple[float, float]:
    """Processor time of one probe, exact and by codes."""
    one = [probes[i : i + 1] for i in range(rounds)]
    return (
        processor_ms(lambda i: exact.search(one[i], TOP_K), rounds),
        processor_ms(lambda i: coded.search(one[i], TOP_K), rounds),
    )


def crossing(world: World, sizes: list[int], folder: Path) -> Rows:
    """From which size on codes are faster."""
    rows: Rows = []
    side.LEAST_CODED = min(sizes)
    probes = world.voiceprints(range(100), 1)
    for size in sizes:
        path = folder / f"{size}.db"
        fill(world, path, size)
        with Gallery.open(path, world.backend) as exact:
            with Gallery.open(path, world.backend, index="codes") as coded:
                slow, fast = times(exact, coded, probes, 50)
        rows.append((f"{size:,} speakers: exact, codes", f"{slow:.2f}, {fast:.2f} ms", ""))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speakers", type=int, default=1_000_000)
    parser.add_argument("--clear", type=int, default=3000, help="probes with a clear match")
    parser.add_argument("--candidates", type=int, default=coded_search.CANDIDATES)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--variant", default="d-plda-dsd")
    parser.add_argument("--skip-recall", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    options = parser.parse_args()
    coded_search.CANDIDATES = options.candidates
    world = World(options.variant)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.sizes:
            print(table(crossing(world, options.sizes, Path(folder)), HEADER), flush=True)
            return
        path = Path(folder) / "gallery.db"
        fill(world, path, options.speakers)
        probes, own = drawn_probes(world, options.speakers, options.clear)
        start = time.process_time()
        coded = Gallery.open(path, world.backend, index="codes")
        making = time.process_time() - start
        np.save(Path(folder) / "probe.npy", probes[:1])
        command = [sys.executable, "-c", OPENING, str(world.backend.directory), str(path)]
        out = subprocess.run(
            [*command, f"{folder}/probe.npy"], capture_output=True, text=True, check=True
        )
        memory, opening = map(float, out.stdout.split())
        exact = Gallery.open(path, world.backend)
        slow, fast = times(exact, coded, probes, 60)
        rows = [
            ("making rows and codes", f"{making:.1f} s", "once"),
            ("opening with them", f"{opening:.2f} s", ""),
            ("memory a speaker", f"{memory / options.speakers:.0f} bytes", "(at most 120)"),
            ("one probe, exact", f"{slow:.1f} ms", ""),
            ("  by codes", f"{fast:.2f} ms", f"{slow / fast:.1f} x (at least 10)"),
        ]
        identify = processor_ms(lambda i: coded.ranked(probes[i : i + 1], 1, PRIOR), 30)
        rows.append(("  identify by codes", f"{identify:.2f} ms", ""))
        print(f"gallery of {options.speakers:,} speakers, {options.candidates} candidates")
        print(table(rows, HEADER), flush=True)
        rows = identification(exact, coded, probes[:1000])
        rows += proofs(coded, probes, own, options.speakers)
        print(table(rows, HEADER), flush=True)
        if options.skip_recall:
            return
        print(table(recall(exact, coded, probes, own, options.speakers), HEADER), flush=True)


if __name__ == "__main__":
    main()
