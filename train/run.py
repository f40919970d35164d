"""A whole training run: data and recipe in, experiment directory out."""

import contextlib
import fcntl
import hashlib
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.files import replacing
from dcaplda.train.auto.resolve import Plan, reading, resolve
from dcaplda.train.auto.turns import HeldOutResult, correct, take_turns
from dcaplda.train.curves import plot_curves
from dcaplda.train.data.directory import load_training_data
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import VARIANTS, ModelConfig
from dcaplda.train.recipe.files import config_to_dict, config_to_toml, first_difference
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.selection.losses import Evaluator
from dcaplda.train.start.values import build_model, check_sizes, find_start, set_trainable
from dcaplda.train.steps.averaging import Candidate
from dcaplda.train.steps.checkpoints import CHECKPOINT
from dcaplda.train.steps.held_out import HeldOut, find_held_out
from dcaplda.train.steps.loop import Trainer
from dcaplda.train.steps.progress import ProgressBar
from dcaplda.train.store import load_model, save_model
from dcaplda.train.summary import TABLE, data_statistics, dev_table, read_summary, write_summary

CONFIG = "config.toml"
LOCK = ".lock"
Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What to train on, how, and where."""

    data_dir: str
    vectors: str
    directory: Path
    config: TrainingConfig
    device: torch.device
    threads: int
    start_model: str = ""
    """Directory of a model to start from, in place of LDA and PLDA of the data."""
    resume: bool = False
    quiet: bool = False


def choose_device(name: str) -> torch.device:
    """`auto` takes CUDA where it exists."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"--device={name}: expected auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"--device={name}: there is no CUDA here; use --device=cpu")
    return device


def make_repeatable(device: torch.device, threads: int) -> None:
    """Fix what could make two equal runs differ: the number of threads sets the order of sums."""
    torch.set_num_threads(threads)
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True, warn_only=True)


def train(request: Request, say: Say, warn: Say) -> dict[str, Any]:
    """Run to the end (or go on to it) and return the summary."""
    directory = request.directory
    done = _check_directory(request)
    if done is not None:
        say(f"{directory}: already finished; nothing to do")
        return done
    make_repeatable(request.device, request.threads)
    directory.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        return _train_locked(request, say, warn)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep a second process out of the directory; the lock goes when the process does."""
    with open(directory / LOCK, "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{directory}: another process is training in it") from None
        yield


def _train_locked(request: Request, say: Say, warn: Say) -> dict[str, Any]:
    directory = request.directory
    section, need_durations = reading(request.config)
    data = load_training_data(request.data_dir, request.vectors, section, need_durations)
    for line in data.summary():
        say(line)
    for note in data.notes:
        warn(note)
    given = load_model(request.start_model).config if request.start_model else None
    plan = resolve(request.config, data, request.data_dir, given)
    for line in plan.lines:
        say(line)
    for doubt in plan.doubts:
        warn(doubt)
    config = plan.config
    request = replace(request, config=config)
    need_durations = VARIANTS[config.model.variant].duration_stage
    model_config = ModelConfig(embedding_dim=data.embeddings.shape[1], **vars(config.model))
    check_sizes(model_config)
    evaluator = Evaluator.load(
        config.dev,
        model_config.embedding_dim,
        need_durations,
        config.objective.prior,
        request.device,
    )
    if not evaluator.sets and not (config.held_out.people or config.held_out.domains):
        warn("no development sets ([[dev]] in the recipe): the last model will be the result")
    _describe(evaluator, warn, say)
    judge = _judging(evaluator, config, warn)
    resuming = request.resume and (directory / CHECKPOINT).is_file()
    model, held_out, places = _first_model(request, model_config, data, resuming, say, warn)
    identity = _identity(request, data)
    trainer = Trainer(model, data, judge, config, identity, directory, request.device, held_out)
    if resuming:
        trainer.resume()
        say(f"{directory}: going on after {trainer.progress.total} steps")
    with replacing(directory / CONFIG) as path:
        path.write_text(config_to_toml(config), encoding="utf-8")
    with ProgressBar(config, trainer.progress.total, request.quiet, say) as report:
        chosen = trainer.run(report)
    turns = take_turns(data, config, request.device, say)
    return _finish(request, trainer, chosen, data, places, Judged(evaluator, plan, turns), say)


@dataclass(frozen=True)
class Judged:
    """What is known about the result besides its parameters."""

    evaluator: Evaluator
    plan: Plan
    turns: HeldOutResult | None


FEW_TARGETS = 200
"""Target trials of all development sets together below which they cannot choose between steps."""


def _judging(evaluator: Evaluator, config: TrainingConfig, warn: Say) -> Evaluator:
    """What selects the model: the development sets, or nothing where they are too small."""
    n_targets = sum(int(dev.targets.sum()) for dev in evaluator.sets)
    parts = config.held_out.people or config.held_out.domains
    if not evaluator.sets or n_targets >= FEW_TARGETS or not parts:
        return evaluator
    warn(
        f"the development sets have {n_targets} target trials, too few to choose a model by "
        f"(at least {FEW_TARGETS}): they are only reported, and held-out parts calibrate"
    )
    return Evaluator([], evaluator.prior)


def _first_model(
    request: Request,
    model_config: ModelConfig,
    data: TrainingData,
    resuming: bool,
    say: Say,
    warn: Say,
) -> tuple[Backend, HeldOut | None, dict[str, float] | None]:
    """The model before the first step, the starts of held-out batches if there are any, and what
    a joint model expects of new places."""
    config = request.config
    if config.model.joint:
        _check_joint(config)
    holds_out = config.batch.held_out_folds > 0 or config.batch.held_out_domains
    # What L2 pulls to and where held-out batches start is not in the checkpoint: it is found
    # again from the same data.
    needs_start = (
        not resuming or holds_out or config.model.joint or config.objective.l2_towards == "start"
    )
    if request.start_model:
        if holds_out:
            raise UsageError("--start-model: held-out batches need the start that the data give")
        return _given_model(request.start_model, model_config), None, None
    if not needs_start:
        model = Backend(model_config)
        set_trainable(model)
        return model, None, None
    start = find_start(data, config)
    for note in start.notes:
        (say if note.startswith(("global", "duration")) else warn)(note)
    model = build_model(start, model_config, config.init, config.run.seed)
    if not holds_out:
        return model, None, start.places
    held_out = find_held_out(data, config, start.generative, request.device)
    say(f"held out in turn: {', '.join(part.name for part in held_out.parts)}")
    return model, held_out, None


def _check_joint(config: TrainingConfig) -> None:
    """Steps see single utterances of known places only, and would undo what episodes taught."""
    if any(stage.steps for stage in config.stages):
        raise UsageError(
            "model.joint = true: LDA, PLDA and calibration come from the data without steps; set "
            "stage1.steps, stage2.steps and stage3.steps to 0 (as egs/recordings/conf/joint.toml)"
        )


def _given_model(directory: str, expected: ModelConfig) -> Backend:
    """A trained or imported model to go on from; it must have the recipe's architecture."""
    model = load_model(directory)
    difference = first_difference(model.config.to_dict(), expected.to_dict())
    if difference:
        raise UsageError(f"--start-model={directory}: its {difference} in the recipe")
    set_trainable(model)
    return model


