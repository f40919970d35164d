"""simulate-xvectors: a whole speaker verification experiment whose truth is known."""

import dataclasses
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dcaplda.bin.cluster.options import Cluster
from dcaplda.bin.cluster.parts import Parts, do_part, work_of
from dcaplda.bin.common.option_groups import Seed
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import UsageError

if TYPE_CHECKING:
    from dcaplda.simulate.config import WorldConfig
    from dcaplda.simulate.draws import EvaluationSet, LabelledTrials, Utterances
    from dcaplda.simulate.world import World

USAGE = """Simulate a speaker verification experiment from a world file and a seed.

Writes Kaldi data directories with x-vectors: train (chunks), train_full (whole recordings),
cohort, calibration (trials of training speakers), and for every held-out (trnh), development
and evaluation domain a full and a short set with its trials, the trials of models of three
utterances, and the exact LLR of every trial (oracle_single, oracle_multi), which no system can
beat on average.

Usage: simulate-xvectors [options] <world.toml> <out-dir>
e.g.: simulate-xvectors --seed=0 egs/simulated/conf/demo-world.toml exp/demo/data
See also: train-backend, score-trials, eval-scores; docs/simulated-world.md
"""


@dataclass(frozen=True, kw_only=True)
class Options(Cluster, Parts, Seed):
    """Options of simulate-xvectors."""

    scale: float = option(1.0, "multiplies the number of training speakers of every domain")
    oracle: bool = option(True, "write the exact LLRs of all trials")


# What the arguments are; the last one is written.
INPUTS = (("world", "table"),)
PARTS = ".parts"
"""Below the output: what each part has written, until all have."""
TRAINING = "-"
"""Stands for the training data in a part's list of test sets."""

