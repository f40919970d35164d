"""search-speakers: the enrolled speakers that each test utterance is most like."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import InputError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dcaplda.bin.common.utterances import Models, Utterances
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.blocks import Block
    from dcaplda.runtime.gallery.search import Ranking

    Named = Iterator[tuple[str, NDArray[np.float32]]]

USAGE = """Find the enrolled speakers that each test utterance is most like.

Writes 'test speaker llr', the best speaker first, --top-k lines per test utterance in the order
of the test table. The speakers are a gallery file, or a Kaldi table of embeddings (with
--spk2utt for speakers of several utterances) or of voiceprints (--enroll-voiceprints); a table
can be kept as a gallery with --gallery-out. With --prior, the probability that the speaker is
among the enrolled, each line ends with accept or reject: at most the first one is accepted.

Usage: search-speakers [options] <model-dir> <gallery|enroll-rspecifier> <test-rspecifier> \
<matches-wxfilename>
e.g.: search-speakers --durations=utt2dur --spk2utt=spk2utt --gallery-out=callers.db exp/model \
scp:enroll.scp scp:test.scp -
      search-speakers --durations=utt2dur --top-k=1 --prior=0.5 exp/model callers.db \
scp:test.scp matches
See also: enroll-speakers, score-trials
"""

TESTS_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of search-speakers."""

    durations: str = option("", "seconds of speech of both sides (utt2dur)")
    enroll_durations: str = option("", "seconds of speech of the enrolment side")
    test_durations: str = option("", "seconds of speech of the test side")
    frame_shift: float = option(
        0.0, "if above 0, durations are numbers of frames (utt2num_frames) of so many seconds"
    )
    spk2utt: str = option("", "speakers of several utterances: 'speaker utt1 utt2 ...'")
    multi_enroll: str = option(
        "scores",
        "speakers of several utterances: mean of the scores, or of the voiceprints' inputs",
    )
    enroll_voiceprints: bool = option(
        False, "the enrolment table holds voiceprints of enroll-speakers, not embeddings"
    )
    scp_root: str = option("", "directory where relative file names in an scp start")
    top_k: int = option(10, "speakers per test utterance")
    prior: float | None = option(
        None, "probability that the speaker is enrolled: adds a column accept or reject"
    )
    cost_miss: float = option(1.0, "cost of a miss, with --prior")
    cost_fa: float = option(1.0, "cost of a false acceptance, with --prior")
    gallery_out: str = option("", "keep the enrolled speakers in this new gallery file")
    allow_missing: bool = option(False, "leave out what is missing, and count it")
    threads: int = option(0, "threads to use (default: all cores)")

    def __post_init__(self) -> None:
        """Check ranges and combinations."""
        if self.multi_enroll not in ("scores", "voiceprints"):
            raise ValueError(f"--multi-enroll={self.multi_enroll}: expected scores or voiceprints")
        if self.top_k < 1:
            raise ValueError(f"--top-k={self.top_k}: expected at least 1")
        if self.threads < 0 or not self.frame_shift >= 0:
            raise ValueError("--threads and --frame-shift cannot be negative")
        if self.prior is None and (self.cost_miss, self.cost_fa) != (1.0, 1.0):
            raise ValueError("--cost-miss and --cost-fa need --prior")
        if self.enroll_voiceprints and self.multi_enroll == "voiceprints":
            raise ValueError("--enroll-voiceprints: averaging belongs to enroll-speakers")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read both sides, search, write."""
    from dcaplda.bin.common.utterances import Source, load
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.search import needed_posterior, rank
    from dcaplda.runtime.tables.specifiers import check_output, writing

    model_dir, enrolled, test_table, target = arguments
    check_output(target)
    needed = needed_posterior(options.cost_miss, options.cost_fa)
    backend = Backend.load(model_dir, threads=options.threads or None)
    blocks = _speakers(options, enrolled, backend, log)
    source = Source(
        vectors=test_table,
        durations=options.test_durations or options.durations,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
    )
    timed = _timed(backend, source.durations, "test")
    tests = load(source, None, backend, timed, log)
    _report_missing(tests.missing, options.allow_missing, log)
    if not tests.ids:
        raise InputError(f"'{test_table}': no utterance is left to search for")
    prints = tests.voiceprints(backend)
    count = sum(len(block.numbers) for block in blocks)
    with writing(target) as stream:
        for begin in range(0, len(prints), TESTS_AT_ONCE):
            part = prints[begin : begin + TESTS_AT_ONCE]
            rankings = rank(backend, blocks, part, options.top_k, options.prior)
            names = tests.ids[begin : begin + TESTS_AT_ONCE]
            stream.write("".join(_lines(names, rankings, needed)).encode())
    log.info(f"searched {count} speakers for each of {len(tests.ids)} utterances")
    return 0


def _lines(names: list[str], rankings: "list[Ranking]", needed: float) -> Iterator[str]:
    import numpy as np

    for name, ranking in zip(names, rankings, strict=True):
        for place, match in enumerate(ranking.matches):
            verdict = ""
            if ranking.posterior is not None:
                verdict = " accept" if not place and ranking.posterior >= needed else " reject"
            # The shortest decimal that reads back as the same float32.
            yield f"{name} {match.speaker} {np.float32(match.llr)}{verdict}\n"


def _timed(backend: "Backend", durations: str, side: str) -> bool:
    if backend.info.uses_durations and not durations:
        raise UsageError(
            f"this model needs the seconds of speech: give --durations=utt2dur or "
            f"--{side}-durations"
        )
    return backend.info.uses_durations


def _report_missing(missing: dict[str, str], allow_missing: bool, log: Log) -> None:
    if not missing:
        return
    name, table = next(iter(missing.items()))
    message = f"{len(missing)} are missing, the first is '{name}': not in '{table}'"
    if not allow_missing:
        raise InputError(f"{message}; complete the table, or leave them out with --allow-missing")
    log.warning(message)


def _speakers(options: Options, enrolled: str, backend: "Backend", log: Log) -> "tuple[Block, ...]":
    """The enrolled speakers of a gallery file or of a table."""
    import re

    import numpy as np

    from dcaplda.runtime.gallery.blocks import VoiceprintBlocks
    from dcaplda.runtime.gallery.speakers import Gallery

    if not re.match(r"(ark|scp)[a-z,]*:", enrolled):
        if options.spk2utt or options.enroll_voiceprints or options.gallery_out:
            raise UsageError(f"'{enrolled}' is a gallery; the options of tables do not go with it")
        with Gallery.open(enrolled, backend, create=False) as gallery:
            blocks = gallery.blocks()
        if not blocks:
            raise InputError(f"'{enrolled}': the gallery is empty")
        return blocks
    named = _from_table(options, enrolled, backend, log)
    if options.gallery_out:
        with Gallery.open(options.gallery_out, backend) as gallery:
            gallery.add_many(named)
            return gallery.blocks()
    speakers = VoiceprintBlocks(enrolled, backend.info.voiceprint_dim, np.dtype(np.float32))
    rows = [(number + 1, name, made.tobytes()) for number, (name, made) in enumerate(named)]
    speakers.append(rows)
    return speakers.blocks


def _from_table(options: Options, enrolled: str, backend: "Backend", log: Log) -> "Named":
    """Ids of a table and their voiceprints."""
    from dcaplda.bin.common.trial_sides import report_incomplete
    from dcaplda.bin.common.utterances import Source, arrange, load, read_members
    from dcaplda.runtime.tables.text_tables import read_lists

    source = Source(
        vectors=enrolled,
        durations=options.enroll_durations or options.durations,
        frame_shift=options.frame_shift,
        scp_root=options.scp_root,
        are_voiceprints=options.enroll_voiceprints,
    )
    timed = not options.enroll_voiceprints and _timed(backend, source.durations, "enroll")
    if not options.spk2utt:
        utterances = load(source, None, backend, timed, log)
        _report_missing(utterances.missing, options.allow_missing, log)
        names, offsets = utterances.ids, list(range(len(utterances.ids) + 1))
        made = utterances.voiceprints(backend)
    else:
        names = list(read_lists(options.spk2utt))
        members = read_members(options.spk2utt, names)
        wanted = {name for group in members.values() for name in group}
        utterances = load(source, wanted, backend, timed, log)
        models = arrange(names, members, options.spk2utt, utterances)
        _report_missing(models.missing, options.allow_missing, log)
        report_incomplete(models, options.spk2utt, options.allow_missing, log)
        names = [name for name in names if name not in models.missing]
        offsets, made = models.offsets.tolist(), _of_models(options, backend, utterances, models)
        if len(made) == len(names):
            offsets = list(range(len(names) + 1))
    if not names:
        raise InputError(f"'{enrolled}': no speaker is left to search for")
    return (
        (name, made[offsets[number] : offsets[number + 1]]) for number, name in enumerate(names)
    )


def _of_models(
    options: Options, backend: "Backend", utterances: "Utterances", models: "Models"
) -> "NDArray[np.float32]":
    """Voiceprints of all utterances of all models, or one averaged one of each model."""
    import numpy as np

    if options.multi_enroll == "voiceprints":
        groups = np.repeat(np.arange(len(models.offsets) - 1), np.diff(models.offsets))
        return utterances.voiceprints(backend, models.rows, groups)
    return utterances.voiceprints(backend)[models.rows]


TOOL = Tool("search-speakers", USAGE, Options, 4, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
