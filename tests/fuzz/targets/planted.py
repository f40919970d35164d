"""Targets whose readers have a fault: they show that the fuzzer finds such."""

import os
import time
from abc import abstractmethod

from fuzz.choices import Choices
from fuzz.target import SAME, Target, require

from dcaplda.runtime.errors import InputError


class Planted(Target):
    """Every eighth input meets the fault, every other is refused."""

    def attempt(self, choices: Choices) -> str:
        if choices.below(8) == 7:
            self.fail()
        if choices.chance():
            raise InputError("here: not to be read; make it again")
        return SAME

    @abstractmethod
    def fail(self) -> None:
        """The fault."""


class Fine(Planted):
    """Has no fault."""

    name = "planted-fine"

    def fail(self) -> None:
        pass


class Hang(Planted):
    """Runs for ever."""

    name = "planted-hang"

    def fail(self) -> None:
        while True:
            time.sleep(0.01)


class Crash(Planted):
    """Dies, as a library in C may."""

    name = "planted-crash"

    def fail(self) -> None:
        os.abort()


class Memory(Planted):
    """Takes more than a gigabyte."""

    name = "planted-memory"

    def fail(self) -> None:
        self.kept = b"\1" * (1100 << 20)


class Traceback(Planted):
    """Raises what is no error of the user's."""

    name = "planted-traceback"

    def fail(self) -> None:
        raise KeyError("embedding_dim")


class Wrong(Planted):
    """Reads something else than the file says."""

    name = "planted-wrong"

    def fail(self) -> None:
        require(1 + 1 == 3, "2 instead of 3")
