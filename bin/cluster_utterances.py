"""cluster-utterances: who speaks in each utterance of a recording, and across recordings."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.option_groups import OfRecordings, check_choice, check_not_negative
from dcaplda.bin.common.options import Log, Tool, option, run

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dcaplda.bin.recordings.reading import Recordings
    from dcaplda.runtime.backend import Backend

    Labels = NDArray[np.int64]

USAGE = """Cluster the utterances of each recording by speaker.

The two clusters with the highest LLR become one while that LLR is above the threshold that --prior
dictates: no number to tune. Where the model is joint, all utterances of a cluster are taken
together; else it is the mean LLR of their pairs. Writes lines 'utterance recording-1' (utt2spk)
and, with --segments, RTTM. --across-prior links speakers of different recordings: 'person-1'.

Usage: cluster-utterances [options] <model-dir> <reco2utt> <embeddings-rspecifier> <utt2spk>
e.g.: cluster-utterances --durations=utt2dur --segments=segments --rttm=hyp.rttm \
exp/backend/bundle reco2utt scp:xvector.scp utt2spk
See also: score-dense, score-pairs
"""


@dataclass(frozen=True, kw_only=True)
class Options(OfRecordings):
    """Options of cluster-utterances."""

    prior: float = option(0.5, "probability that two utterances of a recording are of one speaker")
    num_speakers: int = option(0, "speakers of every recording, if known; 0: by --prior")
    reco2num_spk: str = option("", "table of the number of speakers of recordings")
    link: str = option("auto", "joint or average; auto: joint where the model was trained for it")
    across_prior: float = option(
        0.0, "probability that two speakers of two recordings are one; 0: recordings stay apart"
    )
    segments: str = option("", "segments: 'utterance recording start end', in seconds")
    rttm: str = option("", "RTTM to write")

    def check(self) -> None:
        """Check ranges, and what belongs together."""
        OfRecordings.check(self)
        check_choice(self, "link", ("auto", "joint", "average"))
        check_not_negative(self, "num_speakers")
        if not 0 < self.prior < 1 or not 0 <= self.across_prior < 1:
            raise ValueError("--prior and --across-prior are probabilities: above 0 and below 1")
        if bool(self.segments) != bool(self.rttm):
            raise ValueError("--segments and --rttm belong together: RTTM tells when")
        if self.num_speakers and self.reco2num_spk:
            raise ValueError("--num-speakers is for all recordings, --reco2num-spk for each: one")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, cluster, write."""
    from dcaplda.bin.common.likeness import refuse_strict, say_unknown
    from dcaplda.bin.recordings.reading import read_recordings
    from dcaplda.bin.recordings.tables import read_spans
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.bundle.readme import never_calibrated
    from dcaplda.runtime.tables.specifiers import check_output, writing

    model_dir, reco2utt, vectors, target = arguments
    for name in filter(None, (target, options.rttm)):
        check_output(name)
    backend = Backend.load(model_dir, threads=options.threads or None)
    refuse_strict(options, backend.familiarity)
    by_prior = options.across_prior or not (options.num_speakers or options.reco2num_spk)
    if by_prior and never_calibrated(backend.info.manifest):
        log.warning(
            f"{model_dir}: its scores may not be LLRs, which the threshold of a prior is for; see "
            "calibrate-scores --bundle, or give the number of speakers"
        )
    found = read_recordings(options, backend, reco2utt, vectors, log)
    spans = read_spans(options.segments, found)
    speakers = _speakers(options, backend, found)
    with writing(target) as stream:
        for utterance, (_, speaker) in speakers.items():
            stream.write(f"{utterance} {speaker}\n".encode())
    if options.rttm:
        _write_rttm(options.rttm, spans, speakers)
    say_unknown(backend.familiarity, log)
    people = len({speaker for _, speaker in speakers.values()})
    log.info(
        f"found {people} speakers of {len(speakers)} utterances in {len(found.members)} recordings"
    )
    return 0


def _speakers(
    options: Options, backend: "Backend", found: "Recordings"
) -> dict[str, tuple[str, str]]:
    """Recording and speaker of each utterance, in the order of the recordings."""
    from dcaplda.bin.recordings.tables import read_counts
    from dcaplda.runtime.errors import InputError

    counts = dict.fromkeys(found.members, options.num_speakers)
    if options.reco2num_spk:
        counts = read_counts(options.reco2num_spk, found)
    for name, count in counts.items():
        if count > len(found.members[name]):
            raise InputError(
                f"recording '{name}': {count} speakers of {len(found.members[name])} utterances; "
                "each has at least one"
            )
    threshold = backend.threshold(options.prior)
    labels = [
        one.clusters(threshold, counts.get(name, 0), options.link)
        for name, one in found.compared(backend, options.heard_first)
    ]
    table = found.utterances
    rows = [row for own in found.members.values() for row in own]
    if options.across_prior:
        people = _people(options, backend, found, labels, rows)
        names = [f"person-{number + 1}" for number in people]
    else:
        own = zip(found.members, labels, strict=True)
        names = [f"{name}-{number + 1}" for name, numbers in own for number in numbers]
    recordings = [name for name, own in found.members.items() for _ in own]
    told = zip(recordings, names, strict=True)
    return dict(zip((table.ids[row] for row in rows), told, strict=True))


def _people(
    options: Options,
    backend: "Backend",
    found: "Recordings",
    labels: "list[Labels]",
    rows: list[int],
) -> "Labels":
    """The person of each utterance, over all recordings."""
    import numpy as np

    from dcaplda.runtime.clustering.archive import joined_labels, linked

    speakers = joined_labels(labels)
    voiceprints = found.utterances.voiceprints(backend, np.array(rows))
    return linked(backend, voiceprints, speakers, backend.threshold(options.across_prior))[speakers]


def _write_rttm(
    target: str, spans: dict[str, tuple[str, float, float]], speakers: dict[str, tuple[str, str]]
) -> None:
    from dcaplda.runtime.people.rttm import Turn, write_rttm
    from dcaplda.runtime.tables.specifiers import writing

    turns = sorted(Turn(*spans[utterance], speaker) for utterance, (_, speaker) in speakers.items())
    with writing(target) as stream:
        write_rttm(turns, stream)


TOOL = Tool("cluster-utterances", USAGE, Options, 4, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
