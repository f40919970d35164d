"""train-backend: from labelled embeddings to a calibrated model."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dcaplda.bin.common.option_groups import ScpRoot, Threads, check_not_negative
from dcaplda.bin.common.options import Log, Tool, option, run
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.files import replacing

if TYPE_CHECKING:
    from dcaplda.train.recipe.sections import TrainingConfig

USAGE = """Train a backend on a Kaldi data directory and a table of embeddings.

The data directory has utt2spk, utt2dur (or utt2num_frames) and optionally utt2sess, utt2dom and
segments; the embeddings are an rspecifier, or an .npz or .h5 file with `ids` and `data`. Without
a recipe every setting is chosen from the data, and parts of them take turns in being held out to
judge the result. A recipe (--config) is a TOML file; what it does not set is the paper's, what it
sets to "auto" is chosen. See docs/training.md.

Usage: train-backend [options] <data-dir> <xvector-rspecifier> <exp-dir>
       train-backend --select <exp-dir>
e.g.: train-backend data/train scp:data/train/xvector.scp exp/backend
      train-backend --config=conf/dca-plda.toml --seeds=0-19 --jobs=2 data/train \\
        scp:data/train/xvector.scp exp/dca-plda
See also: export-onnx, score-trials, eval-scores
"""


@dataclass(frozen=True, kw_only=True)
class Options(Threads, ScpRoot):
    """Options of train-backend."""

    config: str = option("", "recipe (TOML); empty: everything is chosen from the data")
    variant: str = option("", "plda or d-plda, with -dd, -sd, -dsd or nothing; beats the recipe")
    seed: int | None = option(None, "random seed; beats the recipe")
    seeds: str = option("", "several seeds, as 0-19: one directory each, the best selected")
    jobs: int = option(1, "seeds trained at a time")
    select: bool = option(False, "only select the best of finished runs <exp-dir>/seed-N")
    start_model: str = option("", "start from this trained or imported model, not from PLDA")
    resume: bool = option(False, "go on with a run that was stopped")
    set: list[str] = option([], "section.key=value of the recipe, as stage1.steps=200; repeatable")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")

    def check(self) -> None:
        """Check ranges and options that exclude each other."""
        if self.jobs < 1:
            raise ValueError(f"--jobs={self.jobs}: expected at least 1")
        if self.seed is not None:
            check_not_negative(self, "seed")
        if self.seed is not None and self.seeds:
            raise ValueError("--seed and --seeds exclude each other")


def _recipe(options: Options) -> "TrainingConfig":
    from dcaplda.train.recipe.auto import with_values
    from dcaplda.train.recipe.files import load_recipe

    config = load_recipe(options.config, options.set, auto=True)
    values: dict[str, object] = {}
    if options.variant:
        values["model.variant"] = options.variant
    if options.seed is not None:
        values["run.seed"] = options.seed
    if options.scp_root:
        values["data.scp_root"] = options.scp_root
    return with_values(config, values)


def _threads(options: Options) -> int:
    available = len(os.sched_getaffinity(0))
    return options.threads or max(1, available // (options.jobs if options.seeds else 1))


def _train_one(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.train.run import Request, choose_device, train

    data_dir, vectors, directory = arguments
    request = Request(
        data_dir=data_dir,
        vectors=vectors,
        directory=Path(directory),
        config=_recipe(options),
        device=choose_device(options.device),
        threads=_threads(options),
        start_model=options.start_model,
        resume=options.resume,
    )
    train(request, log.info, log.warning)
    log.info(f"the model is in {directory}; export it with: export-onnx {directory} <bundle-dir>")
    return 0


def _train_seeds(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.train.recipe.files import config_to_toml
    from dcaplda.train.seeds import parse_seeds, run_all, seed_directory

    seeds = parse_seeds(options.seeds)
    config = _recipe(options)  # mistakes in the recipe are one error here, not one per seed
    directory = Path(arguments[2])
    directory.mkdir(parents=True, exist_ok=True)
    recipe = directory / "recipe.toml"
    with replacing(recipe) as path:
        path.write_text(config_to_toml(config), encoding="utf-8")
    # The children run from this very source, installed or a checkout.
    start = [sys.executable, str(Path(__file__).with_name("_checkout.py")), "train-backend"]
    fixed = [
        f"--config={recipe}",
        f"--device={options.device}",
        f"--start-model={options.start_model}",
        f"--threads={_threads(options)}",
        f"--resume={str(options.resume).lower()}",
    ]
    commands = {
        seed: [
            *start,
            *fixed,
            f"--seed={seed}",
            *arguments[:2],
            str(seed_directory(directory, seed)),
        ]
        for seed in seeds
    }
    run_all(commands, directory, options.jobs, log.info)
    return _select(directory, log)


def _select(directory: Path, log: Log) -> int:
    from dcaplda.train.seeds import select_best

    seed, lines = select_best(directory)
    for line in lines:
        log.info(line)
    log.info(f"seed {seed} is selected; its model is in {directory}")
    return 0


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Train one seed, train many, or select."""
    if options.select:
        if len(arguments) != 1:
            raise UsageError(f"--select takes one argument, <exp-dir>; found {len(arguments)}")
        return _select(Path(arguments[0]), log)
    if len(arguments) != 3:
        raise UsageError(
            f"expected <data-dir> <xvector-rspecifier> <exp-dir>, found {len(arguments)} "
            "arguments; see --help"
        )
    try:
        return (_train_seeds if options.seeds else _train_one)(options, arguments, log)
    except KeyboardInterrupt:
        log.error(f"interrupted; add --resume to go on with {arguments[2]}")
        return 1


TOOL = Tool("train-backend", USAGE, Options, (1, 3), body, own_config=True)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
