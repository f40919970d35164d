"""A whole training run: data and recipe in, experiment directory out."""

import contextlib
import fcntl
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.files import replacing
from dcaplda.train.auto.contest import Contested
from dcaplda.train.auto.resolve import Plan, judged_by_sets, reading, resolve
from dcaplda.train.auto.turns import HeldOutResult, correct, take_turns
from dcaplda.train.contests import config_text, hold_contest
from dcaplda.train.curves import plot_curves
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.early import (
    check_fit,
    check_recipe,
    has_steps,
    read_data,
    read_sets,
)
from dcaplda.train.identity import run_identity
from dcaplda.train.judging import judging, sets_choose, takes_turns
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.page import write_page
from dcaplda.train.recipe.files import first_difference
from dcaplda.train.recipe.problems import Problems
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.selection.losses import Evaluator
from dcaplda.train.start.values import build_model, find_start, set_trainable
from dcaplda.train.steps.averaging import Candidate
from dcaplda.train.steps.checkpoints import CHECKPOINT, check_same_run, load_checkpoint
from dcaplda.train.steps.held_out import HeldOut, find_held_out, holds_out
from dcaplda.train.steps.log import read_log
from dcaplda.train.steps.loop import Trainer
from dcaplda.train.steps.progress import ProgressBar
from dcaplda.train.steps.stopping import StopSignals
from dcaplda.train.store import load_model, save_model
from dcaplda.train.summary import TABLE, data_statistics, dev_table, read_summary, write_summary

CONFIG = "config.toml"
LOCK = ".lock"
STOPPED = "stopped"
"""Key of the summary of a run that --finish ended before its last step."""
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
    finish: bool = False
    """Make no more steps: the result is what the checkpoint has reached."""
    quiet: bool = False
    recipe: str = ""
    """File of the configuration, for messages."""
    extractor: dict[str, Any] | None = None
    """Which extractor made the embeddings, where that is known: it goes into the bundle."""


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
    done = _check_directory(request, say, warn)
    if done is not None:
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
    request, data, evaluator, plan = _read_inputs(request)
    config, directory = request.config, request.directory
    for line in (*data.summary(), *plan.lines):
        say(line)
    for note in (*data.notes, *plan.doubts):
        warn(note)
    if not evaluator.sets and not takes_turns(config):
        warn("no development sets ([[dev]] in the recipe): the last model will be the result")
    _describe(evaluator, warn, say)
    judge = judging(evaluator, config, warn)
    contested = hold_contest(plan, data, request.directory, request.device, request.threads, say)
    config = contested.config
    request = replace(request, config=config)
    model_config = ModelConfig(embedding_dim=data.embeddings.shape[1], **vars(config.model))
    goes_on = request.resume or request.finish
    checkpoint = load_checkpoint(directory) if goes_on else None
    identity = run_identity(
        config, data, evaluator, request.start_model, request.threads, request.device
    )
    if checkpoint is not None:
        check_same_run(checkpoint, identity)
    stepping = has_steps(config) and not request.finish
    resuming = checkpoint is not None
    model, held_out, places = _first_model(
        request, model_config, data, resuming, stepping, say, warn
    )
    trainer = Trainer(
        model, data, judge, config, identity, directory, request.device, held_out, stepping
    )
    if checkpoint is not None:
        trainer.resume(checkpoint)
        if not request.finish:
            say(f"{directory}: going on after {trainer.progress.total} steps")
    with replacing(directory / CONFIG) as path:
        path.write_text(config_text(contested), encoding="utf-8")
    if request.finish:
        judged = Judged(evaluator, contested, None)
        return _finish(request, trainer, trainer.finish(), data, places, judged, say)
    done = trainer.progress.total
    with ProgressBar(config, done, request.quiet, say) as report, StopSignals(say) as stop:
        chosen = trainer.run(report, lambda: stop.asked)
    turns = take_turns(data, config, request.device, say, contested.scored)
    judged = Judged(evaluator, contested, turns)
    return _finish(request, trainer, chosen, data, places, judged, say)


@dataclass(frozen=True)
class Judged:
    """What is known about the result besides its parameters."""

    evaluator: Evaluator
    contested: Contested
    turns: HeldOutResult | None


def _read_inputs(request: Request) -> tuple[Request, TrainingData, Evaluator, Plan]:
    """The request with what was "auto" chosen, data and development sets, and what was chosen.

    All that is wrong with them or the recipe is one error.
    """
    config, problems = request.config, Problems()
    data = read_data(request.data_dir, request.vectors, *reading(config), problems)
    # A recipe is not to blame for data that cannot be read.
    place = request.recipe if not problems.found else ""
    plan = Plan(config, [], [], [])
    if data is not None:
        given = load_model(request.start_model).config if request.start_model else None
        plan = resolve(config, data, request.data_dir, given)
    config = plan.config
    check_recipe(config, request.start_model, problems)
    evaluator = read_sets(config, data, request.device, problems)
    if sets_choose(evaluator, config):
        plan = judged_by_sets(plan)
        config = plan.config
    advice = "" if data is None else check_fit(config, data, problems, request.start_model)
    problems.refuse(place, advice)
    assert data is not None, "data that cannot be read are a problem"
    return replace(request, config=config), data, evaluator, plan


