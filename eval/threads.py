"""Work on many things at a time, in order, and with the first error as if there were no threads."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def in_threads(
    function: Callable[[Item], Found], items: Iterable[Item], n_threads: int
) -> Iterator[Found]:
    """`function` of every item in their order; after an error, nothing later is begun."""
    if n_threads < 2:
        yield from map(function, items)
        return
    failed: list[int] = []

    def work(place: int, item: Item) -> Found:
        # What stands before a failure is still done: its own error would be the first one.
        if failed and place > min(failed):
            raise CancelledError
        try:
            return function(item)
        except BaseException:
            failed.append(place)
            raise

    with ThreadPoolExecutor(n_threads) as pool:
        futures = [pool.submit(work, place, item) for place, item in enumerate(items)]
        try:
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
