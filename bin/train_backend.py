"""train-backend: from labelled embeddings to a calibrated model."""

import contextlib
import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dcaplda.bin.cluster.children import start_of
from dcaplda.bin.cluster.options import Cluster
from dcaplda.bin.cluster.parts import Parts
from dcaplda.bin.common.arguments import need
from dcaplda.bin.common.next_commands import Evaluation, next_commands
from dcaplda.bin.common.option_groups import ScpRoot, Threads, check_not_negative
from dcaplda.bin.common.options import Log, Tool, command, option, run
from dcaplda.bin.export_onnx import SUMMARY, export_directory
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.files import replacing
from dcaplda.train.steps.stopping import Stopped

if TYPE_CHECKING:
    from dcaplda.train.recipe.sections import TrainingConfig

FEW_BYTES = 1 << 20
"""Size of an utt2spk below which utterances are few: about 30,000."""
USAGE = """Train a backend on a Kaldi data directory and a table of embeddings.

The data directory has utt2spk, utt2dur (or utt2num_frames) and optionally utt2sess, utt2dom and
segments; the embeddings have any format of docs/formats.md (scp: ark: npz: npy: h5: parquet:).
Without a recipe every setting is chosen from the data, and parts of them take turns in being held
out to judge the result. A recipe (--config) is a TOML file; what it does not set is the paper's,
what it sets to "auto" is chosen. See docs/training.md. At the end the result is exported to
<exp-dir>/bundle. Ctrl-C keeps what was reached: the same command with --resume goes on, with
--finish it makes the model of it.

Usage: train-backend [options] <data-dir> <xvector-rspecifier> <exp-dir>
       train-backend --select <exp-dir>
e.g.: train-backend data/train scp:data/train/xvector.scp exp/backend
      train-backend --config=conf/dca-plda.toml --seeds=0-19 --jobs=2 data/train \\
        scp:data/train/xvector.scp exp/dca-plda
      train-backend --seeds=0-19 --cluster=slurm --nj=20 data/train \\
        scp:data/train/xvector.scp exp/backend
See also: score-trials, eval-scores, adapt-backend, export-onnx
"""

BUNDLE = "bundle"
CONFIG = "config.toml"
CHECKPOINT = "checkpoint.safetensors"


@dataclass(frozen=True, kw_only=True)
class Options(Cluster, Parts, Threads, ScpRoot):
    """Options of train-backend."""

    CLUSTERS = (*Cluster.CLUSTERS, "submitit")

    cluster: str = option(
        "",
        "train --seeds in --nj parts: slurm (one array), submitit (goes on after its time limit), "
        "local (processes), none (print the script)",
        counts="never",
    )
    config: str = option("", "recipe (TOML); empty: everything is chosen from the data")
    variant: str = option("", "plda or d-plda, with -dd, -sd, -dsd or nothing; beats the recipe")
    seed: int | None = option(None, "random seed; beats the recipe")
    seeds: str = option("", "several seeds, as 0-19: one directory each, the best selected")
    jobs: int = option(1, "seeds trained at a time")
    select: bool = option(False, "only select the best of finished runs <exp-dir>/seed-N")
    start_model: str = option("", "start from this trained or imported model, not from PLDA")
    resume: bool = option(False, "go on with a run that was stopped")
    finish: bool = option(False, "make the model of what a stopped run has reached")
    extractor: str = option("", "extractor.json of the embeddings; left out: the one beside them")
    export: bool = option(True, "export the result to <exp-dir>/bundle")
    set: list[str] = option([], "section.key=value of the recipe, as stage1.steps=200; repeatable")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")

    def check(self) -> None:
        """Check ranges and options that exclude each other."""
        if self.jobs < 1:
            raise ValueError(f"--jobs={self.jobs}: expected at least 1")
        if self.seed is not None:
            check_not_negative(self, "seed")
        if self.resume and self.finish:
            raise ValueError("--resume and --finish exclude each other")
        if self.seed is not None and self.seeds:
            raise ValueError("--seed and --seeds exclude each other")
        if (self.cluster or self.num_parts) and not self.seeds:
            raise ValueError("--cluster and --num-parts share seeds: give --seeds=0-19, say")
        if (self.cluster or self.num_parts) and self.finish:
            raise ValueError("--finish has no parts: call it without --cluster and --num-parts")


