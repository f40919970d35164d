"""The entries of a table, archive or scp alike: id, data, and where in the data it lies."""

import re
from collections.abc import Collection, Iterator

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.scp import ScpLines, scp_entries
from dcaplda.runtime.tables.specifiers import Buffer, Rspecifier, read_input
from dcaplda.runtime.tables.vector_format import Locate, Span, locate, scan_archive

# An id, then a file with an offset or with an ending, or a command.
_SCP_LINE = re.compile(rb"[^\x00-\x20\x7f]+[ \t]+[^\x00-\x1f\x7f\[]*(:\d+|\.\w+|\|)[ \t\r]*(\n|\Z)")

Entry = tuple[str, Buffer, Span]


def entries(
    specifier: Rspecifier,
    scp_root: str,
    skipped: list[str],
    only: Collection[str] | None = None,
    find: Locate = locate,
) -> tuple[int, Iterator[Entry]]:
    """At most how many entries there are, and an iterator over them; `find` says of what kind."""
    if specifier.kind == "scp":
        lines = ScpLines(specifier)
        if not len(lines):
            raise TableError(f"'{specifier.text}': the table is empty")
        if only is None:
            return len(lines), scp_entries(specifier, lines, scp_root, skipped, find)
        some = [line for line in lines if line[0] in only]
        return len(some), scp_entries(specifier, some, scp_root, skipped, find)
    data = read_input(specifier.source)
    spans = [
        (key, span)
        for key, span in _archive_spans(specifier, data, skipped, find)
        if only is None or key in only
    ]
    return len(spans), ((key, data, span) for key, span in spans)


def _looks_like_scp(data: Buffer) -> bool:
    """Whether the first line is text of an id and something that ends as names in an scp do."""
    return _SCP_LINE.match(data, 0, 8192) is not None


def _archive_spans(
    specifier: Rspecifier, data: Buffer, skipped: list[str], find: Locate
) -> Iterator[tuple[str, Span]]:
    place = f"'{specifier.text}'"
    seen: set[str] = set()
    scan = scan_archive(data, place, find)
    while True:
        try:
            key, span = next(scan)
        except StopIteration:
            break
        except TableError as error:
            if not seen and _looks_like_scp(data):
                raise TableError(
                    f"{error}; this looks like an scp: write 'scp:{specifier.source}'"
                ) from None
            if not specifier.permissive:
                raise
            # Kaldi's meaning of `p` for an archive: what follows the damage does not exist.
            skipped.append(str(error))
            return
        if key in seen:
            raise TableError(f"{place}: '{key}' occurs twice; ids must be unique")
        seen.add(key)
        yield key, span
    if not seen:
        raise TableError(f"{place}: the table is empty")
