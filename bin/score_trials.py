"""score-trials: log-likelihood ratios of a list of trials, with an exported model."""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.options import CommonOptions, Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dcaplda.bin.common.trial_sides import Sides
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.trials.lists import Trials

USAGE = """Score trials with an exported model.

Reads embeddings (Kaldi tables) of both sides and writes 'enroll test llr', one line per trial
in the order of the trials. The trials may have a label, which is ignored. An id that is
missing is an error unless --allow-missing is given.

Usage: score-trials [options] <model-dir> <enroll-rspecifier> <test-rspecifier> \
<trials-rxfilename> <scores-wxfilename>
e.g.: score-trials --durations=data/test/utt2dur exp/model scp:xvector.scp scp:xvector.scp \
data/test/trials exp/scores
 or: score-trials --spk2utt=data/enroll/spk2utt --durations=utt2dur exp/model \
scp:enroll.scp 'ark:gunzip -c test.ark.gz |' trials.gz - | gzip > scores.gz
See also: export-onnx, import-model, enroll-speakers, compute-durations, eval-scores
"""


@dataclass(frozen=True, kw_only=True)
class Options(CommonOptions):
    """Options of score-trials."""

    durations: str = option("", "seconds of speech of both sides (utt2dur)")
    enroll_durations: str = option("", "seconds of speech of the enrolment side")
    test_durations: str = option("", "seconds of speech of the test side")
    frame_shift: float = option(
        0.0, "if above 0, durations are numbers of frames (utt2num_frames) of so many seconds"
    )
    spk2utt: str = option("", "enrolment models of several utterances: 'model utt1 utt2 ...'")
    multi_enroll: str = option(
        "scores", "models of several utterances: mean of the scores, or of the voiceprints' inputs"
    )
    num_utts: str = option("", "utterances behind each enrolment vector (imported Kaldi models)")
    enroll_voiceprints: bool = option(
        False, "the enrolment table holds voiceprints of enroll-speakers, not embeddings"
    )
    scp_root: str = option("", "directory where relative file names in an scp start")
    trials_form: str = option(
        "auto", "auto, enroll-test, enroll-test-label or label-enroll-test (VoxCeleb)"
    )
    enroll_column: str = option("", "column of the enrolment id, for trials with a header line")
    test_column: str = option("", "column of the test id, for trials with a header line")
    allow_missing: bool = option(False, "leave out trials whose ids are missing, and count them")
    min_duration: float = option(0.0, "segments with less seconds of speech count as short")
    short: str = option("error", "what a short segment means: error, zero (LLR 0) or score")
    prior: float | None = option(None, "prior of a target trial: adds a column accept or reject")
    cost_miss: float = option(1.0, "cost of a miss, with --prior")
    cost_fa: float = option(1.0, "cost of a false acceptance, with --prior")
    output: str = option("llr", "llr, or posterior (needs --prior)")
    score_norm: str = option("", "normalize by a cohort: s (S-norm) or as (AS-Norm1); not LLRs")
    cohort: str = option("", "rspecifier of the cohort's embeddings, for --score-norm")
    cohort_durations: str = option("", "seconds of speech of the cohort")
    top_n: int = option(0, "highest cohort scores that AS-Norm1 takes for each side")
    part: int = option(1, "which of --num-parts slices of the trials to score, from 1")
    num_parts: int = option(1, "cat of the parts' score files equals the whole, byte for byte")
    threads: int = option(0, "threads to use (default: all cores)")

    def __post_init__(self) -> None:
        """Check ranges and combinations."""
        choices = {
            "multi_enroll": ("scores", "voiceprints"),
            "short": ("error", "zero", "score"),
            "output": ("llr", "posterior"),
        }
        for name, allowed in choices.items():
            value = getattr(self, name)
            if value not in allowed:
                shown = f"--{name.replace('_', '-')}={value}"
                raise ValueError(f"{shown}: expected {' or '.join(allowed)}")
        if self.num_parts < 1 or not 1 <= self.part <= self.num_parts:
            raise ValueError(f"--part={self.part} --num-parts={self.num_parts}: parts count from 1")
        if self.prior is None and (
            self.output == "posterior" or (self.cost_miss, self.cost_fa) != (1.0, 1.0)
        ):
            raise ValueError("--output=posterior, --cost-miss and --cost-fa need --prior")
        if self.threads < 0 or not self.min_duration >= 0 or not self.frame_shift >= 0:
            raise ValueError("--threads, --min-duration and --frame-shift cannot be negative")
        if self.score_norm or self.cohort or self.top_n:
            from dcaplda.bin.common.cohort import check_options

            check_options(self)
        if self.num_utts and self.spk2utt:
            raise ValueError("--num-utts is for averaged vectors, --spk2utt for single ones")
        if self.enroll_voiceprints and (self.num_utts or self.multi_enroll == "voiceprints"):
            raise ValueError(
                "--enroll-voiceprints: averaging and --num-utts belong to enroll-speakers"
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


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Read, compute voiceprints, compare, write."""
    if options.threads:
        os.environ.setdefault("POLARS_MAX_THREADS", str(options.threads))
    from dcaplda.bin.common.trial_sides import read_sides
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.tables.specifiers import check_output
    from dcaplda.runtime.trials.lists import read_trials

    model_dir, enroll_table, test_table, trials_source, target = arguments
    _check_stdin([enroll_table, test_table, trials_source])
    check_output(target)
    watch = _Stopwatch(log)
    backend = Backend.load(model_dir, threads=options.threads or None)
    watch.lap("load model")
    trials = read_trials(
        trials_source, options.trials_form, options.enroll_column, options.test_column
    )
    watch.lap("read trials")
    sides = read_sides(options, backend, enroll_table, test_table, trials, log)
    watch.lap("read tables")
    scored = _score(options, backend, trials, sides, log, watch)
    _write(options, target, scored)
    watch.lap("write")
    counts = f"scored {len(scored.trials)} trials, {scored.skipped} skipped for missing ids"
    if options.min_duration:
        treated = " (LLR set to 0)" if options.short == "zero" else ""
        counts += f", {scored.n_short} with a segment under {options.min_duration:g} s{treated}"
    log.info(counts)
    return 0


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
    from dcaplda.bin.common.trial_sides import match, short_trials

    begin, end = (len(trials) * k // options.num_parts for k in (options.part - 1, options.part))
    n_asked = end - begin
    model, row, there = match(trials, sides, options.allow_missing, log)
    if not there.all():
        # The part was cut from the whole list, so that parts line up whatever is left out.
        begin, end = int(there[:begin].sum()), int(there[:end].sum())
        trials, model, row = trials.take(there), model[there], row[there]
    short = short_trials(options.min_duration, options.short, sides, model, row)
    enroll, test, groups = sides.voiceprints(backend, options.multi_enroll)
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
