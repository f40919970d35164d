"""score-trials: log-likelihood ratios of a list of trials, with an exported model."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dcaplda.bin.cluster.options import Cluster
from dcaplda.bin.cluster.parts import Parts, do_part, work_of
from dcaplda.bin.common.option_groups import (
    Cohort,
    Decision,
    PlaceTables,
    TrialList,
    TrialSides,
    check_choice,
)
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dcaplda.bin.common.trial_sides import Sides
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.trials.bounds import Bounds
    from dcaplda.runtime.trials.lists import Trials

USAGE = """Score trials with an exported model.

Reads embeddings (Kaldi tables, npz, npy, HDF5, Parquet) of both sides and writes 'enroll test llr',
one line per trial in the order of the trials. The trials may have a label, which is ignored. An id
that is missing is an error unless --allow-missing is given. --cluster does the work in parts, on
a cluster or here, and after a failure the same command does what is missing (docs/scale.md).

Usage: score-trials [options] <model-dir> <enroll-rspecifier> <test-rspecifier> \
<trials-rxfilename> <scores-wxfilename>
e.g.: score-trials --durations=data/test/utt2dur exp/model scp:xvector.scp scp:xvector.scp \
data/test/trials exp/scores
 or: score-trials --places=utt2place --pool=scp:unlabelled.scp --durations=utt2dur exp/model \
scp:office.scp scp:phone.scp trials scores
 or: score-trials --spk2utt=data/enroll/spk2utt --durations=utt2dur exp/model \
scp:enroll.scp 'ark:gunzip -c test.ark.gz |' trials.gz - | gzip > scores.gz
 or: score-trials --cluster=slurm --nj=50 --cluster-options='--mem=4G --time=60' \
--durations=utt2dur exp/model scp:enroll.scp scp:test.scp trials exp/scores
See also: merge-parts, export-onnx, import-model, enroll-speakers, compute-durations, eval-scores
"""


@dataclass(frozen=True, kw_only=True)
class Options(Cluster, Parts, PlaceTables, Cohort, Decision, TrialList, TrialSides):
    """Options of score-trials."""

    output: str = option("llr", "llr, or posterior (needs --prior)")
    bound: str = option(
        "",
        "LLRs stay within LOW,HIGH or the bounds of a validation's JSON (eval-scores)",
        counts="file or value",
    )

    def check(self) -> None:
        """Check ranges and combinations."""
        check_choice(self, "output", ("llr", "posterior"))
        if self.prior is None and self.output == "posterior":
            raise ValueError("--output=posterior, --cost-miss and --cost-fa need --prior")
        if self.places and (self.score_norm or self.enroll_voiceprints):
            raise ValueError("--places takes embeddings, and no --score-norm")
        if self.places and self.multi_enroll not in ("auto", "joint"):
            raise ValueError(
                f"--places takes utterances together, not --multi-enroll={self.multi_enroll}"
            )
        if self.score_norm and (self.prior is not None or self.short == "zero" or self.bound):
            raise ValueError(
                "--score-norm gives scores that are not LLRs: no --prior, no --short=zero, "
                "no --bound; calibrate them first (calibrate-scores)"
            )


class _Stopwatch:
    """Says how long each stage took, at --verbose=1."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.start = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.log.debug(f"{stage} took {now - self.start:.3f} s")
        self.start = now


