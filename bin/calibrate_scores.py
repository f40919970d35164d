"""calibrate-scores: any system's scores become log-likelihood ratios."""

from dataclasses import dataclass

from dcaplda.bin.common.arguments import need
from dcaplda.bin.common.option_groups import Joined
from dcaplda.bin.common.options import Log, Tool, option, run

USAGE = """Calibrate scores by linear logistic regression: llr = alpha * score + beta.

With three arguments it fits alpha and beta on labelled trials and writes them to a small JSON
file. With --apply it passes a score file through such a calibration. For scores that are not
LLRs: cosine scores, or what score-trials --score-norm writes. It holds as far as the scores to
come are like those it was fitted on.

Usage: calibrate-scores [options] <trials> <scores> <calibration.json>
   or: calibrate-scores --apply=<calibration.json> <scores-in> <scores-out>
e.g.: calibrate-scores --prior=0.01 data/dev/trials exp/dev.scores exp/calibration.json
      calibrate-scores --apply=exp/calibration.json exp/test.scores exp/test.llrs
See also: score-trials, eval-scores
"""


@dataclass(frozen=True, kw_only=True)
class Options(Joined):
    """Options of calibrate-scores."""

    apply: str = option("", "calibration to apply, in place of fitting one")
    prior: float = option(0.01, "prior of a target trial in the cross-entropy that is minimized")


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Fit, or apply."""
    from dcaplda.eval import score_calibration
    from dcaplda.eval.trials.keys import Allowance
    from dcaplda.runtime.tables.specifiers import check_output, writing

    check_output(arguments[-1])
    if options.apply:
        need(USAGE, 1, arguments)
        calibration = score_calibration.load(options.apply)
        with writing(arguments[1]) as stream:
            count = score_calibration.apply(calibration, arguments[0], stream)
        log.info(f"calibrated {count} scores")
        return 0
    need(USAGE, 0, arguments)
    trials, scores, target = arguments
    calibration = score_calibration.fit(
        trials, scores, options.prior, Allowance.of(*options.allowed())
    )
    score_calibration.save(calibration, target)
    log.info(
        f"alpha {calibration.alpha:.5g}, beta {calibration.beta:.5g} from "
        f"{calibration.n_target} target and {calibration.n_nontarget} nontarget trials; "
        f"Cllr at {calibration.prior:g} there {calibration.cllr:.4f}"
    )
    return 0


TOOL = Tool("calibrate-scores", USAGE, Options, (2, 3), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
