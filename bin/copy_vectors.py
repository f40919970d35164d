"""copy-vectors: embeddings from any format that the tools read to any other."""

from dataclasses import dataclass

from dcaplda.bin.common.option_groups import ScpRoot
from dcaplda.bin.common.options import Log, Tool, run

USAGE = """Copy a table of embeddings or voiceprints, from any format to any other.

Formats are Kaldi's tables (ark: scp: ark,t: ark,scp: for writing, with pipes), npz:file, npy:folder
(one file per id), h5:file and parquet:file; of a known ending (.ark .scp .npz .h5 .hdf5 .parquet,
or a folder) the prefix may be left out. Values are written as float32, bit by bit what was read
from float32. The table is written whole or not at all, and an id that occurs twice, a NaN or
vectors of different sizes are errors.

Usage: copy-vectors [options] <vectors-in> <vectors-out>
e.g.: copy-vectors scp:exp/xvector.scp xvectors.npz
      copy-vectors xvectors.h5 ark,scp:xvector.ark,xvector.scp
      copy-vectors npy:embeddings xvectors.parquet
See also: score-trials, train-backend, docs/formats.md
"""


@dataclass(frozen=True, kw_only=True)
class Options(ScpRoot):
    """Options of copy-vectors."""


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read all, write all."""
    from dcaplda.runtime.tables.vector_writer import check_target, write_vectors
    from dcaplda.runtime.tables.vectors import read_vectors

    source, target = arguments
    check_target(target)
    table = read_vectors(source, options.scp_root)
    for message in table.skipped:
        log.warning(message)
    write_vectors(target, table.ids, table.matrix)
    passed = f", {len(table.skipped)} unreadable entries passed over (p)" if table.skipped else ""
    log.info(f"copied {len(table.ids)} vectors of {table.matrix.shape[1]} values{passed}")
    return 0


TOOL = Tool("copy-vectors", USAGE, Options, 2, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
