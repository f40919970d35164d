"""score-pairs: LLRs of all pairs of utterances, without a list of trials."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dcaplda.bin.cluster.options import Cluster
from dcaplda.bin.cluster.parts import Parts, do_part, work_of
from dcaplda.bin.common.option_groups import SideTables, check_not_negative
from dcaplda.bin.common.options import Log, Tool, option, run

if TYPE_CHECKING:
    from dcaplda.bin.pairs.tables import PairTables
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.pairs.scan import Wanted

USAGE = """Score all pairs of utterances, without a list of trials.

Of one table every utterance meets every other, each pair once; of two, every enrolment meets every
test. Kept are all pairs, those with at least --min-llr, or the --top-k best of each utterance (of
each enrolment, of two tables), the best first. An output that ends in .parquet has the columns
enroll, test (uint32) and llr (float32), with the ids of these numbers in <name>.ids.parquet and the
model's fingerprint in the schema's metadata; any other has lines 'enroll test llr'. The matrix is
never in memory; --cluster does it in parts, each with the voiceprints that it needs, and the
result is that of one run, bit for bit. Speakers of several utterances: enroll-speakers, then
--enroll-voiceprints.

Usage: score-pairs [options] <model-dir> <rspecifier> [<test-rspecifier>] <pairs-wxfilename>
e.g.: score-pairs --durations=utt2dur --min-llr=5 exp/model scp:xvector.scp duplicates
      score-pairs --durations=utt2dur --top-k=10 --cluster=slurm --nj=100 exp/model \\
scp:xvector.scp neighbours.parquet
      score-pairs --enroll-voiceprints --test-durations=utt2dur --top-k=100 exp/model \\
scp:voiceprints.scp scp:archive.scp found.parquet
See also: score-trials, search-speakers, enroll-speakers
"""


@dataclass(frozen=True, kw_only=True)
class Options(Cluster, Parts, SideTables):
    """Options of score-pairs."""

    top_k: int = option(0, "best partners of each utterance (of each enrolment); 0: all")
    min_llr: float | None = option(None, "keep only pairs with at least this LLR")
    num_parts: int = option(
        0,
        "parts of the work; their files are Parquet, and --cluster=local puts them together",
        counts="never",
    )

    def check(self) -> None:
        """Check ranges."""
        check_not_negative(self, "top_k")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Score all pairs, a part of them, or all in parts."""
    roles = ("model", "bundle"), ("enroll", "vectors"), ("test", "vectors")
    inputs = roles[: len(arguments) - 1]
    if options.cluster:
        from dcaplda.bin.cluster.whole import run_parts

        return run_parts(
            TOOL,
            options,
            arguments,
            inputs,
            log,
            lambda paths, target: _merge(options, arguments, paths, target, log),
        )
    return do_part(
        options,
        lambda: work_of(TOOL.name, options, arguments, inputs, options.num_parts),
        arguments[-1],
        log,
        lambda: _score(options, arguments, log),
    )


def _score(options: Options, arguments: list[str], log: Log) -> int:
    """Read the tables, go through the tiles, write what is kept."""
    if options.threads:
        os.environ.setdefault("POLARS_MAX_THREADS", str(options.threads))
    from dcaplda.bin.common.likeness import refuse_strict, say_unknown
    from dcaplda.bin.common.progress import Progress
    from dcaplda.bin.pairs.output import write_pairs
    from dcaplda.runtime.pairs.files import write_parquet
    from dcaplda.runtime.pairs.scan import kept_pairs
    from dcaplda.runtime.tables.specifiers import check_output

    target = arguments[-1]
    check_output(target)
    backend, tables = _opened(options, arguments, log)
    refuse_strict(options, backend.familiarity)
    grid, wanted = tables.grid, _wanted(options)
    tiles = options.cut(grid.n_tiles)
    compare = tables.comparison(tiles, options, backend, log)
    with Progress(tiles[1] - tiles[0], "tiles", log) as progress:
        found = kept_pairs(compare, grid, tiles, wanted, backend.threads, progress.advance)
        if options.num_parts:
            count = write_parquet(target, found, {})
            what = f"part {options.part} of {options.num_parts} of "
        else:
            count = write_pairs(target, found, backend, tables, wanted)
            what = ""
    say_unknown(backend.familiarity, log)
    log.info(f"kept {count} pairs of {what}{grid.n_pairs}")
    return 0


def _opened(options: Options, arguments: list[str], log: Log) -> "tuple[Backend, PairTables]":
    from dcaplda.bin.pairs.tables import read_tables
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.pairs.files import check_count, names_parquet

    names_parquet(arguments[-1])  # refuses what it cannot be
    backend = Backend.load(arguments[0], threads=options.threads or None)
    tables = read_tables(options, backend, arguments[1:-1], log)
    check_count(len(tables.ids))
    return backend, tables


def _wanted(options: Options) -> "Wanted":
    from dcaplda.runtime.pairs.scan import Wanted

    if options.min_llr is None:
        return Wanted(options.top_k)
    return Wanted(options.top_k, options.min_llr)


def _merge(options: Options, arguments: list[str], paths: list[Path], target: str, log: Log) -> int:
    """Put parts together, in order: all that they have, or the best of each utterance."""
    from dcaplda.bin.pairs.output import write_pairs
    from dcaplda.runtime.pairs.best import merged_best
    from dcaplda.runtime.pairs.files import read_pairs

    backend, tables = _opened(options, arguments, log)
    found = read_pairs(paths)
    if options.top_k:
        grid = tables.grid
        found = iter([merged_best(found, grid.rows, min(options.top_k, grid.partners))])
    return write_pairs(target, found, backend, tables, _wanted(options))


TOOL = Tool("score-pairs", USAGE, Options, (3, 4), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
