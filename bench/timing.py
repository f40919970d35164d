"""Timing helpers: best of several runs, taken in turns so that noise hits all alike."""

import time
from collections.abc import Callable
from typing import Any


def best_of(
    functions: dict[str, Callable[[], Any]],
    rounds: int = 7,
    pause: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Least seconds of each function over `rounds` rounds, after one round to warm up.

    On a machine that others use too, the processor's `clock` tells more. `pause` seconds before
    each: after a product OpenBLAS's threads keep their cores busy for a while, waiting for another,
    and whoever comes next would pay for it.
    """
    for function in functions.values():
        function()
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            time.sleep(pause)
            start = clock()
            function()
            best[name] = min(best[name], clock() - start)
    return best


def table(rows: list[tuple[str, ...]], header: tuple[str, ...]) -> str:
    """Rows as aligned text."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        for row in [header, *rows]
    ]
    return "\n".join(lines)
