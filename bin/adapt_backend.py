"""adapt-backend: a bundle for a place, from utterances of it that nobody labelled."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.arguments import need
from dcaplda.bin.common.option_groups import FrameShift, ScpRoot, Strict, check_not_negative
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import InputError, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dcaplda.runtime.bundle.manifest import ModelInfo
    from dcaplda.runtime.surveys.place import PlaceReport
    from dcaplda.runtime.tables.vectors import VectorTable

USAGE = """Adapt a bundle to a new place (microphone, room, line, language) without labels.

Takes embeddings of anybody's utterances of that place: ten help, thirty help more, and several
people tell more than one. The result is a bundle like any other; voiceprints made with the first
one must be made again. The model must have been trained for it (model.joint = true).

--report=place.html tells what the place looks like: how far it lies from training, whether it is
one place or several, and what to do. --from=kaldi adapts the PLDA of a Kaldi backend as
ivector-adapt-plda does and writes the bundle that import-model makes of it.

Usage: adapt-backend [options] <bundle-dir> <unlabelled-rspecifier> <adapted-bundle-dir>
   or: adapt-backend --from=kaldi --plda=<file> [options] <unlabelled-rspecifier> <bundle-dir>
e.g.: adapt-backend exp/backend/bundle scp:data/office/xvector.scp exp/backend/office
      score-trials --durations=utt2dur exp/backend/office scp:enroll.scp scp:test.scp trials scores
 or: adapt-backend --from=kaldi --plda=plda --transform=transform.mat --mean=mean.vec \
scp:data/office/xvector.scp exp/office
See also: score-trials, enroll-speakers, export-onnx, import-model
"""
KALDI = "--from=kaldi"


@dataclass(frozen=True, kw_only=True)
class Options(Strict, FrameShift, ScpRoot):
    """Options of adapt-backend."""

    report: str = option("", "HTML page: what the place looks like and what to do")
    report_text: str = option("", "the same as text ('-': stdout)")
    durations: str = option(
        "", "seconds of speech of the utterances (utt2dur), for the report and the manifest"
    )
    from_: str = option("", "kaldi: adapt a Kaldi backend; left out, a bundle")
    plda: str = option("", "a PLDA of others: the model, in Kaldi's format")
    transform: str = option("", "kaldi: the LDA (transform.mat); left out, there is none")
    mean: str = option(
        "", "a PLDA of others: the global mean (mean.vec); left out, none is subtracted"
    )
    within_covar_scale: float = option(0.3, "kaldi: as that option of ivector-adapt-plda")
    between_covar_scale: float = option(0.7, "kaldi: as that option of ivector-adapt-plda")
    mean_diff_scale: float = option(1.0, "kaldi: as that option of ivector-adapt-plda")
    normalize_input: bool = option(True, "kaldi: ivector-normalize-length before the PLDA")
    normalize_length: bool = option(True, "kaldi: as that option of ivector-plda-scoring")
    simple_length_normalization: bool = option(
        False, "kaldi: as that option of ivector-plda-scoring"
    )

    def check(self) -> None:
        """Check ranges."""
        for name in ("within_covar_scale", "between_covar_scale", "mean_diff_scale"):
            check_not_negative(self, name)
            if getattr(self, name) == float("inf"):
                raise ValueError(f"--{name.replace('_', '-')}=inf: expected a number")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Choose what is adapted."""
    if options.from_ == "kaldi":
        return _kaldi(options, arguments, log)
    if options.from_:
        raise UsageError(f"--from={options.from_}: expected kaldi, or nothing for a bundle")
    if options.plda or options.transform or options.mean:
        raise UsageError(f"--plda, --transform and --mean go with {KALDI}")
    return _bundle(options, arguments, log)


def _bundle(options: Options, arguments: list[str], log: Log) -> int:
    """Read, describe if asked to, adapt, write."""
    from dcaplda.runtime.adaptation import adapt_bundle, write_adaptation
    from dcaplda.runtime.bundle.manifest import read_info
    from dcaplda.runtime.extractors.agreement import agree_on_table
    from dcaplda.runtime.extractors.note import extractor_of

    need(USAGE, 0, arguments)
    source, table, target = arguments
    info = read_info(source)
    if os.path.realpath(source) == os.path.realpath(target):
        raise UsageError(f"{target}: is the bundle to be adapted; write to another directory")
    pool = _read(table, options, log)
    known = extractor_of(info.manifest, f"{source}/model.json")
    agree_on_table(known, table, options.scp_root, log.warning)
    seconds = _seconds(options, pool)
    _judge(options, info, table, pool, seconds, log)
    # First, as it also tells why a pool cannot be adapted with.
    _describe(options, source, table, pool, seconds, log)
    made = adapt_bundle(source, info, pool.matrix, pool.ids, seconds)
    write_adaptation(made, target)
    log.info(
        f"adapted with {made.utterances} utterances, worth {made.people:.1f} people heard once; "
        f"{100 * made.known:.0f} % of the place's offset is known"
    )
    if made.trained is not None:
        log.info(f"the utterances are of a place that training knew: {made.trained}")
    if made.seconds is not None:
        total, least, most = made.seconds
        log.info(f"{total:.0f} s of speech, {least:.1f} to {most:.1f} s per utterance")
    return 0


