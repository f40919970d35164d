"""Memory of train-backend: peaks at rising numbers of embeddings, and what one more costs.

A new process each, Kaldi files in, a few steps of d-plda-dsd at the paper's sizes, 50 utterances
of a person. Counted is memory of the process's own (RssAnon): pages of the archive that is being
read are the system's.
"""

import argparse
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import table

DIM, SESSIONS, CHUNKS = 512, 10, 5
WANTED = 5_000_000
RECIPE = """
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


def make_inputs(folder: Path, count: int) -> None:
    """A data directory of four domains, and the archive of its embeddings, in the order of ids."""
    import numpy as np

    from dcaplda.runtime.tables.vector_writer import write_vectors

    rng = np.random.default_rng(0)
    per_speaker = SESSIONS * CHUNKS
    ids, lines = [], {"utt2spk": [], "utt2sess": [], "utt2dom": [], "utt2dur": []}
    for number in range(count):
        speaker, rest = divmod(number, per_speaker)
        session = f"id{speaker:07d}-{rest // CHUNKS:02d}"
        name = f"{session}-{number:08d}"
        ids.append(name)
        lines["utt2spk"].append(f"{name} id{speaker:07d}\n")
        lines["utt2sess"].append(f"{name} {session}\n")
        lines["utt2dom"].append(f"{name} domain{speaker % 4}\n")
        lines["utt2dur"].append(f"{name} {rng.uniform(4, 60):.2f}\n")
    for name, content in lines.items():
        (folder / name).write_text("".join(content))
    write_vectors(
        f"ark,scp:{folder}/xvector.ark,{folder}/xvector.scp",
        ids,
        rng.standard_normal((count, DIM), dtype=np.float32),
    )
    (folder / "recipe.toml").write_text(RECIPE)


def peak_of(folder: Path) -> float:
    """Most megabytes of its own that train-backend has while it works."""
    command = [sys.executable, "-m", "dcaplda.bin.train_backend", "--threads=1", "--export=false"]
    command += [f"--config={folder}/recipe.toml", str(folder), f"scp:{folder}/xvector.scp"]
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


def main() -> int:
    """Print the table, and the line through its ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=int, nargs="+", default=[20_000, 60_000, 120_000])
    counts = parser.parse_args().counts
    os.environ["OMP_NUM_THREADS"] = "1"
    rows, peaks = [], []
    for count in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            maker = multiprocessing.get_context("spawn").Process(
                target=make_inputs, args=(folder, count)
            )
            maker.start()
            maker.join()
            peaks.append(peak_of(folder))
        size = count * DIM * 4 / 2**20
        rows.append(
            (f"{count:,}", f"{size:.0f} MB", f"{peaks[-1]:.0f} MB", f"{peaks[-1] / size:.2f}")
        )
    each = (peaks[-1] - peaks[0]) * 2**20 / (counts[-1] - counts[0])
    print(table(rows, ("embeddings of 512", "are", "peak", "x")))
    print(f"one more takes {each:.0f} bytes, {each / (DIM * 4):.2f} times its embedding;")
    whole = (peaks[0] + (WANTED - counts[0]) * each / 2**20) / 1024
    print(
        f"so {WANTED:,} take {whole:.1f} GB, of which {WANTED * DIM * 4 / 2**30:.1f} are embeddings"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
