"""One process that fuzzes one target: python worker.py <target> <folder> <state> <options as JSON>.

It counts outcomes in memory that it shares with run.py, where the input at hand stands too: what
kills it, or makes it run for ever, is known even so.
"""

import json
import mmap
import os
import random
import re
import resource
import struct
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTCOMES = ("same", "other", "refused", "traceback", "wrong", "hang", "crash", "memory")
LONGEST_INPUT = 512
STATE_BYTES = 4096
MEMORY_LIMIT_MB = 1024
MOST_FINDINGS = 25
LEAST_SECONDS = 2.0
_HEAD = "<dI"  # when the input at hand was begun (0: none), and its length


class State:
    """A page of shared memory: the input at hand, and a count for each outcome."""

    def __init__(self, path: Path, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(STATE_BYTES))
        with open(path, "r+b") as stream:
            self.memory = mmap.mmap(stream.fileno(), STATE_BYTES)
        self._counts = struct.calcsize(_HEAD) + LONGEST_INPUT

    def begin(self, data: bytes) -> None:
        size = struct.calcsize(_HEAD)
        self.memory[size : size + len(data)] = data
        struct.pack_into(_HEAD, self.memory, 0, time.time(), len(data))

    def end(self, outcome: str) -> None:
        struct.pack_into("<d", self.memory, 0, 0.0)
        self.add(outcome)

    def add(self, outcome: str) -> None:
        place = self._counts + 8 * OUTCOMES.index(outcome)
        (count,) = struct.unpack_from("<Q", self.memory, place)
        struct.pack_into("<Q", self.memory, place, count + 1)

    def at_hand(self) -> tuple[float, bytes]:
        """When the input at hand was begun, and what it is."""
        begun, length = struct.unpack_from(_HEAD, self.memory)
        size = struct.calcsize(_HEAD)
        return begun, bytes(self.memory[size : size + min(length, LONGEST_INPUT)])

    def counts(self) -> dict[str, int]:
        values = struct.unpack_from(f"<{len(OUTCOMES)}Q", self.memory, self._counts)
        return dict(zip(OUTCOMES, values, strict=True))


class Findings:
    """Inputs with a bad outcome, a file of each kind."""

    def __init__(self, folder: Path, target: str) -> None:
        self._folder, self._target = folder, target
        self._seen: set[str] = set()

    def add(self, outcome: str, data: bytes, told: str) -> None:
        # The same place in the code, or the same words about other values, is the same finding.
        lines = told.strip().splitlines() or [""]
        last = "".join(lines[-3:-1]) or re.sub(r"'[^']*'|[0-9.]+|\[.*\]", "", lines[0])
        key = f"{outcome} {last}"
        if key in self._seen or len(self._seen) >= MOST_FINDINGS:
            return
        self._seen.add(key)
        record = {"target": self._target, "outcome": outcome, "input": data.hex(), "told": told}
        name = f"{self._target}-{outcome}-{len(self._seen)}-{os.getpid()}.json"
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(json.dumps(record, indent=2))


def own_package() -> None:
    """`dcaplda` straight from this checkout, so that an engine can follow its imports."""
    package = types.ModuleType("dcaplda")
    package.__path__ = [str(ROOT)]
    sys.modules["dcaplda"] = package
    sys.path.insert(0, str(ROOT / "tests"))


def judge(target, state: State, findings: Findings) -> Callable[[bytes], None]:
    """What is done with one input."""

    def one(data: bytes) -> None:
        data = data[:LONGEST_INPUT]
        state.begin(data)
        outcome, told = target.run(data)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        if peak > MEMORY_LIMIT_MB and outcome in ("same", "other", "refused"):
            outcome, told = "memory", f"{peak} MB at the peak, outcome {outcome}: {told}"
        if outcome not in ("same", "other", "refused"):
            findings.add(outcome, data, told)
        state.end(outcome)
        if outcome == "memory":
            os._exit(3)  # the peak stays: a new process starts below it

    return one


def plain_loop(one: Callable[[bytes], None], seed: int, until: float, inputs: int) -> None:
    """Bytes by chance."""
    rng = random.Random(seed)
    while time.time() < until and inputs != 0:
        one(rng.randbytes(rng.randrange(1, 64)))
        inputs -= 1


def guided_loop(one: Callable[[bytes], None], seed: int, until: float, corpus: Path) -> None:
    """Bytes that reach new code are kept and changed further, by libFuzzer; does not return."""
    import atheris

    corpus.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    for number in range(64):
        (corpus / f"start{number}").write_bytes(rng.randbytes(rng.randrange(1, 64)))
    seconds = max(1, int(until - time.time()))
    options = [f"-max_total_time={seconds}", f"-seed={seed + 1}", f"-max_len={LONGEST_INPUT}"]
    options += [
        "-rss_limit_mb=0",
        "-timeout=100000",
        "-verbosity=0",
        "-print_final_stats=0",
        "-len_control=0",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], one)
    atheris.Fuzz()


def main() -> None:
    name, folder, state_path, text = sys.argv[1:]
    options = json.loads(text)
    own_package()
    if options["guided"]:
        import atheris

        with atheris.instrument_imports(include=["dcaplda"]):
            from fuzz.targets import make_target

            made = make_target(name, Path(folder))
    else:
        from fuzz.targets import make_target

        made = make_target(name, Path(folder))
    state = State(Path(state_path))
    one = judge(made, state, Findings(Path(options["findings"]), name))
    # However slow the start was, some inputs are tried.
    until = max(options["until"], time.time() + LEAST_SECONDS)
    if options["guided"]:
        guided_loop(one, options["seed"], until, Path(folder) / "corpus")
    else:
        plain_loop(one, options["seed"], until, options["inputs"])


if __name__ == "__main__":
    main()