def _judge(
    options: Options,
    info: "ModelInfo",
    table: str,
    pool: "VectorTable",
    seconds: "NDArray[np.float64] | None",
    log: Log,
) -> None:
    """Say, or refuse, what cannot be right: a wrong pool makes a place that does not exist."""
    from dcaplda.bin.common.likeness import judged_vectors, refuse_strict, settle
    from dcaplda.runtime.familiarity import read_familiarity
    from dcaplda.runtime.surveys.mistakes import look_at_seconds

    if pool.ids and pool.matrix.shape[1] != info.embedding_dim:
        return  # the adaptation says so
    known = read_familiarity(info.manifest, "model.json")
    refuse_strict(options, known)
    found = judged_vectors(table, pool.matrix, known)
    if seconds is not None and len(seconds):
        found.append((options.durations, look_at_seconds(seconds, known)))
    settle(options, found, log)


def _describe(
    options: Options,
    source: str,
    table: str,
    pool: "VectorTable",
    seconds: "NDArray[np.float64] | None",
    log: Log,
) -> None:
    """Say what to do about a place, and write the report where one is asked for."""
    from dcaplda.runtime.adaptation import joint_of
    from dcaplda.runtime.bundle.manifest import read_info
    from dcaplda.runtime.surveys.place import AVOID, COLLECT, describe_place, text, verdict
    from dcaplda.runtime.tables.specifiers import writing

    info = read_info(source)
    joint = joint_of(source, info)
    if joint is None or joint.scorer.known > 0 or not pool.ids:
        return  # the adaptation says why
    report = describe_place(joint.scorer, info, pool.matrix, seconds, pool.ids)
    lines = text(report)
    if options.report:
        _write_page(options.report, report, table)
    if options.report_text:
        with writing(options.report_text) as stream:
            stream.write("".join(f"{line}\n" for line in lines).encode())
    judged = verdict(report)
    say = log.warning if judged.action in (COLLECT, AVOID) else log.info
    say(f"{judged.headline}. {' '.join(judged.reasons)}")
    for line in lines[1 + len(judged.reasons) :] if options.report or options.report_text else ():
        log.info(line)


def _write_page(path: str, report: "PlaceReport", table: str) -> None:
    from dcaplda.eval.report.place_page import PlacePage, Scale, write_place_page
    from dcaplda.runtime.surveys.place import LITTLE, NEAR, WIDE, rows, verdict

    judged = verdict(report)
    offset_marks = [(NEAR, "near"), (1.0, "usual"), (report.far, "too far")]
    scales = [
        Scale(name="offset", value=report.offset, marks=offset_marks),
        Scale(name="scatter", value=report.scatter, marks=[(1.0, "people"), (WIDE, "too wide")]),
        Scale(name="known of the offset", value=report.known, marks=[(LITTLE, "wanted")]),
    ]
    page = PlacePage(
        title=f"Place of {table}",
        action=judged.action,
        headline=judged.headline,
        reasons=judged.reasons,
        scales=scales,
        rows=[(row.name, row.value, row.meaning) for row in rows(report)],
    )
    write_place_page(path, page)


def _seconds(options: Options, pool: "VectorTable") -> "NDArray[np.float64] | None":
    """Seconds of every utterance, where durations are given."""
    import numpy as np

    from dcaplda.runtime.tables.text_tables import read_durations
    from dcaplda.runtime.values import check_seconds

    if not options.durations:
        return None
    table = read_durations(options.durations, options.frame_shift)
    missing = [name for name in pool.ids if name not in table]
    if missing:
        raise InputError(
            f"'{options.durations}': {len(missing)} of {len(pool.ids)} utterances have no "
            f"duration, the first is '{missing[0]}'; complete the table, or leave --durations out"
        )
    seconds = {name: table[name] for name in pool.ids}
    check_seconds(seconds, f"'{options.durations}'")
    return np.array(list(seconds.values()), np.float64)


def _kaldi(options: Options, arguments: list[str], log: Log) -> int:
    """Adapt a PLDA of Kaldi's and write its bundle."""
    from dcaplda.export.importers.kaldi import read_backend
    from dcaplda.export.importers.kaldi_adapt import Scales, adapted_backend
    from dcaplda.export.importers.kaldi_bundle import export_backend

    if not options.plda:
        raise UsageError(f"{KALDI} takes --plda=<file>, <unlabelled-rspecifier> and <bundle-dir>")
    need(USAGE, 1, arguments)
    if options.strict:
        raise UsageError(f"--strict is for bundles, which tell what training saw, not for {KALDI}")
    if options.report or options.report_text:
        raise UsageError(f"--report and --report-text are for bundles, not for {KALDI}")
    table, target = arguments
    normalization = "simple" if options.simple_length_normalization else "plda"
    backend = read_backend(
        options.plda,
        options.transform,
        options.mean,
        normalize_input=options.normalize_input,
        normalization=normalization if options.normalize_length else "none",
    )
    pool = _read(table, options, log)
    scales = Scales(
        within=options.within_covar_scale,
        between=options.between_covar_scale,
        mean_diff=options.mean_diff_scale,
    )
    made = adapted_backend(backend, pool.matrix, scales, pool.ids)
    if len(pool.ids) <= backend.dim:
        log.warning(
            f"{len(pool.ids)} vectors do not fill the {backend.dim} dimensions of the PLDA; their "
            "covariance is of few directions"
        )
    worst = export_backend(made, target)
    log.info(
        f"adapted a PLDA of {backend.dim} dimensions with {len(pool.ids)} vectors to {target}; "
        f"graphs equal float64 arithmetic within {worst:.1e}"
    )
    return 0


def _read(table: str, options: Options, log: Log) -> "VectorTable":
    from dcaplda.runtime.tables.vectors import read_vectors

    pool = read_vectors(table, options.scp_root)
    for message in pool.skipped:
        log.warning(message)
    return pool


TOOL = Tool("adapt-backend", USAGE, Options, (2, 3), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
