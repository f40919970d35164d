"""Four processes change and search one gallery while writers are killed at random moments.

Run as a program: python tests/gallery_torture.py <model-dir> <gallery> --seconds=600
With `--postgres` the gallery is on a server of its own, which is stopped and started, and killed
with SIGKILL, in the middle; <gallery> then only names the journals.

Each worker owns the speakers with its prefix. It notes an operation in its journal before it
starts and again when it was acknowledged, so that after a kill -9 it knows what must be there:
every acknowledged change, and the last one either wholly or not at all. Voiceprints follow
from id and version, so that any row can be checked bit for bit.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import time
from pathlib import Path

import numpy as np
from postgres_server import Server, running_server

from dcaplda.runtime import Backend
from dcaplda.runtime.gallery import side
from dcaplda.runtime.gallery.speakers import Gallery

INDEX: str | None = None
"""Of the galleries that workers open."""
State = dict[str, int]
"""Version of each speaker that is there."""


def voiceprint(backend: Backend, name: str, version: int) -> np.ndarray:
    """One to three rows that only this version of this speaker has."""
    rng = np.random.default_rng([version, *name.encode()])
    embeddings = rng.standard_normal((1 + version % 3, backend.info.embedding_dim))
    return backend.enroll(embeddings, np.full(len(embeddings), 10.0)).voiceprints


class Worker:
    """One process: random operations, each checked against the journal."""

    def __init__(
        self, backend: Backend, path: Path, number: int, seed: int, address: str = ""
    ) -> None:
        self.backend, self.prefix = backend, f"w{number}-"
        self.random = random.Random(seed)
        self.journal = path.with_suffix(f".journal{number}")
        self.gallery = Gallery.open(address or path, backend, index=INDEX)
        self.state, pending = read_journal(self.journal)
        self.file = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        if pending is not None:
            self.note({"done": self.happened(pending)})
            self.state = read_journal(self.journal)[0]
        self.check_all()

    def note(self, entry: dict) -> None:
        os.write(self.file, (json.dumps(entry) + "\n").encode())

    def happened(self, change: State) -> bool:
        """Whether the operation in whose middle we were killed took effect: wholly or not."""
        applied = {self.holds(name, version) for name, version in change.items()}
        before = {self.holds(name, self.state.get(name, 0)) for name in change}
        assert (applied == {True}) != (before == {True}), f"half an operation: {change}"
        return applied == {True}

    def holds(self, name: str, version: int) -> bool:
        """Whether the gallery has exactly this version (0: nothing) of a speaker."""
        found = self.gallery.get(name)
        if found is None or version == 0:
            return found is None and version == 0
        return np.array_equal(found.voiceprints, voiceprint(self.backend, name, version))

    def check_all(self) -> None:
        for name, version in self.state.items():
            assert self.holds(name, version), f"lost or altered: {name} version {version}"
        mine = {name for name in self.gallery if name.startswith(self.prefix)}
        assert mine == set(self.state), f"{mine ^ set(self.state)}"

    def step(self) -> None:
        """One random operation."""
        kind = self.random.choices(["add", "many", "remove", "replace", "search"], [4, 1, 4, 2, 4])
        if kind[0] == "search":
            self.search()
        elif kind[0] in ("add", "many") or not self.state:
            count = 5 if kind[0] == "many" else 1
            fresh = [f"{self.prefix}{self.random.getrandbits(48):x}" for _ in range(count)]
            self.change({name: self.random.randrange(1, 1 << 20) for name in fresh})
        else:
            name = self.random.choice(sorted(self.state))
            version = 0 if kind[0] == "remove" else self.random.randrange(1, 1 << 20)
            self.change({name: version})

    def change(self, change: State) -> None:
        self.note({"begin": change})
        made = {n: voiceprint(self.backend, n, v) for n, v in change.items() if v}
        (name, *_) = change
        if not made:
            self.gallery.remove(*change)
        elif name in self.state:
            self.gallery.replace(name, made[name])
        else:
            self.gallery.add_many(made.items())
        self.note({"done": True})
        apply(self.state, change)

    def search(self) -> None:
        """Our own speakers are all found, none else of ours, with the right LLRs, in order."""
        probe = voiceprint(self.backend, "probe", 3 * self.random.getrandbits(20))
        found = self.gallery.search(probe, 1_000_000)
        llrs = [match.llr for match in found]
        assert llrs == sorted(llrs, reverse=True), "matches out of order"
        mine = {m.speaker: m.llr for m in found if m.speaker.startswith(self.prefix)}
        assert mine.keys() == self.state.keys(), f"search: {mine.keys() ^ self.state.keys()}"
        for name in self.random.sample(sorted(mine), min(5, len(mine))):
            rows = voiceprint(self.backend, name, self.state[name])
            truth = self.backend.compare(rows, probe).mean()
            assert abs(mine[name] - truth) < 1e-3 * max(1.0, abs(truth)), f"wrong LLR of {name}"


def apply(state: State, change: State) -> None:
    for name, version in change.items():
        state.pop(name, None)
        if version:
            state[name] = version


def read_journal(path: Path) -> tuple[State, State | None]:
    """What must be in the gallery, and an operation of which that is not known."""
    state: State = {}
    pending: State | None = None
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        if "begin" in entry:
            pending = entry["begin"]
        else:
            if entry["done"]:
                assert pending is not None
                apply(state, pending)
            pending = None
    return state, pending


def work(
    backend: Backend, path: Path, number: int, seed: int, seconds: float, address: str
) -> None:
    worker = Worker(backend, path, number, seed, address)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        worker.step()
    worker.check_all()


def small_side_files(index: str | None) -> None:
    """Let files of rows, and of codes, be made of a few speakers, and often."""
    global INDEX
    INDEX = index
    side.LEAST, side.LEAST_CODED, side.TAIL, side.CODED_NEWS = 20, 20, 5, 0.02


def torture(
    directory: str,
    path: Path,
    seconds: float,
    processes: int = 4,
    seed: int = 0,
    server: Server | None = None,
) -> str:
    """Run, kill, check; returns a line of figures, or raises what was found wrong."""
    address = (
        server.url("postgres", gallery="tortured", files=f"{path}-files")
        if server is not None
        else ""
    )
    falls = 0
    backend = Backend.load(directory, threads=1)
    context = multiprocessing.get_context("fork")
    choose = random.Random(seed)
    end = time.monotonic() + seconds
    kills = 0

    def start(number: int) -> multiprocessing.Process:
        left = max(end - time.monotonic(), 0.0)
        arguments = (backend, path, number, choose.getrandbits(32), left, address)
        process = context.Process(target=work, args=arguments, daemon=True)
        process.start()
        return process

    running = {number: start(number) for number in range(processes)}
    while time.monotonic() < end:
        time.sleep(choose.uniform(0.01, 0.4))
        number = choose.randrange(processes)
        if running[number].exitcode is None and time.monotonic() < end - 0.5:
            os.kill(running[number].pid or 0, signal.SIGKILL)
            running[number].join()
            kills += 1
            running[number] = start(number)
        if server is not None and choose.random() < 0.15 and time.monotonic() < end - 2:
            (server.kill if choose.random() < 0.5 else server.stop)()
            time.sleep(choose.uniform(0.0, 0.5))
            server.start()
            falls += 1
        for process in running.values():
            if process.exitcode not in (None, 0):
                raise AssertionError("a worker found something wrong; see its traceback")
    for process in running.values():
        process.join(60)
        if process.exitcode != 0:
            raise AssertionError("a worker found something wrong; see its traceback")
    operations, there = check_at_the_end(backend, path, processes, address)
    fallen = f"{falls} falls of the server, " if server is not None else ""
    return (
        f"{seconds:g} s, {processes} processes, {fallen}{kills} kills, "
        f"{operations} acknowledged changes, "
        f"{there} speakers at the end: all right"
    )


def check_at_the_end(backend: Backend, path: Path, processes: int, address: str) -> tuple[int, int]:
    """The gallery is sound, and holds what the journals say, bit for bit."""
    if not address:
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    expected: State = {}
    operations = 0
    for number in range(processes):
        journal = path.with_suffix(f".journal{number}")
        state, pending = read_journal(journal)
        assert pending is None
        expected |= state
        operations += journal.read_text().count('"done": true')
    with Gallery.open(address or path, backend, create=False) as gallery:
        assert set(gallery) == set(expected)
        for name, version in expected.items():
            found = gallery.get(name)
            truth = voiceprint(backend, name, version)
            assert found is not None and np.array_equal(found.voiceprints, truth), name
    return operations, len(expected)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("gallery", type=Path)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--index", choices=["codes"], default=None)
    parser.add_argument("--side-files", action="store_true", help="make them of a few speakers")
    options = parser.parse_args()
    if options.side_files:
        small_side_files(options.index)
    with running_server() if options.postgres else contextlib.nullcontext() as server:
        found = torture(
            options.model, options.gallery, options.seconds, seed=options.seed, server=server
        )
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
