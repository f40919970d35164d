"""enroll-speakers: voiceprints of utterances or speakers, to be compared many times."""

from dataclasses import dataclass

from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import InputError, UsageError

USAGE = """Turn embeddings into voiceprints that score-trials takes with --enroll-voiceprints.

Without --spk2utt there is one voiceprint per utterance. With it there is one per speaker, from
the averaged inputs of the speaker's utterances (--multi-enroll=voiceprints of score-trials);
to average scores instead, enrol utterances and give --spk2utt to score-trials. A voiceprint
serves only the model that made it: <archive>.json says which that was.

Usage: enroll-speakers [options] <model-dir> <embeddings-rspecifier> <voiceprints-wspecifier>
e.g.: enroll-speakers --durations=utt2dur --spk2utt=spk2utt exp/model scp:enroll.scp \
ark,scp:voiceprints.ark,voiceprints.scp
      score-trials --enroll-voiceprints --durations=utt2dur exp/model scp:voiceprints.scp \
scp:test.scp trials scores
See also: score-trials, compute-durations
"""


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of enroll-speakers."""

    durations: str = option("", "seconds of speech of the utterances (utt2dur)")
    frame_shift: float = option(
        0.0, "if above 0, durations are numbers of frames (utt2num_frames) of so many seconds"
    )
    spk2utt: str = option("", "speakers: 'speaker utt1 utt2 ...'")
    num_utts: str = option("", "utterances behind each vector (imported Kaldi models)")
    scp_root: str = option("", "directory where relative file names in an scp start")
    allow_missing: bool = option(False, "enrol speakers without utterances that are missing")
    threads: int = option(0, "threads to use (default: all cores)")

    def __post_init__(self) -> None:
        """Check ranges and combinations."""
        if self.threads < 0 or not self.frame_shift >= 0:
            raise ValueError("--threads and --frame-shift cannot be negative")
        if self.num_utts and self.spk2utt:
            raise ValueError("--num-utts is for averaged vectors, --spk2utt for single ones")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, compute, write."""
    import numpy as np

    from dcaplda.bin.common.trial_sides import report_incomplete
    from dcaplda.bin.common.utterances import Source, arrange, load, read_members
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.tables.text_tables import read_lists
    from dcaplda.runtime.tables.vector_writer import check_wspecifier, write_vectors
    from dcaplda.runtime.tables.voiceprint_tag import write_tag

    model_dir, table, target = arguments
    archive = check_wspecifier(target).ark
    backend = Backend.load(model_dir, threads=options.threads or None)
    timed = backend.info.uses_durations
    if timed and not options.durations:
        raise UsageError("this model needs the seconds of speech: give --durations=utt2dur")
    source = Source(
        vectors=table,
        durations=options.durations,
        num_utts=options.num_utts,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
    )
    if not options.spk2utt:
        utterances = load(source, None, backend, timed, log)
        _check_missing(utterances.missing, options.allow_missing, log)
        names = utterances.ids
        made = utterances.voiceprints(backend)
    else:
        names = list(read_lists(options.spk2utt))
        members = read_members(options.spk2utt, names)
        wanted = {name for group in members.values() for name in group}
        utterances = load(source, wanted, backend, timed, log)
        models = arrange(names, members, options.spk2utt, utterances)
        _check_missing(models.missing, options.allow_missing, log)
        report_incomplete(models, options.spk2utt, options.allow_missing, log)
        names = [name for name in names if name not in models.missing]
        group = np.repeat(np.arange(len(names)), np.diff(models.offsets))
        made = utterances.voiceprints(backend, models.rows, group)
    write_vectors(target, names, made)
    write_tag(archive, backend.info.fingerprint)
    log.info(f"enrolled {len(names)} from {len(utterances.ids)} utterances")
    return 0


def _check_missing(missing: dict[str, str], allow_missing: bool, log: Log) -> None:
    if not missing:
        return
    name, table = next(iter(missing.items()))
    message = f"{len(missing)} cannot be enrolled, the first is '{name}': not in '{table}'"
    if not allow_missing:
        raise InputError(f"{message}; complete the table, or leave them out with --allow-missing")
    log.warning(message)


TOOL = Tool("enroll-speakers", USAGE, Options, 3, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
