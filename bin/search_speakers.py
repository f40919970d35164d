"""search-speakers: the enrolled speakers that each test utterance is most like."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.cluster.options import Cluster
from dcaplda.bin.cluster.parts import Parts, do_part, work_of
from dcaplda.bin.common.option_groups import Decision, PlaceBundles, TwoSides
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import InputError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.blocks import Block
    from dcaplda.runtime.gallery.search import Ranking

    Named = Iterator[tuple[str, NDArray[np.float32]]]
    Search = Callable[[NDArray[np.float32]], list[Ranking]]

USAGE = """Find the enrolled speakers that each test utterance is most like.

Writes 'test speaker llr', the best speaker first, --top-k lines per test utterance in the order
of the test table. The speakers are a gallery file, or a table of embeddings (any format; with
--spk2utt for speakers of several utterances) or of voiceprints (--enroll-voiceprints); a table
can be kept as a gallery with --gallery-out. With --prior, the probability that the speaker is
among the enrolled, each line ends with accept or reject: at most the first one is accepted. A
gallery with speakers of several places takes --place-bundles (see score-trials).

Usage: search-speakers [options] <model-dir> <gallery|enroll-rspecifier> <test-rspecifier> \
<matches-wxfilename>
e.g.: search-speakers --durations=utt2dur --spk2utt=spk2utt --gallery-out=callers.db exp/model \
scp:enroll.scp scp:test.scp -
      search-speakers --durations=utt2dur --top-k=1 --prior=0.5 exp/model callers.db \
scp:test.scp matches
      search-speakers --durations=utt2dur --cluster=slurm --nj=50 exp/model callers.db \
scp:test.scp matches
See also: enroll-speakers, score-trials, merge-parts
"""

# Parts are cut between such blocks: the products, and their rounding, are those of the whole.
TESTS_AT_ONCE = 512
# What it means here that a table lacks an id.
LACKING = "are missing"


@dataclass(frozen=True, kw_only=True)
class Options(Cluster, Parts, PlaceBundles, Decision, TwoSides):
    """Options of search-speakers."""

    # Another prior than that of a trial: the candidates share it.
    prior: float | None = option(
        None, "probability that the speaker is enrolled: adds a column accept or reject"
    )
    top_k: int = option(10, "speakers per test utterance")
    gallery_out: str = option("", "keep the enrolled speakers in this new gallery file")
    index: str = option("", "codes: for galleries of millions, which need not fit into memory")
    test_place: str = option("", "place of the tests, one of --place-bundles; else none of them")

    def check(self) -> None:
        """Check ranges."""
        if self.top_k < 1:
            raise ValueError(f"--top-k={self.top_k}: expected at least 1")
        if self.test_place and not self.place_bundles:
            raise ValueError("--test-place needs --place-bundles, which names the places")
        if self.index not in ("", "codes"):
            raise ValueError(f"--index={self.index}: expected codes, or nothing for exact searches")
        if self.index and self.place_bundles:
            raise ValueError("--index=codes is for speakers of one place, without --place-bundles")
        if self.gallery_out and (self.num_parts or self.cluster):
            raise ValueError(
                "--gallery-out: make the gallery without parts, then name it in their call"
            )


# What the arguments are; the last one is written.
INPUTS = (("model", "bundle"), ("enroll", "gallery"), ("test", "vectors"))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Search for all tests, a part of them, or all in parts."""
    if options.cluster:
        from dcaplda.bin.cluster.whole import run_parts

        return run_parts(TOOL, options, arguments, INPUTS, log)
    return do_part(
        options,
        lambda: work_of(TOOL.name, options, arguments, INPUTS, options.num_parts),
        arguments[-1],
        log,
        lambda: _search_part(options, arguments, log),
    )


