"""merge-parts: one file of the parts that jobs wrote, or a line that says what is missing."""

from dataclasses import dataclass
from pathlib import Path

from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

USAGE = """Put the parts of a job together, once all of them are there and of the same inputs.

A tool that is called with --part=J --num-parts=N leaves a stamp beside its file (hidden:
.scores.3.stamp) that says of which model, tables, trials and settings it was made, and that it is
whole. The result is byte for byte that of one run. Nothing is written while a part is missing, was
altered, or was made of other inputs than the rest. The order of the files does not matter.

Usage: merge-parts [options] <part> ... <merged-wxfilename>
e.g.: merge-parts exp/scores.1 exp/scores.2 exp/scores.3 exp/scores
See also: score-trials, search-speakers
"""

MOST_PARTS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of merge-parts."""

    remove: bool = option(False, "remove the parts and their stamps once they are put together")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Check all stamps, then write."""
    from dcaplda.runtime.parts.merging import in_order, merge_lines, remove_parts
    from dcaplda.runtime.tables.specifiers import check_output

    *parts, target = arguments
    check_output(target)
    paths = in_order(parts)
    _refuse_pairs(paths)
    lines = merge_lines(paths, target)
    if options.remove:
        remove_parts(paths)
    log.info(f"put {len(paths)} parts together: {lines} lines")
    return 0


def _refuse_pairs(paths: list[Path]) -> None:
    """Parts of score-pairs are no lines: their best are picked out again, by the tool itself."""
    from dcaplda.runtime.parts.stamps import read_stamp

    stamp = read_stamp(paths[0])
    if stamp is not None and stamp.work.tool == "score-pairs":
        raise UsageError(
            f"{paths[0]}: is a part of score-pairs, which puts its parts together itself: the same "
            f"command with --cluster=local --nj={stamp.work.num_parts}"
        )


TOOL = Tool("merge-parts", USAGE, Options, (2, MOST_PARTS), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
