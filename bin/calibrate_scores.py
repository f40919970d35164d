"""calibrate-scores: any system's scores become log-likelihood ratios."""

import os
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.arguments import need
from dcaplda.bin.common.option_groups import Joined, ScoreColumn, SideDurations, Speakers
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    from dcaplda.eval.score_calibration import Calibration, DurationCalibration

USAGE = """Calibrate scores by linear logistic regression: llr = alpha * score + beta.

With three arguments it fits alpha and beta on labelled trials and writes them to a small JSON
file. With --apply it passes a score file through such a calibration. With --bundle it writes the
bundle that gave the scores with the calibration inside, so that it gives LLRs itself; there, with
--durations, alpha and beta may depend on the seconds of speech of both sides. For scores that are
not LLRs: cosine scores, a PLDA of others, or what score-trials --score-norm writes (the last not
into a bundle). It holds as far as the scores to come are like those it was fitted on.

Usage: calibrate-scores [options] <trials> <scores> <calibration.json>
   or: calibrate-scores --apply=<calibration.json> <scores-in> <scores-out>
   or: calibrate-scores --bundle=<bundle-dir> [options] <trials> <scores> <new-bundle-dir>
e.g.: calibrate-scores --prior=0.01 data/dev/trials exp/dev.scores exp/calibration.json
      calibrate-scores --apply=exp/calibration.json exp/test.scores exp/test.llrs
      calibrate-scores --bundle=exp/imported --durations=data/dev/utt2dur data/dev/trials \
        exp/dev.scores exp/calibrated
See also: import-model, score-trials, eval-scores
"""


@dataclass(frozen=True, kw_only=True)
class Options(Speakers, SideDurations, ScoreColumn, Joined):
    """Options of calibrate-scores."""

    apply: str = option("", "calibration to apply, in place of fitting one")
    bundle: str = option("", "bundle that gave the scores; it is written anew, calibrated")
    prior: float = option(0.01, "prior of a target trial in the cross-entropy that is minimized")

    def check(self) -> None:
        """Durations change a bundle, not a score file."""
        if self.score_column and self.column() is None:
            raise ValueError(f"--score-column={self.score_column}: expected its number, from 1")
        if any(self.tables()) and not self.bundle:
            raise ValueError("--durations needs --bundle: a score file does not carry them")
        if any(self.tables()) and not all(self.tables()):
            raise ValueError("durations are needed of both sides: give --durations, or both others")
        if self.spk2utt and not any(self.tables()):
            raise ValueError("--spk2utt needs --durations, for the seconds of its models")
        if self.apply and self.bundle:
            raise ValueError("--apply and --bundle: one or the other")

    def column(self) -> int | None:
        """Of the score, counted from 1; None: where it can only be."""
        from dcaplda.eval.trials.score_columns import column_number

        return column_number(self.score_column)

    def tables(self) -> tuple[str, str]:
        """Of seconds, of both sides."""
        return self.enroll_durations or self.durations, self.test_durations or self.durations


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Fit, or apply."""
    from dcaplda.eval import score_calibration
    from dcaplda.eval.trials.keys import Allowance
    from dcaplda.runtime.tables.specifiers import check_output, writing

    if options.bundle:
        return _into_bundle(options, arguments, log)
    check_output(arguments[-1])
    if options.apply:
        need(USAGE, 1, arguments)
        calibration = score_calibration.load(options.apply)
        with writing(arguments[1]) as stream:
            count = score_calibration.apply(calibration, arguments[0], stream, options.column())
        log.info(f"calibrated {count} scores")
        return 0
    need(USAGE, 0, arguments)
    trials, scores, target = arguments
    allow, column = Allowance.of(*options.allowed()), options.column()
    calibration = score_calibration.fit(trials, scores, options.prior, allow, column)
    score_calibration.save(calibration, target)
    log.info(_words(calibration))
    return 0


def _words(found: "Calibration | DurationCalibration") -> str:
    alpha = getattr(found, "alpha", None)
    how = "alpha and beta by durations" if alpha is None else f"alpha {alpha:.5g}"
    if alpha is not None:
        how += f", beta {getattr(found, 'beta', 0.0):.5g}"
    return (
        f"{how} from {found.n_target} target and {found.n_nontarget} nontarget trials; "
        f"Cllr at {found.prior:g} there {found.cllr:.4f}"
    )


def _into_bundle(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.eval import score_calibration
    from dcaplda.eval.trials.keys import Allowance
    from dcaplda.export.calibrated import ScoreMap, write_calibrated
    from dcaplda.runtime.bundle.writing import checked_place

    need(USAGE, 2, arguments)
    trials, scores, target = arguments
    if os.path.realpath(options.bundle) == os.path.realpath(target):
        raise UsageError(f"{target}: is the bundle to be calibrated; write to another directory")
    checked_place(target)
    allow, column = Allowance.of(*options.allowed()), options.column()
    found: Calibration | DurationCalibration
    if any(options.tables()):
        found = score_calibration.fit_with_durations(
            trials, scores, options.prior, allow, options.tables(), column, options.spk2utt
        )
        score_map = ScoreMap(**asdict(found.terms))
        told = {**asdict(found), **asdict(found.terms)}
        told.pop("terms")
    else:
        found = score_calibration.fit(trials, scores, options.prior, allow, column)
        score_map = ScoreMap((found.alpha,), (found.beta,))
        told = asdict(found)
    write_calibrated(options.bundle, target, score_map, told)
    log.info(f"{_words(found)}; the bundle is {target}")
    return 0


TOOL = Tool("calibrate-scores", USAGE, Options, (2, 3), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
