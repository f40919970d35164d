"""Script files (scp): lines of `id extended-file-name`, and the data they point to."""

import os
from collections.abc import Iterable, Iterator

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.specifiers import (
    GZIP_MAGIC,
    Buffer,
    Rspecifier,
    is_pipe,
    read_file,
    read_input,
    split_offset,
)
from dcaplda.runtime.tables.text_lines import read_lines
from dcaplda.runtime.tables.vector_format import Broken, Locate, Span, locate

# Archives kept open at once. Each holds a descriptor; a shuffled scp over more archives
# than this is read correctly, only slower.
_OPEN_FILES = 128


def read_scp(specifier: Rspecifier) -> dict[str, str]:
    """The extended file name of each id of an scp, in file order.

    A malformed line or a repeated id raises TableError.
    """
    sources: dict[str, str] = {}
    for number, line in enumerate(read_lines(specifier.source), 1):
        key, _, source = line.partition(" ")
        source = source.strip(" ")
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
    files = _OpenFiles(root)
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


class _OpenFiles:
    """Opens what scp lines point to, and keeps the latest archives open."""

    def __init__(self, root: str) -> None:
        self.root = root
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
        path = os.path.join(self.root, name)
        if not os.path.exists(path):
            start = f"'{self.root}'" if self.root else "the working directory"
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