def _check_directory(request: Request) -> dict[str, Any] | None:
    """The summary if the run is already finished; an error if it would be overwritten."""
    summary = read_summary(request.directory)
    if request.directory.exists() and not request.directory.is_dir():
        raise UsageError(f"{request.directory}: is a file, not a directory to train in")
    if request.resume:
        return summary
    if summary is not None or (request.directory / CHECKPOINT).exists():
        raise UsageError(
            f"{request.directory}: holds a training run; add --resume to go on with it, or name "
            "another directory"
        )
    return None


def _describe(evaluator: Evaluator, warn: Say, say: Say) -> None:
    for dev in evaluator.sets:
        n_targets = int(dev.targets.sum())
        n_nontargets = dev.n_trials - n_targets
        say(f"dev set {dev.name}: {n_targets} target and {n_nontargets} nontarget trials")
    if evaluator.sets and not any(dev.weight for dev in evaluator.sets):
        raise UsageError("all development sets have weight 0; one must count")


def _identity(request: Request, data: TrainingData) -> dict[str, Any]:
    """What must be equal for a checkpoint to be gone on with."""
    values = config_to_dict(request.config)
    values["dev"] = {dev["name"]: dev for dev in values["dev"]}
    del values["run"]["checkpoint_every"]  # may change at any time
    digest = hashlib.sha256("\n".join(data.ids).encode())
    for array in (data.speaker, data.session, data.domain, data.seconds):
        digest.update(array.tobytes())
    digest.update(data.embeddings.sum(axis=0, dtype=np.float64).tobytes())
    return {
        **values,
        "training data": digest.hexdigest()[:16],
        **({"start model": request.start_model} if request.start_model else {}),
        "threads": request.threads,
        "device": str(request.device),
    }


def _finish(
    request: Request,
    trainer: Trainer,
    chosen: Candidate,
    data: TrainingData,
    places: dict[str, float] | None,
    judged: Judged,
    say: Say,
) -> dict[str, Any]:
    """Write the chosen model, curves, table and summary, the summary last."""
    config, directory, model = request.config, request.directory, trainer.model
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(chosen.parameters[name])
    if judged.turns is not None:
        correct(model, judged.turns.correction)
    evaluator = judged.evaluator
    start = trainer.progress.start
    weights = [dev.weight for dev in evaluator.sets]
    start_average = None
    if start:
        start_average = float(np.average(list(start["actual"].values()), weights=weights))
    statistics = data_statistics(model, data, request.device)
    summary: dict[str, Any] = {
        "variant": config.model.variant,
        "seed": config.run.seed,
        "steps": trainer.progress.total,
        "training_prior": config.objective.prior,
        "durations": statistics["durations"],
        "speakers": data.n_speakers,
        "domains": data.domain_names,
        "utterances": len(data.ids),
        "dropped": data.dropped,
        "average": None if math.isnan(chosen.loss) else chosen.loss,
        "start_average": start_average,
        "start": start,
        "selected": chosen.place,
        "dev": evaluator.report(model),
        "statistics": statistics,
        **({"places": places} if places else {}),
        "choices": judged.plan.table(),
        **({"held_out": judged.turns.to_dict()} if judged.turns is not None else {}),
    }
    save_model(model, directory)
    groups = {dev.name: dev.group for dev in evaluator.sets}
    plot_curves(directory, groups, config.objective.prior, chosen.place.get("total"))
    table = dev_table(summary)
    with replacing(directory / TABLE) as path:
        path.write_text(table, encoding="utf-8")
    write_summary(directory, summary)
    for line in table.splitlines():
        say(line)
    return summary
