"""Shuffled lists that are walked to their end and then shuffled again, many at a time.

The paper draws speakers, sessions and samples this way, so that each is seen about equally
often. All lists live in one array, which makes a draw from a thousand of them a few numpy
operations and the whole state easy to save.
"""

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import ModelError

Ints = NDArray[np.int64]


class Rings:
    """Items 0..n-1 in groups; `take` gives each group's next items.

    `group_of` is sorted: item i belongs to group group_of[i].
    """

    def __init__(self, group_of: NDArray[np.integer], rng: np.random.Generator) -> None:
        assert np.all(np.diff(group_of) >= 0), "groups must be contiguous"
        self.sizes: Ints = np.bincount(group_of).astype(np.int64)
        self.starts: Ints = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        self.order: Ints = np.arange(len(group_of), dtype=np.int64)
        self.used: Ints = np.zeros(len(self.sizes), dtype=np.int64)
        self._rng = rng
        self._shuffle(np.arange(len(self.sizes), dtype=np.int64))

    def take(self, groups: Ints, count: int = 1) -> Ints:
        """The next `count` items of each group; (len(groups), count).

        Two items of one call are different where the group has so many. A group that is named
        twice is served twice, in order.
        """
        items = np.empty((len(groups), count), dtype=np.int64)
        waiting = np.arange(len(groups))
        while waiting.size:
            # Serve the first mention of each group; later mentions wait for the next round.
            _, first = np.unique(groups[waiting], return_index=True)
            chosen = waiting[np.sort(first)]
            items[chosen] = self._take_distinct(groups[chosen], count)
            waiting = np.setdiff1d(waiting, chosen, assume_unique=True)
        return items

    def take_run(self, group: int, count: int) -> Ints:
        """The next `count` items of one group, going round as often as needed."""
        start, size = int(self.starts[group]), int(self.sizes[group])
        parts = []
        while count > 0:
            if self.used[group] >= size:
                self._shuffle(np.array([group]))
            begin = start + int(self.used[group])
            parts.append(self.order[begin : min(begin + count, start + size)].copy())
            self.used[group] += len(parts[-1])
            count -= len(parts[-1])
        return np.concatenate(parts)

    def _take_distinct(self, groups: Ints, count: int) -> Ints:
        items = np.empty((len(groups), count), dtype=np.int64)
        for column in range(count):
            spent = groups[self.used[groups] >= self.sizes[groups]]
            if spent.size:
                self._shuffle(spent)
            place = self.starts[groups] + self.used[groups]
            if column:
                place = self._avoid(items[:, :column], groups, place)
            items[:, column] = self.order[place]
            self.used[groups] += 1
        return items

    def _avoid(self, taken: Ints, groups: Ints, place: Ints) -> Ints:
        """Swap an item that this call already took for a later one of the same list.

        It can only come up when the list was shuffled again in the middle of the call.
        """
        for row in np.flatnonzero((taken == self.order[place][:, None]).any(axis=1)):
            end = self.starts[groups[row]] + self.sizes[groups[row]]
            for other in range(place[row] + 1, end):
                if self.order[other] not in taken[row]:
                    swap = [place[row], other]
                    self.order[swap] = self.order[swap[::-1]]
                    break
        return place

    def _shuffle(self, groups: Ints) -> None:
        """Put the items of these groups in random order and start them again."""
        sizes = self.sizes[groups]
        group = np.repeat(np.arange(len(groups)), sizes)
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = self.starts[groups][group] + within
        mixed = np.lexsort((self._rng.random(len(place)), group))
        self.order[place] = self.order[place][mixed]
        self.used[groups] = 0

    def state(self) -> dict[str, Ints]:
        """Where every list stands; the random generator is its owner's to save."""
        return {"order": self.order.copy(), "used": self.used.copy()}

    def restore(self, state: dict[str, Ints]) -> None:
        """Go back to a saved state, which must be one of these very lists."""
        order, used = state["order"], state["used"]
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        whole = order.shape == self.order.shape and used.shape == self.used.shape
        if whole:
            whole = bool(np.array_equal(np.sort(order), np.arange(len(order))))
        if not (whole and np.array_equal(group[order], group)):
            raise ModelError("the order of the batches is not one of these speakers")
        if not ((used >= 0) & (used <= self.sizes)).all():
            raise ModelError("more of the batches' lists is used than they have")
        self.order[:] = order
        self.used[:] = used