# What the arguments are; the last one is written.
INPUTS = (("model", "bundle"), ("enroll", "vectors"), ("test", "vectors"), ("trials", "table"))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Score all trials, a part of them, or all in parts."""
    if options.cluster:
        from dcaplda.bin.cluster.whole import run_parts

        return run_parts(TOOL, options, arguments, INPUTS, log)
    return do_part(
        options,
        lambda: work_of(TOOL.name, options, arguments, INPUTS, options.num_parts),
        arguments[-1],
        log,
        lambda: _score_part(options, arguments, log),
    )


def _score_part(options: Options, arguments: list[str], log: Log) -> int:
    """Read, compute voiceprints, compare, write."""
    if options.threads:
        os.environ.setdefault("POLARS_MAX_THREADS", str(options.threads))
    from dcaplda.bin.common.likeness import judge_tables, refuse_strict, say_unknown
    from dcaplda.bin.common.trial_sides import read_sides
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.tables.specifiers import check_output
    from dcaplda.runtime.trials.bounds import Bounds
    from dcaplda.runtime.trials.lists import read_trials

    model_dir, enroll_table, test_table, trials_source, target = arguments
    _check_stdin([enroll_table, test_table, trials_source])
    check_output(target)
    bounds = Bounds.named(options.bound) if options.bound else None
    watch = _Stopwatch(log)
    backend = Backend.load(model_dir, threads=options.threads or None)
    if bounds:
        bounds.check_model(backend.info.fingerprint)
    watch.lap("load model")
    trials = read_trials(trials_source, options.trials_form, options.columns())
    watch.lap("read trials")
    sides = read_sides(options, backend, enroll_table, test_table, trials, log)
    watch.lap("read tables")
    refuse_strict(options, backend.familiarity)
    judge_tables(
        options, backend.familiarity, (sides.enroll, sides.test), log, options.min_duration
    )
    scored = _score(options, backend, trials, sides, log, watch)
    if bounds:
        scored = _bounded(scored, bounds, log)
    _write(options, target, scored)
    watch.lap("write")
    counts = f"scored {len(scored.trials)} trials, {scored.skipped} skipped for missing ids"
    if options.min_duration:
        treated = " (LLR set to 0)" if options.short == "zero" else ""
        counts += f", {scored.n_short} with a segment under {options.min_duration:g} s{treated}"
    say_unknown(backend.familiarity, log)
    log.info(counts)
    return 0


def _bounded(scored: "_Scored", bounds: "Bounds", log: Log) -> "_Scored":
    """The same with LLRs within the bounds, and how many that changed."""
    llrs, n_below, n_above = bounds.applied(scored.llrs)
    source = f" of {bounds.place}" if bounds.place else ""
    log.info(
        f"bounded {n_below + n_above} of {len(llrs)} LLRs{source}: {n_below} were below "
        f"{bounds.low:.4g}, {n_above} above {bounds.high:.4g}"
    )
    return replace(scored, llrs=llrs)


def _check_stdin(names: list[str]) -> None:
    """Two different inputs cannot both be stdin; one table for both sides can."""
    if len({name for name in names if name == "-" or name.endswith(":-")}) > 1:
        raise UsageError("only one input can be read from standard input ('-')")


@dataclass(frozen=True)
class _Scored:
    """What came out: trials that were scored, their LLRs, and counts."""

    trials: "Trials"
    llrs: "NDArray[np.float32]"
    skipped: int
    n_short: int


def _score(
    options: Options,
    backend: "Backend",
    trials: "Trials",
    sides: "Sides",
    log: Log,
    watch: _Stopwatch,
) -> _Scored:
    from dcaplda.bin.common.likeness import judge_voiceprints
    from dcaplda.bin.common.sides import read_sessions
    from dcaplda.bin.common.trial_sides import match, short_trials

    begin, end = options.cut(len(trials))
    n_asked = end - begin
    model, row, there = match(trials, sides, options.allow_missing, log)
    if not there.all():
        # The part was cut from the whole list, so that parts line up whatever is left out.
        begin, end = int(there[:begin].sum()), int(there[:end].sum())
        trials, model, row = trials.take(there), model[there], row[there]
    short = short_trials(options.min_duration, options.short, sides, model, row)
    way = "joint" if options.places else options.multi_enroll
    sessions = read_sessions(options, way, sides.enroll, sides.models, backend, log)
    if options.places:
        from dcaplda.bin.common.placed import placed_llrs

        chosen = model[begin:end], row[begin:end]
        llrs = placed_llrs(options, backend, sides, chosen, log, sessions)
        watch.lap("compare")
        if options.short == "zero":
            llrs[short[begin:end]] = 0.0
        done = trials.take(slice(begin, end))
        return _Scored(done, llrs, n_asked - (end - begin), int(short[begin:end].sum()))
    enroll, test, groups = sides.voiceprints(backend, options.multi_enroll, sessions)
    judge_voiceprints(options, backend, sides.test.source.vectors, test, log)
    if sides.enroll is not sides.test:
        judge_voiceprints(options, backend, sides.enroll.source.vectors, enroll, log)
    if not sides.models.single:
        from dcaplda.runtime.several import resolved_way

        way = resolved_way(backend, options.multi_enroll)
        log.info(f"models of several utterances: {way}")
    watch.lap("voiceprints")
    with _progress(end - begin) as progress:
        llrs = backend.score_trials(
            enroll, test, model, row, groups=groups, part=(begin, end), progress=progress
        )
    watch.lap("compare")
    if options.score_norm:
        from dcaplda.bin.common.cohort import normalized, read_cohort

        cohort = read_cohort(options, backend, log)
        chosen = model[begin:end], row[begin:end]
        llrs = normalized(backend, cohort, options.top_n, (enroll, test, groups), chosen, llrs)
        log.info(f"normalized by a cohort of {len(cohort)}: calibrate before use as LLRs")
        watch.lap("normalize")
    if options.short == "zero":
        llrs[short[begin:end]] = 0.0
    done = trials.take(slice(begin, end))
    return _Scored(done, llrs, n_asked - (end - begin), int(short[begin:end].sum()))


@contextlib.contextmanager
def _progress(total: int) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar, if somebody is looking."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=" trials", unit_scale=True, leave=False) as bar:
        yield lambda done, _: bar.update(done - bar.n) and None


def _write(options: Options, target: str, scored: _Scored) -> None:
    import numpy as np

    from dcaplda.runtime.decision import bayes_threshold, posterior
    from dcaplda.runtime.trials.score_file import write_scores

    values, decisions = scored.llrs, None
    if options.prior is not None:
        threshold = bayes_threshold(options.prior, options.cost_miss, options.cost_fa)
        decisions = scored.llrs >= threshold
        if options.output == "posterior":
            values = posterior(scored.llrs, options.prior).astype(np.float32)
    write_scores(target, scored.trials, values, decisions)


TOOL = Tool("score-trials", USAGE, Options, 5, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
