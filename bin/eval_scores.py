"""eval-scores: metrics, pictures and a report from score files and trial keys."""

import math
import os
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dcaplda.bin.common.option_groups import (
    Costs,
    FrameShift,
    Joined,
    ScoreColumn,
    Seed,
    Speakers,
    Threads,
    TrialList,
    check_not_negative,
)
from dcaplda.bin.common.options import Log, Tool, command, option, run
from dcaplda.bin.common.progress import Progress
from dcaplda.bin.common.version import version
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    from dcaplda.eval.comparison import Comparison
    from dcaplda.eval.differences import Difference
    from dcaplda.eval.evaluation import Work
    from dcaplda.eval.metrics.measure import Settings
    from dcaplda.eval.report.findings import Findings
    from dcaplda.eval.report.model_card import ModelCard
    from dcaplda.eval.results import Result
    from dcaplda.eval.sets import SetSpec, SystemSpec

USAGE = """Evaluate scores: EER, Cllr, DCF with their minima, intervals, conditions, pictures.

Trials are 'enroll test label' or VoxCeleb's 'label enroll test'; labels are target|nontarget,
tgt|imp, 1|0 or true|false. Scores are 'enroll test score', taken as log-likelihood ratios
(natural log). Both are joined by their ids. Several score files are systems side by side.
With one argument the file holds Kaldi's 'score label' lines, '-' being stdin.

Usage: eval-scores [options] <trials> <scores> [<scores> ...]
   or: eval-scores [options] --table=sets.toml
   or: ... | eval-scores [options] -
e.g.: eval-scores data/test/trials exp/scores
 or: eval-scores --names=plda,dca --utt2spk=data/test/utt2spk --utt2dur=data/test/utt2dur \\
--report=report.html data/test/trials exp/plda.scores exp/dca.scores
 or: eval-scores --table=sets.toml --against=accepted.json --fail-if-worse
 or: eval-scores --utt2spk=data/test/utt2spk --model=exp/bundle --validation=report.html \\
data/test/trials exp/scores
 or: printf '2.1 target\\n-3.0 nontarget\\n0.5 target\\n-0.2 nontarget\\n' | eval-scores -
See also: score-trials, docs/metrics.md, docs/validation.md
"""


@dataclass(frozen=True, kw_only=True)
class Options(Joined, ScoreColumn, TrialList, Seed, Costs, Speakers, FrameShift, Threads):
    """Options of eval-scores."""

    table: str = option("", "TOML file of [[set]] and [[system]], in place of the arguments")
    names: str = option("", "names of the systems, between commas (default: the file names)")
    set_name: str = option("", "name of the set (default: the trials' file name)")
    prior: list[str] = option([], "priors of a target trial, between commas (default: 0.5,0.01)")
    normalize_dcf: bool = option(True, "divide the DCF by that of the better blind answer")
    eer: str = option("rocch", "rocch (ROC convex hull) or kaldi (as compute-eer)")
    utt2spk: str = option("", "speakers: gives intervals by bootstrap over speakers")
    utt2dur: str = option("", "seconds of speech: gives results per pair of duration bins")
    utt2dom: str = option("", "domains: gives results per pair of domains")
    utt2sess: str = option("", "sessions, for --validation: which recordings are of one occasion")
    duration_bins: str = option("4,8,16,32", "seconds between the duration bins")
    bootstrap: int = option(1000, "bootstrap replicates; 0: no intervals")
    against: str = option("", "JSON file of an earlier evaluation: what got better or worse since")
    fail_if_worse: bool = option(False, "exit 1 if --against finds anything worse, or gone")
    baseline: str = option("", "system that the others' differences in Cllr are measured from")
    confidence: float = option(0.95, "confidence of the intervals")
    # Trials without a label say nothing here.
    trials_form: str = option("auto", "auto, enroll-test-label or label-enroll-test (VoxCeleb)")
    allow_duplicate: bool = option(False, "of a repeated trial or score the first counts")
    allow_unlabelled: bool = option(False, "trials without a label are left out")
    json: str = option("", "write JSON to a file; alone or '-': to stdout, no table", bare="-")
    csv: str = option("", "write CSV to a file; alone or '-': to stdout, no table", bare="-")
    validation: str = option("", "write a validation of one system for non-engineers (HTML, JSON)")
    report: str = option("", "write an HTML page with tables and pictures")
    plots: str = option("", "write the pictures as files into this directory")
    plot_format: str = option("pdf", "pdf, png or svg, for --plots")
    model: str = option("", "bundle directory of the first system, for the report's model card")
    title: str = option("Speaker verification scores", "title of the report")
    usable: float = option(
        0.05, "cost lost at the Bayes threshold up to which the report calls scores usable"
    )
    with_care: float = option(0.15, "the same for usable with care; 1: deciding without scores")

    def check(self) -> None:
        """Check ranges."""
        if self.bootstrap < 0:
            raise ValueError(f"--bootstrap={self.bootstrap}: expected 0 or more")
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"--confidence={self.confidence:g}: expected between 0 and 1")
        for name in ("usable", "with_care"):
            check_not_negative(self, name)
        if not self.usable <= self.with_care < math.inf:
            raise ValueError(
                f"--with-care={self.with_care:g}: expected no less than --usable={self.usable:g}"
            )
        if self.fail_if_worse and not self.against:
            raise ValueError("--fail-if-worse needs --against=FILE, an earlier --json=FILE")
        if self.plot_format not in ("pdf", "png", "svg"):
            raise ValueError(f"--plot-format={self.plot_format}: expected pdf, png or svg")


