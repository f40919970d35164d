"""What is wrong, gathered so that it is all said at once and not one mistake per run."""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from dcaplda.runtime.errors import DcapldaError, UsageError

MOST_TOLD = 40
"""Problems that one message names; nobody corrects more at once."""
# The list that `report` adds to while a block of `gathering` runs; none: a problem is an error.
_OPEN: ContextVar[list[str] | None] = ContextVar("open_problems", default=None)


def report(problem: str) -> None:
    """Note a problem of a value that is being checked, or raise it where nobody gathers."""
    found = _OPEN.get()
    if found is None:
        raise UsageError(problem)
    found.append(problem)


@contextlib.contextmanager
def gathering() -> Iterator[list[str]]:
    """Within: what `report` is told goes into the list, and the checks go on."""
    found: list[str] = []
    token = _OPEN.set(found)
    try:
        yield found
    finally:
        _OPEN.reset(token)


class Problems:
    """Problems in the order in which they were met."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def add(self, problem: str) -> None:
        """Note one, unless it is known already: one cause may be met at several places."""
        if problem not in self.found:
            self.found.append(problem)

    @contextlib.contextmanager
    def catching(self, place: str = "") -> Iterator[None]:
        """Within: an error that a user can cause is noted, and ends the block only."""
        try:
            yield
        except DcapldaError as error:
            self.add(f"{place}: {error}" if place else str(error))

    def refuse(self, place: str = "", advice: str = "") -> None:
        """Raise all of them as one error of one line; nothing happens if there are none."""
        if not self.found:
            return
        text = self.found[0]
        if len(self.found) > 1:
            told = self.found[:MOST_TOLD]
            listed = "; ".join(f"({n}) {problem}" for n, problem in enumerate(told, 1))
            text = f"{len(self.found)} problems: {listed}"
            if len(told) < len(self.found):
                text += f"; and {len(self.found) - len(told)} more"
        raise UsageError((f"{place}: " if place else "") + text + (f"; {advice}" if advice else ""))
