"""eval-scores: metrics, pictures and a report from score files and trial keys."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dcaplda.bin.common.option_groups import (
    Costs,
    FrameShift,
    Joined,
    Seed,
    Speakers,
    TrialList,
)
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    from dcaplda.eval.evaluation import Work
    from dcaplda.eval.metrics.measure import Settings
    from dcaplda.eval.report.model_card import ModelCard
    from dcaplda.eval.report.pictures import Gallery
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
 or: printf '2.1 target\\n-3.0 nontarget\\n0.5 target\\n-0.2 nontarget\\n' | eval-scores -
See also: score-trials, docs/metrics.md
"""


@dataclass(frozen=True, kw_only=True)
class Options(Joined, TrialList, Seed, Costs, Speakers, FrameShift):
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
    duration_bins: str = option("4,8,16,32", "seconds between the duration bins")
    bootstrap: int = option(1000, "bootstrap replicates; 0: no intervals")
    baseline: str = option("", "system that the others' differences in Cllr are measured from")
    confidence: float = option(0.95, "confidence of the intervals")
    # Trials without a label say nothing here.
    trials_form: str = option("auto", "auto, enroll-test-label or label-enroll-test (VoxCeleb)")
    score_column: str = option("", "column of the score, if not a usual name")
    allow_duplicate: bool = option(False, "of a repeated trial or score the first counts")
    allow_unlabelled: bool = option(False, "trials without a label are left out")
    json: str = option("", "write JSON to a file; alone or '-': to stdout, no table", bare="-")
    csv: str = option("", "write CSV to a file; alone or '-': to stdout, no table", bare="-")
    report: str = option("", "write an HTML page with tables and pictures")
    plots: str = option("", "write the pictures as files into this directory")
    plot_format: str = option("pdf", "pdf, png or svg, for --plots")
    model: str = option("", "bundle directory of the first system, for the report's model card")
    title: str = option("Speaker verification scores", "title of the report")

    def check(self) -> None:
        """Check ranges."""
        if self.bootstrap < 0:
            raise ValueError(f"--bootstrap={self.bootstrap}: expected 0 or more")
        if not 0.0 < self.confidence < 1.0:
            raise ValueError(f"--confidence={self.confidence:g}: expected between 0 and 1")
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


def _bar(steps: Iterable[int], label: str) -> Iterable[int]:
    """A progress bar, on a terminal only."""
    if not sys.stderr.isatty():
        return steps
    from tqdm import tqdm

    return tqdm(steps, desc=f"bootstrap {label}", leave=False)


def _work(options: Options) -> "Work":
    from dcaplda.eval.evaluation import Work
    from dcaplda.eval.trials.conditions import check_edges
    from dcaplda.eval.trials.keys import Allowance

    return Work(
        settings=_settings(options),
        allow=Allowance.of(*options.allowed()),
        form=options.trials_form,
        columns=options.columns(score=options.score_column),
        n_replicates=options.bootstrap,
        confidence=options.confidence,
        seed=options.seed,
        edges=check_edges(_numbers(options.duration_bins, "duration-bins")),
        with_curves=bool(options.report or options.plots),
        bar=_bar,
    )


def _plan(options: Options, arguments: list[str]) -> "tuple[list[SetSpec], list[SystemSpec]]":
    """The sets and systems that the command line asks for; none for `score label` lines."""
    from pathlib import Path

    from dcaplda.eval.sets import SetSpec, named_systems, read_table
    from dcaplda.eval.trials.conditions import SideFiles

    files = SideFiles(
        options.utt2spk, options.utt2dur, options.utt2dom, options.spk2utt, options.frame_shift
    )
    if options.table:
        if arguments:
            raise UsageError("--table takes the place of <trials> and <scores>; give one of both")
        return read_table(options.table, files)
    if not arguments:
        raise UsageError("nothing to evaluate: give <trials> <scores>, '-' or --table; see --help")
    if len(arguments) == 1:
        for name in ("utt2spk", "utt2dur", "utt2dom"):
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
    for name in ("json", "csv", "report"):
        value = getattr(options, name)
        if value:
            check_output(value if name == "report" else _destination(value))


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


def _print(results: "list[Result]", options: Options, settings: "Settings") -> None:
    """Write the tables: text to stdout unless JSON or CSV goes there."""
    from dcaplda.eval.differences import differences
    from dcaplda.eval.report import tables
    from dcaplda.runtime.tables.specifiers import writing

    quiet = False
    found = differences(results, options.baseline, options.confidence) if options.baseline else []
    made = {
        "json": lambda: tables.json_text(results, settings, found),
        "csv": lambda: tables.csv_text(results, settings),
    }
    for name, text in made.items():
        place = _destination(getattr(options, name))
        if place:
            quiet |= place == "-"
            with writing(place) as stream:
                stream.write(text().encode())
    if quiet:
        return
    sys.stdout.write(tables.text_table(results, settings, options.confidence))
    if found:
        sys.stdout.write(f"\nDifference from {options.baseline}")
        sys.stdout.write(" (* the interval leaves out zero)\n" if found[0].intervals else "\n")
        sys.stdout.write(tables.difference_table(found, settings))
    for result in results:
        if result.parts:
            sys.stdout.write(f"\n{result.system} on {result.set}, by condition\n")
            sys.stdout.write(tables.condition_table(result, settings))


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Evaluate every set, then write tables, pictures and the report."""
    _check_outputs(options)
    sets, systems = _plan(options, arguments)
    work = _work(options)
    cards = _cards(options, systems) if options.report or options.plots else {}

    from dcaplda.eval.evaluation import evaluate_lines, evaluate_set
    from dcaplda.eval.results import averages

    if not sets:
        results = [evaluate_lines(arguments[0], work)]
    else:
        results = [result for spec in sets for result in evaluate_set(spec, systems, work)]
    _warn(results, log)
    means = averages(results, work.confidence)
    _print(results + means, options, work.settings)
    if options.plots or options.report:
        from dcaplda.eval.report.pictures import Gallery

        _draw(Gallery(results, means, cards, work), options, log)
    return 0


def _cards(options: Options, systems: "list[SystemSpec]") -> "dict[str, ModelCard]":
    """What the bundles of the systems say; --model is that of the first."""
    from dcaplda.eval.report.model_card import read_card

    bundles = {system.name: system.model for system in systems if system.model}
    if options.model:
        bundles[systems[0].name if systems else "scores"] = options.model
    return {name: read_card(place) for name, place in bundles.items()}


def _draw(gallery: "Gallery", options: Options, log: Log) -> None:
    """Pictures as files, and the report."""
    if options.plots:
        n_files = gallery.write_files(options.plots, options.plot_format)
        log.info(f"wrote {n_files} pictures to {options.plots}")
    if options.report:
        from dcaplda.eval.report.page import write_report

        write_report(options.report, gallery, options.title)
        log.info(f"wrote the report {options.report}")


TOOL = Tool("eval-scores", USAGE, Options, (0, 1000), body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