def _numbers(text: str, name: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(",") if word.strip())
    except ValueError:
        raise UsageError(f"--{name}={text}: expected numbers between commas") from None


def _settings(options: Options) -> "Settings":
    from dcaplda.eval.metrics.measure import Settings
    from dcaplda.eval.metrics.scalars import PAPER_PRIORS

    priors = _numbers(",".join(options.prior), "prior") or PAPER_PRIORS
    return Settings(priors, options.cost_miss, options.cost_fa, options.normalize_dcf, options.eer)


def _work(options: Options) -> "Work":
    from dcaplda.eval.evaluation import Work
    from dcaplda.eval.trials.conditions import check_edges
    from dcaplda.eval.trials.keys import Allowance
    from dcaplda.eval.trials.score_columns import column_number
    from dcaplda.runtime.trials.tiles import available_threads

    column = column_number(options.score_column)
    return Work(
        settings=_settings(options),
        allow=Allowance.of(*options.allowed()),
        form=options.trials_form,
        columns=options.columns(score=options.score_column if column is None else ""),
        score_column=column,
        n_replicates=options.bootstrap,
        confidence=options.confidence,
        seed=options.seed,
        edges=check_edges(_numbers(options.duration_bins, "duration-bins")),
        with_curves=bool(options.report or options.plots),
        threads=options.threads or available_threads(),
    )


def _plan(options: Options, arguments: list[str]) -> "tuple[list[SetSpec], list[SystemSpec]]":
    """The sets and systems that the command line asks for; none for `score label` lines."""
    from pathlib import Path

    from dcaplda.eval.sets import SetSpec, named_systems, read_table
    from dcaplda.eval.trials.conditions import SideFiles

    files = SideFiles(
        options.utt2spk,
        options.utt2dur,
        options.utt2dom,
        options.spk2utt,
        options.frame_shift,
        options.utt2sess,
    )
    if options.table:
        if arguments:
            raise UsageError("--table takes the place of <trials> and <scores>; give one of both")
        return read_table(options.table, files)
    if not arguments:
        raise UsageError("nothing to evaluate: give <trials> <scores>, '-' or --table; see --help")
    if len(arguments) == 1:
        for name in ("utt2spk", "utt2dur", "utt2dom", "utt2sess", "validation"):
            if getattr(options, name):
                raise UsageError(f"--{name} needs ids: give <trials> <scores>, not score lines")
        return [], []
    trials, *scores = arguments
    name = options.set_name or ("stdin" if trials == "-" else Path(trials).name)
    names = [word for word in options.names.split(",") if word]
    return [SetSpec(name, trials, "", files)], named_systems(scores, names)


def _destination(value: str) -> str:
    """Where `--json` or `--csv` goes: '' nowhere, '-' stdout, else a file."""
    if value.lower() in ("true", "t", "1", "-"):
        return "-"
    return "" if value.lower() in ("false", "f", "0") else value


def _check_outputs(options: Options) -> None:
    """Refuse what cannot be written before any work is done."""
    from dcaplda.runtime.tables.specifiers import check_output

    to_stdout = [name for name in ("json", "csv") if _destination(getattr(options, name)) == "-"]
    if len(to_stdout) > 1:
        raise UsageError("--json and --csv cannot both go to stdout; name a file for one")
    for name in ("json", "csv", "report", "validation"):
        value = getattr(options, name)
        if value:
            check_output(_destination(value) if name in ("json", "csv") else value)
    if options.validation and not options.validation.endswith((".html", ".htm")):
        raise UsageError(f"--validation={options.validation}: expected a name that ends in .html")


def _warn(results: "list[Result]", log: Log) -> None:
    for result in results:
        odd = {
            "have no label": result.counts.unlabelled,
            "are repeated": result.counts.duplicate,
            "have no score": result.counts.missing,
            "are not in the list": result.counts.extra,
        }
        for words, count in odd.items():
            if count:
                log.warning(f"{result.system} on {result.set}: {count} trials {words}; left out")


