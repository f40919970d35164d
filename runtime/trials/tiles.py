"""Dense comparison in tiles that stay in a core's cache, by as many threads as asked for."""

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Tile = Callable[[Float32, Float32], Float32]
Job = TypeVar("Job")
Result = TypeVar("Result")

ROWS, COLUMNS = 512, 512
"""Size of a tile: the LLRs, and each form that they are made of, take 1 MB, a core's cache. Larger
ones wait for memory between the products, smaller ones pack the same tests too often."""


def available_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_jobs(work: Callable[[Job], Result], jobs: Iterable[Job], threads: int) -> Iterator[Result]:
    """Results of `work` in the order of the jobs, with a bounded number of them waiting."""
    if threads <= 1:
        yield from map(work, jobs)
        return
    waiting: collections.deque[Future[Result]] = collections.deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for job in jobs:
                waiting.append(pool.submit(work, job))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def tile_slices(n_enroll: int, n_test: int) -> Iterator[tuple[slice, slice]]:
    """All tiles of a full comparison, row by row."""
    for row in range(0, n_enroll, ROWS):
        for column in range(0, n_test, COLUMNS):
            yield (
                slice(row, min(row + ROWS, n_enroll)),
                slice(column, min(column + COLUMNS, n_test)),
            )
