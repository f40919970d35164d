"""From all parts to one file, or to one line that says which part is missing or foreign."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dcaplda.runtime.errors import PartError
from dcaplda.runtime.parts.stamps import Stamp, Work, is_whole, read_stamp, stamp_path
from dcaplda.runtime.tables.specifiers import read_input, writing

_NAMED = 8
"""Numbers of missing parts that a message names."""
_AT_ONCE = 1 << 24


def in_order(paths: Iterable[str | Path], work: Work | None = None) -> list[Path]:
    """The files of all parts of one job, in the order of the parts.

    Raises PartError if a part is missing, given twice, altered, or of another job than `work`, or
    without it than that of the first file.
    """
    found: dict[int, Path] = {}
    for path in map(Path, paths):
        stamp = _stamp_of(path)
        work = work or stamp.work
        difference = work.difference(stamp.work)
        if difference:
            raise PartError(f"{path}: part {stamp.part} is {difference}; run that part again")
        if stamp.part in found:
            raise PartError(
                f"{path}: part {stamp.part} is also in {found[stamp.part]}; leave one out"
            )
        if not is_whole(path, stamp):
            raise PartError(
                f"{path}: part {stamp.part} is not as it was written; run that part again"
            )
        found[stamp.part] = path
    if work is None:
        raise PartError("there are no parts to put together; name their files")
    check_all(found, work.num_parts)
    return [found[part] for part in range(1, work.num_parts + 1)]


def check_all(found: Iterable[int], num_parts: int) -> None:
    """Refuse to go on without all parts, and name those that are missing."""
    missing = sorted(set(range(1, num_parts + 1)) - set(found))
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise PartError(
            f"{listed(missing)} of {num_parts} {verb} missing; run what is missing, then merge"
        )


def listed(parts: Sequence[int]) -> str:
    """`part 3`, `parts 1, 3, 5`, `parts 1, 2, ... and 9 more`."""
    if len(parts) == 1:
        return f"part {parts[0]}"
    more = f" and {len(parts) - _NAMED} more" if len(parts) > _NAMED else ""
    return f"parts {', '.join(map(str, parts[:_NAMED]))}{more}"


def merge_lines(paths: Sequence[Path], target: str) -> int:
    """Write the content of files one after the other; the number of lines.

    Files that end in .gz are unpacked, and a target that does is packed as a whole: the bytes are
    those of a single run.
    """
    lines = 0
    with writing(target) as stream:
        for path in paths:
            content = memoryview(read_input(str(path)))
            for first in range(0, len(content), _AT_ONCE):
                piece = content[first : first + _AT_ONCE]
                lines += bytes(piece).count(b"\n")
                stream.write(piece)
    return lines


def _stamp_of(path: Path) -> Stamp:
    if not path.is_file():
        raise PartError(f"{path}: no such part; run what is missing, then merge")
    stamp = read_stamp(path)
    if stamp is None:
        raise PartError(f"{path}: has no stamp, so nothing tells what it was made of; run it again")
    return stamp


def remove_parts(paths: Iterable[Path]) -> None:
    """Remove the files of parts, and their stamps first: a part without one counts as not done."""
    for path in paths:
        stamp_path(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)
