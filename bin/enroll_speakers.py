"""enroll-speakers: voiceprints of utterances or speakers, to be compared many times."""

from dataclasses import dataclass

from dcaplda.bin.common.option_groups import Averaged, Embeddings, check_choice
from dcaplda.bin.common.options import Log, Tool, option, run

USAGE = """Turn embeddings into voiceprints that score-trials takes with --enroll-voiceprints.

Without --spk2utt there is one voiceprint per utterance. With it there is one per speaker: by the
book (joint) where the model was trained for it, else from the averaged inputs of the speaker's
utterances (voiceprints); to average scores instead, enrol utterances and give --spk2utt to
score-trials. A voiceprint serves only the model that made it: <archive>.json says which that was.

Usage: enroll-speakers [options] <model-dir> <embeddings-rspecifier> <voiceprints-wspecifier>
e.g.: enroll-speakers --durations=utt2dur --spk2utt=spk2utt exp/model scp:enroll.scp \
ark,scp:voiceprints.ark,voiceprints.scp
      score-trials --enroll-voiceprints --durations=utt2dur exp/model scp:voiceprints.scp \
scp:test.scp trials scores
See also: score-trials, compute-durations
"""


@dataclass(frozen=True, kw_only=True)
class Options(Averaged, Embeddings):
    """Options of enroll-speakers."""

    multi_enroll: str = option(
        "auto", "speakers of several utterances: joint or voiceprints; auto: joint where it can be"
    )

    def check(self) -> None:
        """A table has one voiceprint per name, so scores cannot be averaged later."""
        check_choice(self, "multi_enroll", ("auto", "joint", "voiceprints"))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, compute, write."""
    from dcaplda.bin.common.likeness import refuse_strict, say_unknown
    from dcaplda.bin.common.sides import enrol, need_seconds
    from dcaplda.bin.common.utterances import Source
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.tables.vector_writer import check_target, write_vectors
    from dcaplda.runtime.tables.voiceprint_tag import write_tag

    model_dir, table, target = arguments
    archive = check_target(target)
    backend = Backend.load(model_dir, threads=options.threads or None)
    refuse_strict(options, backend.familiarity)
    timed = backend.info.uses_durations
    if timed:
        need_seconds(options.durations, "--durations=utt2dur")
    source = Source(
        vectors=table,
        durations=options.durations,
        num_utts=options.num_utts,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
    )
    way = options.multi_enroll
    if way == "auto":
        way = "voiceprints" if backend.joint is None else "joint"
    made = enrol(source, options, way, "cannot be enrolled", backend, timed, log)
    write_vectors(target, made.names, made.voiceprints)
    write_tag(archive, backend.info.fingerprint)
    say_unknown(backend.familiarity, log)
    log.info(f"enrolled {len(made.names)} from {made.n_utterances} utterances")
    return 0


TOOL = Tool("enroll-speakers", USAGE, Options, 3, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
