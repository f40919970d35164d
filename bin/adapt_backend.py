"""adapt-backend: a bundle for a place, from utterances of it that nobody labelled."""

from dataclasses import dataclass

from dcaplda.bin.common.option_groups import ScpRoot
from dcaplda.bin.common.options import Log, Tool, run

USAGE = """Adapt a bundle to a new place (microphone, room, line, language) without labels.

Takes embeddings of anybody's utterances of that place: ten help, thirty help more, and several
people tell more than one. The result is a bundle like any other; voiceprints made with the first
one must be made again. The model must have been trained for it (model.joint = true).

Usage: adapt-backend [options] <bundle-dir> <unlabelled-rspecifier> <adapted-bundle-dir>
e.g.: adapt-backend exp/backend/bundle scp:data/office/xvector.scp exp/backend/office
      score-trials --durations=utt2dur exp/backend/office scp:enroll.scp scp:test.scp trials scores
See also: score-trials, enroll-speakers, export-onnx
"""


@dataclass(frozen=True, kw_only=True)
class Options(ScpRoot):
    """Options of adapt-backend."""


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, adapt, write."""
    from dcaplda.runtime.adaptation import adapt_bundle, bundle_info, write_adaptation
    from dcaplda.runtime.tables.vectors import read_vectors

    source, table, target = arguments
    info = bundle_info(source)
    pool = read_vectors(table, options.scp_root)
    for message in pool.skipped:
        log.warning(message)
    made = adapt_bundle(source, info, pool.matrix, pool.ids)
    write_adaptation(made, target)
    log.info(
        f"adapted with {made.utterances} utterances, worth {made.people:.1f} people heard once; "
        f"{100 * made.known:.0f} % of the place's offset is known"
    )
    log.info(f"its offset is {made.offset:.1f} times that of a usual place of the training")
    return 0


TOOL = Tool("adapt-backend", USAGE, Options, 3, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