def _print(
    results: "list[Result]",
    found: "list[Difference]",
    since: "Comparison | None",
    options: Options,
    settings: "Settings",
) -> None:
    """Write the tables: text to stdout unless JSON or CSV goes there."""
    from dcaplda.eval.report import tables
    from dcaplda.runtime.tables.specifiers import writing

    quiet = False
    changes = since.differences if since else []
    made = {
        "json": lambda place: tables.json_text(results, settings, found, changes, place != "-"),
        "csv": lambda _: tables.csv_text(results, settings),
    }
    for name, text in made.items():
        place = _destination(getattr(options, name))
        if place:
            quiet |= place == "-"
            with writing(place) as stream:
                stream.write(text(place).encode())
    if quiet:
        return
    sys.stdout.write(tables.text_table(results, settings, options.confidence))
    for name, differences in ((options.baseline, found), (options.against, changes)):
        if differences:
            has_intervals = any(difference.intervals for difference in differences)
            sys.stdout.write(f"\nDifference from {name}")
            sys.stdout.write(" (* the interval leaves out zero)\n" if has_intervals else "\n")
            sys.stdout.write(tables.difference_table(differences, settings))
    for result in results:
        if result.parts:
            sys.stdout.write(f"\n{result.system} on {result.set}, by condition\n")
            sys.stdout.write(tables.condition_table(result, settings))


def _judged(since: "Comparison", options: Options, log: Log) -> int:
    """Say what changed since an earlier evaluation; the exit status."""
    for text in since.sentences(-1):
        log.info(text)
    for text in since.sentences(1):
        log.warning(text)
    for words, places in (
        ("was evaluated then and not now", since.gone),
        ("has no intervals: other people, another seed, or no --utt2spk", since.unpaired),
    ):
        if places:
            more = f" and {len(places) - 1} more" if len(places) > 1 else ""
            log.warning(f"{places[0]}{more} {words}")
    log.info(f"against {options.against}: {since.summary(options.confidence)}")
    if not options.fail_if_worse or not (since.changed(1) or since.gone or since.unpaired):
        return 0
    log.error(f"worse than {options.against}, or not comparable with it (--fail-if-worse)")
    return 1


def _set_threads(options: Options) -> None:
    """The threads are ours: those of numpy's library would wait for one another."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if options.threads:
        os.environ.setdefault("POLARS_MAX_THREADS", str(options.threads))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Evaluate every set, then write tables, pictures and the report."""
    _set_threads(options)
    _check_outputs(options)
    sets, systems = _plan(options, arguments)
    work = _work(options)
    pages = options.report or options.plots or options.validation
    cards = _cards(options, systems) if pages else {}
    maker = None
    if options.validation:
        from dcaplda.eval.validation.making import Maker

        card = cards.get(systems[0].name) if systems else None
        maker = Maker(sets, systems, card, work, options.table)
        work = replace(work, examine=maker.examine)

    from dcaplda.eval.comparison import compare, read_earlier
    from dcaplda.eval.differences import differences
    from dcaplda.eval.evaluation import evaluate, evaluate_lines
    from dcaplda.eval.results import averages

    earlier = read_earlier(options.against) if options.against else {}
    if not sets:
        results = [evaluate_lines(arguments[0], work)]
    else:
        with Progress(len(sets) * len(systems) * work.steps, "evaluation", log) as progress:
            results = evaluate(sets, systems, replace(work, advance=progress.advance))
    _warn(results, log)
    means = averages(results, work.confidence)
    found: list[Difference] = []
    if options.baseline:
        found = differences(results + means, options.baseline, options.confidence)
    since = None
    if options.against:
        since = compare(results + means, earlier, options.against, options.confidence)
    _print(results + means, found, since, options, work.settings)
    if options.plots or options.report:
        from dcaplda.eval.report.findings import Findings

        references = frozenset(system.name for system in systems if system.reference)
        _draw(Findings(results, means, work, cards, found, references), options, log)
    if maker:
        title = options.title if options.title != Options().title else ""
        line = command(TOOL, options, arguments)
        written = maker.write(options.validation, results, title, line, version())
        log.info(f"wrote the validation {' and '.join(written)}")
    return _judged(since, options, log) if since else 0


def _cards(options: Options, systems: "list[SystemSpec]") -> "dict[str, ModelCard]":
    """What the bundles of the systems say; --model is that of the first."""
    from dcaplda.eval.report.model_card import read_card

    bundles = {system.name: system.model for system in systems if system.model}
    if options.model:
        bundles[systems[0].name if systems else "scores"] = options.model
    return {name: read_card(place) for name, place in bundles.items()}


def _draw(findings: "Findings", options: Options, log: Log) -> None:
    """Pictures as files, and the report."""
    if options.plots:
        from dcaplda.eval.report.pictures import Gallery

        n_files = Gallery(findings).write_files(options.plots, options.plot_format)
        log.info(f"wrote {n_files} pictures to {options.plots}")
    if options.report:
        from dcaplda.eval.page.scores_page import write_scores_page
        from dcaplda.eval.verdict.costs import Limits

        limits = Limits(options.usable, options.with_care)
        write_scores_page(options.report, findings, limits, options.title)
        log.info(f"wrote the report {options.report}")


TOOL = Tool("eval-scores", USAGE, Options, (0, 1000), body, writes_last=False)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
