"""What is fuzzed: a target makes a damaged file of bytes, has it read, and judges the outcome."""

import traceback
from abc import ABC, abstractmethod
from pathlib import Path

from fuzz.choices import Choices

from dcaplda.runtime.errors import DcapldaError

SAME, OTHER, REFUSED = "same", "other", "refused"
"""Read as what the oracle says; read as something else that it may be (told by each target); one
clear line."""
TRACEBACK, WRONG, HANG, CRASH, MEMORY = "traceback", "wrong", "hang", "crash", "memory"
GOOD, BAD = (SAME, OTHER, REFUSED), (TRACEBACK, WRONG, HANG, CRASH, MEMORY)
LONGEST_LINE = 6000


class Wrong(Exception):
    """The oracle says otherwise."""


class Target(ABC):
    """One kind of input. Its docstring is its oracle.

    `folder` is a place of its own, in memory where the machine has such a one.
    """

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def attempt(self, choices: Choices) -> str:
        """SAME or OTHER; DcapldaError where it was refused; Wrong where the oracle disagrees."""

    def run(self, data: bytes) -> tuple[str, str]:
        """The outcome of one input, and for a bad one what happened."""
        try:
            return self.attempt(Choices(data)), ""
        except DcapldaError as error:
            text = str(error)
            if not text.isprintable() or not text or len(text) > LONGEST_LINE:
                return TRACEBACK, f"an error that is not one line: {text[:200]!r}"
            return REFUSED, text
        except Wrong as error:
            return WRONG, str(error)
        except MemoryError as error:
            return MEMORY, f"MemoryError {error}"
        except Exception:
            return TRACEBACK, traceback.format_exc()

    def write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


def require(holds: bool, text: str) -> None:
    """Raise Wrong unless the oracle holds."""
    if not holds:
        raise Wrong(text)