def _first_model(
    request: Request,
    model_config: ModelConfig,
    data: TrainingData,
    resuming: bool,
    stepping: bool,
    say: Say,
    warn: Say,
) -> tuple[Backend, HeldOut | None, dict[str, float] | None]:
    """The model before the first step, the starts of held-out batches if there are any, and what
    a joint model expects of new places."""
    config = request.config
    holding_out = stepping and holds_out(config.batch)
    # What L2 pulls to and where held-out batches start is not in the checkpoint: it is found
    # again from the same data.
    pulled = stepping and config.objective.l2_towards == "start"
    needs_start = not resuming or holding_out or config.model.joint or pulled
    if request.start_model:
        return _given_model(request.start_model, model_config), None, None
    if not needs_start:
        model = Backend(model_config)
        set_trainable(model)
        return model, None, None
    start = find_start(data, config, say)
    for note in start.notes:
        (say if note.startswith(("global", "duration")) else warn)(note)
    model = build_model(start, model_config, config.init, config.run.seed)
    if not holding_out:
        return model, None, start.places
    held_out = find_held_out(data, config, start.generative, request.device)
    say(f"held out in turn: {', '.join(part.name for part in held_out.parts)}")
    return model, held_out, None


def _given_model(directory: str, expected: ModelConfig) -> Backend:
    """A trained or imported model to go on from; it must have the recipe's architecture."""
    model = load_model(directory)
    expected = replace(
        expected, trained_places=model.config.trained_places
    )  # the data's, no choice
    difference = first_difference(model.config.to_dict(), expected.to_dict())
    if difference:
        raise UsageError(f"--start-model={directory}: its {difference} in the recipe")
    set_trainable(model)
    return model


def _place_names(request: Request, data: TrainingData) -> list[str]:
    """Of the places that a joint model keeps: its start's, and those of its own data."""
    if not request.start_model:
        return data.domain_names
    summary = read_summary(Path(request.start_model)) or {}
    names: list[str] = summary.get("trained_places", [])
    return names


def _check_directory(request: Request, say: Say, warn: Say) -> dict[str, Any] | None:
    """The summary if the run is already finished; an error if it would be overwritten."""
    directory, summary = request.directory, read_summary(request.directory)
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory}: is a file, not a directory to train in")
    has_checkpoint = (directory / CHECKPOINT).exists()
    if request.finish and not has_checkpoint and summary is None:
        raise UsageError(
            f"{directory}: has no {CHECKPOINT}, so --finish has nothing to make a model of; "
            "train first"
        )
    if request.resume or request.finish:
        # One that --finish made can be gone on with.
        if summary is None or (STOPPED in summary and has_checkpoint):
            return None
        say(f"{directory}: already finished; nothing to do")
        asked = sum(stage.steps for stage in request.config.stages)
        if asked != summary.get("steps"):
            warn(
                f"{directory}: was finished with {summary.get('steps')} steps, {asked} are asked "
                f"for now; to go further train in another directory with --start-model={directory}"
            )
        return summary
    if summary is not None or has_checkpoint:
        raise UsageError(
            f"{directory}: holds a training run; add --resume to go on with it, or name "
            "another directory"
        )
    return None


def _describe(evaluator: Evaluator, warn: Say, say: Say) -> None:
    for dev in evaluator.sets:
        n_targets = int(dev.targets.sum())
        n_nontargets = dev.n_trials - n_targets
        say(f"dev set {dev.name}: {n_targets} target and {n_nontargets} nontarget trials")


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
        **({"extractor": request.extractor} if request.extractor else {}),
        "average": None if math.isnan(chosen.loss) else chosen.loss,
        "start_average": start_average,
        "start": start,
        "selected": chosen.place,
        "dev": evaluator.report(model),
        "statistics": statistics,
        **({"places": places} if places else {}),
        **({"trained_places": _place_names(request, data)} if config.model.joint else {}),
        "choices": [asdict(choice) for choice in judged.contested.choices],
        **({"contest": judged.contested.table()} if judged.contested.matches else {}),
        **({"held_out": judged.turns.to_dict()} if judged.turns is not None else {}),
    }
    if request.finish:
        summary[STOPPED] = {"steps": trainer.progress.total, "asked": trainer.asked}
        say(f"finished early, after {trainer.progress.total} of {trainer.asked} steps")
    save_model(model, directory)
    groups = {dev.name: dev.group for dev in evaluator.sets}
    plot_curves(directory, groups, config.objective.prior, chosen.place.get("total"))
    table = dev_table(summary)
    with replacing(directory / TABLE) as path:
        path.write_text(table, encoding="utf-8")
    write_page(directory, summary, list(read_log(directory)))
    write_summary(directory, summary)
    for line in table.splitlines():
        say(line)
    return summary
