"""Script files (scp): lines of `id extended-file-name`, and the data they point to.

A relative file name starts at the working directory, as in Kaldi, and if there is no such file, at
the scp's own folder, so that a folder can be moved whole. A given root is the only start.
"""

import os
import re
from collections.abc import Iterable, Iterator

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import (
    GZIP_MAGIC,
    Buffer,
    Rspecifier,
    is_pipe,
    read_bytes,
    read_file,
    read_input,
    split_offset,
)
from dcaplda.runtime.tables.text_lines import decoded, normalised
from dcaplda.runtime.tables.vector_format import Broken, Locate, Span, locate

# Archives kept open at once. Each holds a descriptor; a shuffled scp over more archives
# than this is read correctly, only slower.
_OPEN_FILES = 128
_ARCHIVE = re.compile(rb"[^\x00-\x20\x7f]+ +(\x00B|\[ |\x93NUMPY)")


def read_scp(specifier: Rspecifier) -> dict[str, str]:
    """The extended file name of each id of an scp, in file order.

    A malformed line or a repeated id raises TableError.
    """
    return _sources(specifier, _text(specifier))


class ScpLines:
    """The same, each (id, file name) made when it is asked for.

    Millions of file names would take as much memory as a seventh of their embeddings.
    """

    def __init__(self, specifier: Rspecifier) -> None:
        self._text = _text(specifier)
        self._count = len(_sources(specifier, self._text))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[str, str]]:
        start = 0
        while start < len(self._text):
            end = self._text.index("\n", start)
            key, _, source = self._text[start:end].partition(" ")
            yield key, source
            start = end + 1


def _text(specifier: Rspecifier) -> str:
    """What an scp says, as `normalised`."""
    data = read_bytes(specifier.source)
    if _ARCHIVE.match(data):
        raise TableError(
            f"'{specifier.text}': holds the data themselves; write 'ark:{specifier.source}'"
        )
    return decoded(normalised(data, specifier.source), specifier.source)


def _sources(specifier: Rspecifier, text: str) -> dict[str, str]:
    sources: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        key, _, source = line.partition(" ")
        if not key or not source or key in sources:
            place = f"'{specifier.text}' line {number}"
            if key in sources:
                raise TableError(f"{place}: '{key}' occurs twice; ids must be unique")
            raise TableError(f"{place}: expected 'id file', found {line[:60]!r}")
        sources[key] = source
    return sources


def scp_entries(
    specifier: Rspecifier,
    lines: Iterable[tuple[str, str]],
    root: str,
    skipped: list[str],
    find: Locate = locate,
) -> Iterator[tuple[str, Buffer, Span]]:
    """Locate the object of each (id, file name); a permissive specifier fills `skipped`."""
    files = _OpenFiles(starts_of(specifier, root))
    for key, source in lines:
        try:
            data, position = files.find(source)
            span = find(data, position)
        except (Broken, TableError) as error:
            message = f"'{specifier.text}': '{key}' points to '{source}': {error}"
            if not specifier.permissive:
                raise TableError(message) from None
            skipped.append(message)
        else:
            yield key, data, span


def starts_of(specifier: Rspecifier, root: str) -> tuple[str, ...]:
    """Where the relative names of an scp may start, the first place first ("": here)."""
    if root:
        return (root,)
    if specifier.source == "-" or is_pipe(specifier.source):
        return ("",)
    own = os.path.dirname(specifier.source)
    return ("", own) if own else ("",)


def resolved(name: str, starts: tuple[str, ...]) -> str:
    """The path of a file that an scp names: in the first place that has it, else in the first."""
    first = os.path.join(starts[0], name)
    if len(starts) == 1 or os.path.exists(first):
        return first
    second = os.path.join(starts[1], name)
    return second if os.path.exists(second) else first


class _OpenFiles:
    """Opens what scp lines point to, and keeps the latest archives open."""

    def __init__(self, starts: tuple[str, ...]) -> None:
        self.starts = starts
        self.open: dict[str, Buffer] = {}

    def find(self, source: str) -> tuple[Buffer, int]:
        """The data behind an extended file name, and where to start in it."""
        name, offset = split_offset(source)
        data = self.open.get(name)
        if data is not None and offset is not None:
            return data, offset
        if is_pipe(source):
            return read_input(source), 0
        if source.endswith("]"):
            raise Broken("ranges such as [0:3] are not supported; copy the vectors first")
        if source == "-" or source.startswith("|"):
            raise Broken("not a file; an scp holds file names, or commands that end with '|'")
        return self._load(name, offset), offset or 0

    def _load(self, name: str, offset: int | None) -> Buffer:
        path = resolved(name, self.starts)
        if not os.path.exists(path):
            places = [f"'{start}'" if start else "the working directory" for start in self.starts]
            start = " or ".join(places)
            way_out = "" if os.path.isabs(name) else f" (names start at {start}; see --scp-root)"
            raise Broken(f"there is no such file{way_out}")
        data = read_file(path)
        if data[:2] == GZIP_MAGIC:
            if offset is not None:
                raise Broken("an offset into a gzipped file; unpack it first")
            return read_input(path)
        if offset is not None:
            if len(self.open) >= _OPEN_FILES:
                del self.open[next(iter(self.open))]
            self.open[name] = data
        return data
