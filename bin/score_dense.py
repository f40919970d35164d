"""score-dense: a matrix of LLRs among the utterances of each recording."""

from dataclasses import dataclass

from dcaplda.bin.common.option_groups import OfRecordings
from dcaplda.bin.common.options import Log, Tool, run

USAGE = """Compare the utterances of each recording with one another.

Writes one matrix of LLRs per recording, rows and columns in the order of <reco2utt>, in the form of
Kaldi's ivector-plda-scoring-dense, so that agglomerative-cluster reads it; its threshold is then
the negative log odds of two segments being of one speaker: 0 for even odds. cluster-utterances does
both steps, and takes the utterances of a cluster together.

Usage: score-dense [options] <model-dir> <reco2utt> <embeddings-rspecifier> <llrs-wspecifier>
e.g.: score-dense --durations=utt2dur exp/backend/bundle reco2utt scp:xvector.scp \
ark,scp:llrs.ark,llrs.scp
      agglomerative-cluster --read-costs=false --threshold=0 scp:llrs.scp ark,t:reco2utt \
ark,t:labels
See also: cluster-utterances, score-pairs
"""


@dataclass(frozen=True, kw_only=True)
class Options(OfRecordings):
    """Options of score-dense."""


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, compare, write."""
    from dcaplda.bin.common.likeness import refuse_strict, say_unknown
    from dcaplda.bin.recordings.reading import read_recordings
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.tables.matrices import write_matrices
    from dcaplda.runtime.tables.vector_writer import check_wspecifier

    model_dir, reco2utt, vectors, target = arguments
    check_wspecifier(target)
    backend = Backend.load(model_dir, threads=options.threads or None)
    refuse_strict(options, backend.familiarity)
    found = read_recordings(options, backend, reco2utt, vectors, log)
    compared = found.compared(backend, options.heard_first)
    write_matrices(target, ((name, one.llrs()) for name, one in compared))
    say_unknown(backend.familiarity, log)
    log.info(f"compared {len(found.utterances.ids)} utterances of {len(found.members)} recordings")
    return 0


TOOL = Tool("score-dense", USAGE, Options, 4, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