def _recipe(options: Options) -> "TrainingConfig":
    """The recipe with what the command line says; all mistakes of both are one error."""
    from dcaplda.train.recipe.files import load_recipe

    settings = list(options.set)
    for key, value in (("model.variant", options.variant), ("data.scp_root", options.scp_root)):
        if value:
            settings.append(f"{key}={json.dumps(value)}")
    if options.seed is not None:
        settings.append(f"run.seed={options.seed}")
    return load_recipe(options.config, settings, auto=True)


def _threads(options: Options) -> int:
    available = len(os.sched_getaffinity(0))
    return options.threads or max(1, available // (options.jobs if options.seeds else 1))


def _one_thread_of_numpy(data: Path) -> None:
    """Before numpy is there: the products of few utterances are too small to be shared.

    Two threads of its library wait for each other: of 7,700 utterances a training without a recipe
    took 240 s with two and 180 s with one, in two fifths of the processor time. torch has its own.
    """
    if "numpy" in sys.modules:
        return  # called from a program, whose threads are its own
    with contextlib.suppress(OSError):
        if (data / "utt2spk").stat().st_size < FEW_BYTES:
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _train_one(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.runtime.bundle.writing import checked_place
    from dcaplda.train.run import Request, choose_device, train

    data_dir, vectors, directory = arguments
    if options.export:
        checked_place(Path(directory) / BUNDLE)
    request = Request(
        data_dir=data_dir,
        vectors=vectors,
        directory=Path(directory),
        config=_recipe(options),
        device=choose_device(options.device),
        threads=_threads(options),
        start_model=options.start_model,
        resume=options.resume,
        finish=options.finish,
        recipe=options.config,
        extractor=_extractor(options, vectors),
    )
    train(request, log.info, log.warning)
    _hand_over(options, Path(directory), log)
    return 0


def _extractor(options: Options, vectors: str) -> dict[str, Any] | None:
    """What is known of the extractor, for the bundle: scoring refuses another one."""
    from dcaplda.runtime.extractors.note import note_beside, read_note

    if options.extractor:
        return read_note(options.extractor).to_dict()
    found = note_beside(vectors, options.scp_root)
    return None if found is None else found.to_dict()


def _hand_over(options: Options, directory: Path, log: Log) -> None:
    """Export the result, and say what to do with it."""
    from dcaplda.train.recipe.files import load_recipe

    bundle = directory / BUNDLE
    export = shlex.join(["export-onnx", str(directory), str(bundle)])
    if not options.export:
        log.info(f"the model is in {directory}; export it with: {export}")
        return
    if not _is_exported(directory, bundle):
        try:
            export_directory(str(directory), str(bundle), log)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "onnx":
                raise
            log.warning(
                f"the model is in {directory}, but not its bundle: that takes onnx; install it "
                f"with: pip install 'dcaplda[export]', then: {export}"
            )
            return
    log.info(f"the model is in {directory}, the bundle to score with in {bundle}; next:")
    config = load_recipe(str(directory / CONFIG))
    known = None
    if config.dev:
        dev = config.dev[0]
        known = Evaluation(
            vectors=dev.xvectors,
            trials=dev.trials,
            durations=dev.durations,
            spk2utt=dev.spk2utt,
            scp_root=dev.scp_root,
        )
    uses_durations = config.model.variant.endswith(("-dd", "-dsd"))
    for line in next_commands(directory, bundle, known, uses_durations, config.model.joint):
        log.info(line)


def _is_exported(directory: Path, bundle: Path) -> bool:
    """Whether the bundle there is of this very result."""
    from dcaplda.runtime.fields import parse_json
    from dcaplda.train.summary import read_summary

    try:
        manifest = parse_json((bundle / "model.json").read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("training") == read_summary(directory)


def _train_seeds(options: Options, arguments: list[str], log: Log) -> int:
    from dcaplda.runtime.bundle.writing import checked_place
    from dcaplda.train.seeds import parse_seeds, run_all, seed_directory

    seeds = parse_seeds(options.seeds)
    if options.export:
        checked_place(Path(arguments[2]) / BUNDLE)
    config = _recipe(options)  # mistakes in the recipe are one error here, not one per seed
    directory = Path(arguments[2])
    if options.cluster or options.num_parts:
        from dcaplda.bin.cluster.seeds import SharedSeeds

        shared = SharedSeeds(TOOL, options, arguments, seeds, config)
        if options.cluster:
            return _select(options, directory, log) if shared.run(log) else 0
        seeds = shared.claimed(options.cut(len(seeds)))
    recipe = _write_recipe(directory, config)
    if options.finish:
        seeds = [seed for seed in seeds if _has_begun(seed_directory(directory, seed))]
    run_all(_seed_commands(options, arguments, seeds, recipe), directory, options.jobs, log.info)
    return 0 if options.num_parts else _select(options, directory, log)


def _write_recipe(directory: Path, config: "TrainingConfig") -> Path:
    from dcaplda.train.recipe.files import config_to_toml

    directory.mkdir(parents=True, exist_ok=True)
    recipe = directory / "recipe.toml"
    with replacing(recipe) as path:
        path.write_text(config_to_toml(config), encoding="utf-8")
    return recipe


def _seed_commands(
    options: Options, arguments: list[str], seeds: list[int], recipe: Path
) -> dict[int, list[str]]:
    """The command that trains each seed; a part always goes on with what was begun."""
    from dcaplda.train.seeds import seed_directory

    resume = options.resume or bool(options.num_parts)
    fixed = [
        f"--config={recipe}",
        f"--device={options.device}",
        f"--start-model={options.start_model}",
        f"--extractor={options.extractor}",
        f"--threads={_threads(options)}",
        f"--resume={str(resume).lower()}",
        f"--finish={str(options.finish).lower()}",
        "--export=false",  # only the one that is selected
    ]
    places = {seed: str(seed_directory(Path(arguments[2]), seed)) for seed in seeds}
    start = [*start_of(TOOL.name), *fixed]
    return {s: [*start, f"--seed={s}", *arguments[:2], place] for s, place in places.items()}


def _has_begun(directory: Path) -> bool:
    """Whether there is something to finish."""
    return any((directory / name).exists() for name in (CHECKPOINT, SUMMARY))


def _need_finished(options: Options, directory: Path) -> None:
    """Refuse to select while one of the seeds is missing."""
    from dcaplda.train.seeds import parse_seeds, seed_directory
    from dcaplda.train.summary import read_summary

    seeds = parse_seeds(options.seeds)
    left = [seed for seed in seeds if read_summary(seed_directory(directory, seed)) is None]
    if left:
        named = ", ".join(map(str, left[:8])) + (" ..." if len(left) > 8 else "")
        raise UsageError(
            f"{directory}: {len(left)} of {len(seeds)} seeds are not finished ({named}); train "
            "them, or leave --seeds out to select of those that are"
        )


def _select(options: Options, directory: Path, log: Log) -> int:
    from dcaplda.train.seeds import select_best

    seed, lines = select_best(directory)
    for line in lines:
        log.info(line)
    log.info(f"seed {seed} is selected; its model is in {directory}")
    _hand_over(options, directory, log)
    return 0


def body(options: Options, arguments: list[str], log: Log) -> int:
    """Train one seed, train many, or select."""
    if options.select:
        # With --seeds, of all of them or of none.
        if len(arguments) != 1:
            raise UsageError(f"--select takes one argument, <exp-dir>; found {len(arguments)}")
        if options.seeds:
            _need_finished(options, Path(arguments[0]))
        return _select(options, Path(arguments[0]), log)
    need(USAGE, 0, arguments)
    if os.path.realpath(arguments[0]) == os.path.realpath(arguments[2]):
        raise UsageError(f"{arguments[2]}: is the data directory; name another for the model")
    _one_thread_of_numpy(Path(arguments[0]))
    try:
        return (_train_seeds if options.seeds else _train_one)(options, arguments, log)
    except KeyboardInterrupt:
        log.error(_interrupted(options, arguments, "interrupted"))
    except Stopped as stopped:
        log.error(_interrupted(options, arguments, str(stopped)))
    return 1


def _interrupted(options: Options, arguments: list[str], what: str) -> str:
    """What is left of a run that was stopped, and the two ways to go on."""
    directory = Path(arguments[2])
    if not any(_has_begun(place) for place in (directory, *directory.glob("seed-*"))):
        return f"{what} before the first step; nothing is kept in {directory}"
    resume = command(TOOL, options, arguments, resume=True, finish=False)
    finish = command(TOOL, options, arguments, resume=False, finish=True)
    return f"{what} in {directory}; go on with: {resume}; or make the model of it with: {finish}"


TOOL = Tool("train-backend", USAGE, Options, (1, 3), body, own_config=True)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    return run(TOOL, argv)


if __name__ == "__main__":
    raise SystemExit(main())