Made = tuple[str, str]
"""Name and group of a test set; of the training data, TRAINING and nothing."""


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Simulate everything, a part of it, or everything in parts."""
    from dcaplda.simulate.config import load_world

    world_file, target = arguments
    config = load_world(world_file, options.scale)
    root = Path(target)
    if root.exists() and not root.is_dir():
        raise UsageError(f"{target}: is a file; give a directory")
    # Paths in an scp are split at blanks by every tool that reads it.
    if len(target.split()) != 1:
        raise UsageError(f"'{target}': Kaldi tables cannot hold a path with blanks")
    started = time.perf_counter()
    if options.cluster:
        made = _in_parts(options, arguments, log)
    elif options.num_parts:
        return _one_part(options, arguments, config, log)
    else:
        made = _simulate(options, config, root, log, lambda number: True)
    if made:
        names = [it for it in made if it[0] != TRAINING]
        _write_world(root, config, options, names)
        seconds = time.perf_counter() - started
        log.info(f"wrote {len(names)} test sets to {target} in {seconds:.1f} s")
    return 0


def _simulate(
    options: Options, config: "WorldConfig", root: Path, log: Log, mine: Callable[[int], bool]
) -> list[Made]:
    """Draw and write the training data (number 0) and the test sets that are `mine`."""
    from dcaplda.simulate.draws import evaluation_sets
    from dcaplda.simulate.world import build_world

    world = build_world(config, options.seed)
    made: list[Made] = []
    if mine(0):
        _write_training(root, config, world, options.seed, log)
        made.append((TRAINING, ""))
    for number, test_set in enumerate(evaluation_sets(config, world, options.seed), 1):
        if mine(number):
            words = _write_test_set(root, test_set, world, options.oracle)
            made.append((test_set.name, test_set.group))
            log.info(f"{test_set.name}: {words}")
    return made


def _write_training(root: Path, config: "WorldConfig", world: "World", seed: int, log: Log) -> None:
    from dcaplda.simulate.draws import taken
    from dcaplda.simulate.training import cohort_rows, training_sets

    for name, utterances in training_sets(config, world, seed).items():
        _write_data(root / name, utterances)
        log.info(f"{name}: {_counts(utterances)}")
        if name == "train":
            rows = cohort_rows(config, utterances, seed)
            _write_data(root / "cohort", taken(utterances, rows))
            log.info(f"cohort: {len(rows)} utterances of train")
            _write_calibration(root, config, utterances, seed, log)


def _one_part(options: Options, arguments: list[str], config: "WorldConfig", log: Log) -> int:
    """Write every --num-parts-th of the test sets, then the list of them."""
    root = Path(arguments[1])
    path = root / PARTS / f"{options.part}-of-{options.num_parts}"
    path.parent.mkdir(parents=True, exist_ok=True)

    def make() -> int:
        # One after the other in turns: the short sets follow the full ones.
        turn = options.part - 1
        mine = _simulate(options, config, root, log, lambda n: n % options.num_parts == turn)
        _write_lines(path, (f"{name} {group or TRAINING}" for name, group in mine))
        return 0

    work = work_of(TOOL.name, options, arguments[:1], INPUTS, options.num_parts)
    return do_part(options, lambda: work, str(path), log, make)


def _in_parts(options: Options, arguments: list[str], log: Log) -> list[Made]:
    """Have all parts done; what they made, in the order of one run. Nothing if not yet done."""
    from dcaplda.bin.cluster.whole import do_all, part_job
    from dcaplda.runtime.parts.merging import in_order
    from dcaplda.runtime.parts.stamps import is_done

    folder = Path(arguments[1]) / PARTS
    work = work_of(TOOL.name, options, arguments[:1], INPUTS, options.nj)
    paths = {part: folder / f"{part}-of-{options.nj}" for part in range(1, options.nj + 1)}
    job = part_job(TOOL, options, arguments, folder, lambda part: is_done(paths[part], work, part))
    rows: list[list[Made]] = []

    def finish() -> None:
        for path in in_order(paths.values(), work):
            words = path.read_text(encoding="utf-8").split()
            rows.append(list(zip(words[::2], words[1::2], strict=True)))

    do_all(job, TOOL, options, arguments, log, finish)
    longest = max(map(len, rows), default=0)
    return [row[turn] for turn in range(longest) for row in rows if turn < len(row)]


def _counts(utterances: "Utterances") -> str:
    speakers = len(set(utterances.speakers))
    return f"{len(utterances.ids)} utterances of {speakers} speakers"


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    from dcaplda.runtime.files import replacing

    with replacing(path) as beside:
        beside.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_data(directory: Path, utterances: "Utterances") -> None:
    """A Kaldi data directory, its x-vectors, and the truth that no system may use."""
    from dcaplda.runtime.tables.vector_writer import write_vectors

    directory.mkdir(parents=True, exist_ok=True)
    members: dict[str, list[str]] = {}
    for name, speaker in zip(utterances.ids, utterances.speakers, strict=True):
        members.setdefault(speaker, []).append(name)
    tables = {
        "utt2spk": utterances.speakers,
        "utt2dur": [f"{seconds:.2f}" for seconds in utterances.seconds],
        "utt2sess": utterances.sessions,
        "utt2dom": utterances.domains,
        "truth_condition": utterances.conditions,
        "truth_quality": utterances.qualities,
    }
    for table, values in tables.items():
        pairs = zip(utterances.ids, values, strict=True)
        _write_lines(directory / table, (f"{name} {value}" for name, value in pairs))
    _write_lines(directory / "spk2utt", (f"{s} {' '.join(names)}" for s, names in members.items()))
    wspecifier = f"ark,scp:{directory}/xvector.ark,{directory}/xvector.scp"
    write_vectors(wspecifier, utterances.ids, utterances.embeddings)


def _write_calibration(
    root: Path, config: "WorldConfig", training: "Utterances", seed: int, log: Log
) -> None:
    """Trials of training speakers, for calibrate-scores."""
    from dcaplda.simulate.draws import taken
    from dcaplda.simulate.training import calibration_trials

    rows, trials = calibration_trials(config, training, seed)
    _write_data(root / "calibration", taken(training, rows))
    lines = (
        f"{training.ids[a]} {training.ids[b]} {'target' if same else 'nontarget'}"
        for a, b, same in trials
    )
    _write_lines(root / "calibration" / "trials_single", lines)
    log.info(f"calibration: {len(trials)} trials of training speakers")


def _write_test_set(root: Path, test_set: "EvaluationSet", world: "World", oracle: bool) -> str:
    directory = root / test_set.name
    utterances = test_set.utterances
    _write_data(directory, utterances)
    models = test_set.models.items()
    members = (f"{m} {' '.join(utterances.ids[row] for row in rows)}" for m, rows in models)
    _write_lines(directory / "models", members)
    owners = (f"{m} {utterances.speakers[rows[0]]}" for m, rows in models)
    _write_lines(directory / "model2spk", owners)
    words = []
    for kind, trials in (("single", test_set.single), ("multi", test_set.multi)):
        labels = ("target" if is_target else "nontarget" for is_target in trials.is_target)
        lines = zip(trials.enroll, trials.test, labels, strict=True)
        _write_lines(directory / f"trials_{kind}", map(" ".join, lines))
        words.append(f"{len(trials.enroll)} {kind} trials")
        if oracle:
            words[-1] += f" ({_write_oracle(directory, kind, trials, utterances, world)})"
    return ", ".join(words)


def _write_oracle(
    directory: Path, kind: str, trials: "LabelledTrials", utterances: "Utterances", world: "World"
) -> str:
    import numpy as np

    from dcaplda.eval.metrics.scalars import cllr
    from dcaplda.simulate.oracle import score

    name = utterances.domains[0]
    llrs = score(world, name, utterances.embeddings, utterances.seconds, trials.rows)
    values = llrs.astype(np.float32)
    lines = zip(trials.enroll, trials.test, map(str, values), strict=True)
    _write_lines(directory / f"oracle_{kind}", map(" ".join, lines))
    return f"oracle Cllr {cllr(llrs[trials.is_target], llrs[~trials.is_target]):.3f}"


def _write_world(root: Path, config: "WorldConfig", options: Options, names: list[Made]) -> None:
    """The resolved configuration, and the test sets with their groups."""
    about = {
        "seed": options.seed,
        "world": dataclasses.asdict(config),
    }
    _write_lines(root / "world.json", [json.dumps(about, indent=2)])
    # Last: a directory with this file is complete.
    _write_lines(root / "test_sets", map(" ".join, names))


TOOL = Tool("simulate-xvectors", USAGE, Options, 2, body)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