def _search_part(options: Options, arguments: list[str], log: Log) -> int:
    """Read both sides, search, write."""
    from dcaplda.bin.common.likeness import (
        judge_tables,
        judge_voiceprints,
        refuse_strict,
        say_unknown,
    )
    from dcaplda.bin.common.sides import need_seconds, report_missing, tested_side
    from dcaplda.bin.common.utterances import load
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.search import needed_posterior, rank
    from dcaplda.runtime.tables.specifiers import check_output, writing

    model_dir, enrolled, test_table, target = arguments
    check_output(target)
    needed = needed_posterior(options.cost_miss, options.cost_fa)
    backend = Backend.load(model_dir, threads=options.threads or None)
    refuse_strict(options, backend.familiarity)
    if options.place_bundles:
        search, count, prober = _placed(options, enrolled, backend)
    elif options.index:
        (search, count), prober = _coded(options, enrolled, backend, log), backend
    else:
        blocks, prober = _speakers(options, enrolled, backend, log), backend
        count = sum(len(block.numbers) for block in blocks)

        def search(part: "NDArray[np.float32]") -> "list[Ranking]":
            return rank(backend, blocks, part, options.top_k, options.prior)

    source = tested_side(options, test_table)
    timed = backend.info.uses_durations
    if timed:
        need_seconds(source.durations, "--durations=utt2dur or --test-durations")
    tests = load(source, None, backend, timed, log)
    report_missing(tests.missing, LACKING, options.allow_missing, log)
    if not tests.ids:
        raise InputError(f"'{test_table}': no utterance is left to search for")
    judge_tables(options, backend.familiarity, [tests], log)
    prints = tests.voiceprints(prober)
    judge_voiceprints(options, prober, test_table, prints, log)
    first, last = options.cut(-(-len(prints) // TESTS_AT_ONCE))
    with writing(target) as stream:
        for begin in range(first * TESTS_AT_ONCE, last * TESTS_AT_ONCE, TESTS_AT_ONCE):
            part = prints[begin : begin + TESTS_AT_ONCE]
            rankings = search(part)
            names = tests.ids[begin : begin + TESTS_AT_ONCE]
            stream.write("".join(_lines(names, rankings, needed)).encode())
    say_unknown(backend.familiarity, log)
    done = min(last * TESTS_AT_ONCE, len(tests.ids)) - first * TESTS_AT_ONCE
    log.info(f"searched {count} speakers for each of {done} utterances")
    return 0


def _lines(names: list[str], rankings: "list[Ranking]", needed: float) -> Iterator[str]:
    import numpy as np

    from dcaplda.runtime.values import as_word

    for name, ranking in zip(names, rankings, strict=True):
        for place, match in enumerate(ranking.matches):
            verdict = ""
            if ranking.posterior is not None:
                verdict = " accept" if not place and ranking.posterior >= needed else " reject"
            # The shortest decimal that reads back as the same float32.
            yield f"{name} {as_word(match.speaker)} {np.float32(match.llr)!s}{verdict}\n"


def _coded(options: Options, enrolled: str, backend: "Backend", log: Log) -> "tuple[Search, int]":
    """A search by codes in a gallery, and its size."""
    from dcaplda.runtime.gallery.speakers import Gallery
    from dcaplda.runtime.tables.vectors import names_vectors

    if names_vectors(enrolled) or options.gallery_out:
        raise UsageError("--index=codes is for galleries; make one by --gallery-out first")
    gallery = Gallery.open(enrolled, backend, create=False, index=options.index)
    if not len(gallery):
        raise InputError(f"'{enrolled}': the gallery is empty")

    def search(part: "NDArray[np.float32]") -> "list[Ranking]":
        found = gallery.ranked(part, options.top_k, options.prior)
        unproved = [it.missed for it in found if not it.exact]
        if unproved:
            log.info(
                f"{len(unproved)} of {len(found)} searches are not proved to be exact; expected to "
                f"be left out of their top {options.top_k}: {sum(unproved):.2g} speakers in all"
            )
        return found

    return search, len(gallery)


def _placed(options: Options, enrolled: str, backend: "Backend") -> "tuple[Search, int, Backend]":
    """A search in a gallery of several places, its size, and what makes voiceprints of tests."""
    from dcaplda.bin.common.place_bundles import read_bundles
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.gallery.speakers import Gallery
    from dcaplda.runtime.tables.vectors import names_vectors
    from dcaplda.runtime.verification import Speaker

    if (
        names_vectors(enrolled)
        or options.spk2utt
        or options.enroll_voiceprints
        or options.gallery_out
    ):
        raise UsageError("--place-bundles is for galleries, which remember the place of speakers")
    bundles = read_bundles(options.place_bundles)
    if options.test_place and options.test_place not in bundles:
        raise UsageError(f"--test-place={options.test_place}: is none of {', '.join(bundles)}")
    places = {name: Backend.load(directory, threads=1) for name, directory in bundles.items()}
    gallery = Gallery.open(enrolled, backend, create=False, places=places)
    if not len(gallery):
        raise InputError(f"'{enrolled}': the gallery is empty")
    prober = places.get(options.test_place, backend)
    model = prober.info.fingerprint, prober.info.parent

    def search(part: "NDArray[np.float32]") -> "list[Ranking]":
        probes = [Speaker(row[None], (), *model) for row in part]
        return gallery.ranked(probes, options.top_k, options.prior)

    return search, len(gallery), prober


def _speakers(options: Options, enrolled: str, backend: "Backend", log: Log) -> "tuple[Block, ...]":
    """The enrolled speakers of a gallery file or of a table."""
    import numpy as np

    from dcaplda.runtime.gallery.blocks import Shape, VoiceprintBlocks
    from dcaplda.runtime.gallery.speakers import Gallery
    from dcaplda.runtime.tables.vectors import names_vectors

    if not names_vectors(enrolled):
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
    shape = Shape(backend.info.voiceprint_dim, np.dtype(np.float32), backend.ones)
    speakers = VoiceprintBlocks(enrolled, shape)
    rows = [(number + 1, name, made.tobytes()) for number, (name, made) in enumerate(named)]
    speakers.append(rows)
    return speakers.blocks


def _from_table(options: Options, enrolled: str, backend: "Backend", log: Log) -> "Named":
    """Ids of a table and their voiceprints."""
    from dcaplda.bin.common.sides import enrol, enrolled_side, need_seconds

    source = enrolled_side(options, enrolled)
    timed = backend.info.uses_durations and not options.enroll_voiceprints
    if timed:
        need_seconds(source.durations, "--durations=utt2dur or --enroll-durations")
    made = enrol(source, options, options.multi_enroll, LACKING, backend, timed, log)
    if not made.names:
        raise InputError(f"'{enrolled}': no speaker is left to search for")
    cuts = zip(made.offsets[:-1], made.offsets[1:], strict=True)
    return (
        (name, made.voiceprints[begin:end])
        for name, (begin, end) in zip(made.names, cuts, strict=True)
    )


TOOL = Tool("search-speakers", USAGE, Options, 4, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
