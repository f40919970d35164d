"""Memory of train-backend: peaks at rising numbers of embeddings, and what one more costs.

A new process each, Kaldi files in, a few steps or none, at the paper's sizes. Counted is memory of
the process's own (RssAnon): pages of the archive that is being read are the system's. Four ways:

plain    d-plda-dsd by a recipe, 50 utterances of a person
joint    a joint model by a recipe, the same data
many     no recipe, the same data: what trains by steps
few      no recipe, 300 people, neither sessions nor domains told: guesses and a joint model

Steps and turns are few in all of them, so that it is over in minutes; a turn or a step more takes
no more memory.
"""

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from timing import table

DIM, CHUNKS, DOMAINS = 512, 5, 4
WANTED = 5_000_000
BLOCK = 10_000
PLAIN = """
[model]
variant = "d-plda-dsd"
[init]
subset = "one-per-recording"
[batch]
size = 512
[stage1]
steps = 5
[stage2]
steps = 1
[stage3]
steps = 1
"""
JOINT = """
[model]
variant = "plda-dd"
joint = true
[init]
balance = "even"
classes = "identity"
domain_offsets = true
shared_offset = 1.0
copy_offset = 1.0
em_iterations = 0
calibration_folds = 5
calibration_domains = 0.0
[stage1]
steps = 0
[stage2]
steps = 0
[stage3]
steps = 0
"""
TURNS = ["--set=held_out.people=2", "--set=held_out.domains=0"]
STEPS = ["--set=stage1.steps=5", "--set=stage2.steps=2", "--set=held_out.contest=false"]
FOLDS = ["--set=init.calibration_folds=2", "--set=init.calibration_domains=0"]


@dataclass(frozen=True)
class Way:
    """A recipe, if any, options, and the data that it is given."""

    recipe: str
    options: list[str]
    people: int = 0
    """0: one for every 50 utterances."""
    told: tuple[str, ...] = ("utt2spk", "utt2sess", "utt2dom", "utt2dur")


WAYS = {
    "plain": Way(PLAIN, []),
    "joint": Way(JOINT, []),
    "many": Way("", TURNS + STEPS),
    "few": Way("", TURNS + FOLDS, 300, ("utt2spk", "utt2dur")),
}


def make_inputs(folder: Path, count: int, way: Way) -> None:
    """A data directory of four domains, and the archive of its embeddings, in the order of ids.

    A block of them is in memory at a time.
    """
    import numpy as np
    from kaldiio.matio import write_array

    from dcaplda.runtime.tables.vector_writer import check_wspecifier, write_entries

    rng = np.random.default_rng(0)
    people = way.people or count // 50
    # Chunks of a recording are together, recordings of a person, and people of a domain.
    persons = np.arange(count) * people // count
    order = np.lexsort((persons, persons % DOMAINS))
    places = rng.standard_normal((DOMAINS, DIM), dtype=np.float32)
    voices = rng.standard_normal((people, DIM), dtype=np.float32)

    def rows() -> Iterator[tuple[str, "np.ndarray"]]:
        with contextlib.ExitStack() as stack:
            tables = {name: stack.enter_context(open(folder / name, "w")) for name in way.told}
            for first in range(0, count, BLOCK):
                numbers = order[first : first + BLOCK]
                own = persons[numbers]
                vectors = rng.standard_normal((len(own), DIM), dtype=np.float32)
                vectors += places[own % DOMAINS] + voices[own]
                for number, person, vector in zip(numbers, own, vectors, strict=True):
                    domain = "abcd"[person % DOMAINS]
                    speaker = f"{domain}-{person:07d}"
                    session = f"{speaker}-{number // CHUNKS:07d}"
                    name = f"{session}-{number % CHUNKS}"
                    known = {"utt2spk": speaker, "utt2sess": session, "utt2dom": domain}
                    known["utt2dur"] = f"{rng.uniform(4, 60):.2f}"
                    for table, stream in tables.items():
                        stream.write(f"{name} {known[table]}\n")
                    yield name, vector

    target = check_wspecifier(f"ark,scp:{folder}/xvector.ark,{folder}/xvector.scp")
    write_entries(target, rows(), write_array)
    (folder / "recipe.toml").write_text(way.recipe)


def peak_of(folder: Path, way: Way) -> float:
    """Most megabytes of its own that train-backend has while it works."""
    command = [sys.executable, "-m", "dcaplda.bin.train_backend", "--threads=1", "--export=false"]
    command += [f"--config={folder}/recipe.toml"] if way.recipe else []
    command += [*way.options, str(folder), f"scp:{folder}/xvector.scp"]
    log = open(folder / "log", "w")
    process = subprocess.Popen([*command, f"{folder}/exp"], stderr=log, stdout=log)
    most = 0.0
    while process.poll() is None:
        try:
            text = Path(f"/proc/{process.pid}/status").read_text()
            own = next(line for line in text.splitlines() if line.startswith("RssAnon"))
            most = max(most, int(own.split()[1]) / 1024)
        except (OSError, StopIteration):
            pass
        time.sleep(0.02)
    if process.returncode:
        raise SystemExit((folder / "log").read_text())
    return most


def measure(name: str, counts: list[int]) -> None:
    """Print the table of one way, and the line through its ends."""
    rows, peaks = [], []
    for count in counts:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            maker = multiprocessing.get_context("spawn").Process(
                target=make_inputs, args=(folder, count, WAYS[name])
            )
            maker.start()
            maker.join()
            peaks.append(peak_of(folder, WAYS[name]))
        size = count * DIM * 4 / 2**20
        rows.append(
            (f"{count:,}", f"{size:.0f} MB", f"{peaks[-1]:.0f} MB", f"{peaks[-1] / size:.2f}")
        )
    print(f"{name}:")
    print(table(rows, ("embeddings of 512", "are", "peak", "x")), flush=True)
    if len(counts) < 2:
        return
    each = (peaks[-1] - peaks[0]) * 2**20 / (counts[-1] - counts[0])
    print(f"one more takes {each:.0f} bytes, {each / (DIM * 4):.2f} times its embedding;")
    whole = (peaks[0] + (WANTED - counts[0]) * each / 2**20) / 1024
    size = WANTED * DIM * 4 / 2**30
    print(f"so {WANTED:,} take {whole:.1f} GiB, of which {size:.1f} are embeddings", flush=True)


def main() -> int:
    """All ways that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--counts", type=int, nargs="+", default=[20_000, 60_000, 120_000])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in arguments.ways:
        measure(name, arguments.counts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
