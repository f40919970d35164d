"""The arguments that a tool's usage text names: which are lacking, which would be overwritten."""

import os
import re
from collections.abc import Iterable, Iterator

from dcaplda.runtime.errors import UsageError

# "Usage: tool [options] <a> <b>" and the lines below it, up to the examples.
_USAGE = re.compile(r"^Usage: (.*?)^(?:e\.g\.|See also)", re.S | re.M)
_NAME = re.compile(r"<[^<>\s]+>")
# `scp:`, `ark,t:` and the like before a name; an address (postgresql://) is none of them.
_PREFIX = re.compile(r"[a-z0-9,]+:(?!//)")


def argument_names(usage: str) -> list[list[str]]:
    """The names of the arguments, in angle brackets, of each form of the usage text.

    Names that belong to an option (`--plda=<file>`) or may be left out are not among them.
    """
    found = _USAGE.search(usage)
    forms = []
    for line in found[1].splitlines() if found else []:
        plain = re.sub(r"--\S+|\[[^\]]*\]", " ", line)
        forms.append(_NAME.findall(plain))
    return [names for names in forms if names]


def check_count(usage: str, count: int | tuple[int, int], arguments: list[str]) -> None:
    """Refuse too few or too many arguments, and name those that are missing or too many.

    `count` is their exact number or a (least, most) pair; names are those of the first form.
    """
    least, most = count if isinstance(count, tuple) else (count, count)
    if least <= len(arguments) <= most:
        return
    expected = str(least) if least == most else f"{least} to {most}"
    plural = "" if expected == "1" else "s"
    words = f"expected {expected} argument{plural}, found {len(arguments)}"
    if len(arguments) > most:
        raise UsageError(f"{words}: '{arguments[most]}' is too much; see --help")
    names = argument_names(usage)[0][len(arguments) :]
    verb = "is" if len(names) == 1 else "are"
    raise UsageError(f"{words}: {' and '.join(names)} {verb} missing; see --help")


def need(usage: str, form: int, arguments: list[str]) -> None:
    """Refuse a number of arguments other than that of one form (0 is the first) of the usage."""
    names = argument_names(usage)[form]
    if len(arguments) != len(names):
        check_count(f"Usage: {' '.join(names)}\ne.g.", len(names), arguments)


def refuse_written_inputs(target: str, others: Iterable[str]) -> None:
    """Refuse an output that is one of the files named elsewhere, before anything is read.

    What is read by way of another file (an archive behind an scp) is seen when it is written
    (runtime/files.py).
    """
    written = set(_files(target))
    for word in others if written else ():
        if written & set(_files(word)):
            raise UsageError(
                f"'{target}' is to be written, and is an input too ('{word}'); name another file"
            )


def _files(word: str) -> Iterator[tuple[int, int]]:
    """The regular files that a word may name, by what the system knows them by."""
    rest = _PREFIX.sub("", word, count=1) if _PREFIX.match(word) else word
    for name in {word, rest, *rest.split(",")}:
        name = name.strip()
        if name and os.path.isfile(name):
            status = os.stat(name)
            yield status.st_dev, status.st_ino
