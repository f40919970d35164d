"""What can be known of a run before LDA: everything that is wrong is found here, and said at once.

The recipe is checked by itself, the files of the data and of all development sets are read, and
the sizes that the recipe asks for are compared with what the data have.
"""

import numpy as np
import torch

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.batches import checked_share, domain_weights, largest_size
from dcaplda.train.data.directory import load_training_data
from dcaplda.train.data.folds import domain_parts
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.picked import extremes
from dcaplda.train.model import durations
from dcaplda.train.model.config import VARIANTS, ModelConfig
from dcaplda.train.recipe.problems import Problems
from dcaplda.train.recipe.sections import DataSection, TrainingConfig
from dcaplda.train.selection.losses import Evaluator
from dcaplda.train.start.values import too_wide
from dcaplda.train.steps.held_out import batch_of_part, held_out_parts, holds_out

PAPER = {"model.lda_dim": 300, "model.side_hidden_dim": 200, "batch.size": 2048}
"""Sizes of the paper, which trained on thousands of people with embeddings of 512 values."""


def has_steps(config: TrainingConfig) -> bool:
    """Whether anything is trained by steps: only then there are batches."""
    return any(stage.steps for stage in config.stages)


def uses_durations(config: TrainingConfig) -> bool:
    """Whether the variant has a duration stage."""
    return VARIANTS[config.model.variant].duration_stage


def check_recipe(config: TrainingConfig, start_model: str, problems: Problems) -> None:
    """Settings that exclude each other, or that no data could make right."""
    model = config.model
    with problems.catching("[model]"):
        durations.resolve(model.duration_feature, model.duration_parameters)
    with problems.catching("[model]"):
        # Any size will do: this looks at what the variant can be combined with.
        ModelConfig(embedding_dim=1, **vars(model))
    if model.joint and has_steps(config):
        # Steps see single utterances of known places only, and would undo what episodes taught.
        problems.add(
            "model.joint = true: its steps are init.joint_steps, before calibration; set "
            "stage1.steps, stage2.steps and stage3.steps to 0 (as egs/recordings/conf/joint.toml)"
        )
    if config.init.joint_steps and not model.joint:
        problems.add("init.joint_steps: are those of a joint model; set model.joint = true")
    if config.init.joint_steps and model.variant == "plda-dd":
        problems.add(
            "init.joint_steps: plda-dd keeps LDA and PLDA as they are; set model.variant = "
            '"d-plda-dd"'
        )
    if model.joint and not config.init.domain_offsets:
        problems.add("model.joint = true: places need init.domain_offsets = true")
    if start_model and has_steps(config) and holds_out(config.batch):
        problems.add(
            "--start-model: held-out batches need the start that the data give; set "
            "batch.held_out_folds = 0 and batch.held_out_domains = false"
        )


def read_data(
    directory: str, vectors: str, section: DataSection, need_durations: bool, problems: Problems
) -> TrainingData | None:
    """The training data, or None and a problem."""
    with problems.catching():
        return load_training_data(directory, vectors, section, need_durations)
    return None


def read_sets(
    config: TrainingConfig, data: TrainingData | None, device: torch.device, problems: Problems
) -> Evaluator:
    """All development sets that can be read; a problem names the section of any other."""
    dim = None if data is None else data.embeddings.shape[1]
    need = uses_durations(config)
    return Evaluator.load(config.dev, dim, need, config.objective.prior, device, problems)


def check_fit(
    config: TrainingConfig, data: TrainingData, problems: Problems, start_model: str = ""
) -> str:
    """Note what the recipe asks for and the data do not have.

    Returns what to set where the paper's sizes are too large for the data, as words for the end of
    the message; empty where they are not the reason.
    """
    people, dim = len(np.unique(data.identity)), data.embeddings.shape[1]
    fitting: dict[str, int] = {}
    for key, value in too_wide(config.model, dim).items():
        fitting[key] = min(dim, people - 1) if key == "model.lda_dim" and people > 2 else dim
        problems.add(f"{key} = {value}: the embeddings have {dim} values; set it to at most {dim}")
    if people < 2:
        problems.add(
            "the training data have one speaker with two sessions; nontarget trials need two"
        )
        return ""
    if not start_model:
        with problems.catching():
            _refuse_constant_values(data)
        _check_calibration(config, data, problems)
    with problems.catching():
        domain_weights(data, config.batch)
    if has_steps(config):
        _check_batches(config, data, problems, fitting)
    return _advice(config, fitting, people, dim)


def _refuse_constant_values(data: TrainingData) -> None:
    """A value that never changes has no variance for LDA to divide by."""
    least, greatest = extremes(data.embeddings)
    same = np.flatnonzero(least == greatest)
    if same.size:
        raise InputError(
            f"value {same[0]} (counted from 0) is {least[same[0]]:g} in all training "
            f"embeddings ({same.size} of {data.embeddings.shape[1]} values never change); remove "
            "such values or extract the embeddings again"
        )


def _check_calibration(config: TrainingConfig, data: TrainingData, problems: Problems) -> None:
    """The start's calibration takes two speakers of each domain, and holds out what it is told."""
    if config.init.calibration_domains > 0:
        with problems.catching():
            domain_parts(data)
    if config.model.joint or config.init.balance == "flat":
        return
    counts = np.bincount(data.speaker_domain)
    for number in np.flatnonzero(counts < 2):
        problems.add(_alone(data, int(number)))


def _check_batches(
    config: TrainingConfig, data: TrainingData, problems: Problems, fitting: dict[str, int]
) -> None:
    """A batch must find its speakers."""
    section = config.batch
    if section.short_noise and np.isnan(data.seconds).any():
        problems.add("batch.short_noise needs the durations of all training utterances")
    if holds_out(section):
        with problems.catching():
            for part in held_out_parts(data, section):
                own = data.subset(part.rows)
                checked_share(own, batch_of_part(own, section))
        return
    counts = np.bincount(data.speaker_domain)
    alone = np.flatnonzero(counts < 2).tolist() if section.balance == "domain" else []
    for number in alone:
        problems.add(_alone(data, number))
    if alone:
        return
    try:
        checked_share(data, section)
    except InputError as error:
        problems.add(str(error))
        fitting["batch.size"] = largest_size(data, section)


def _alone(data: TrainingData, domain: int) -> str:
    return (
        f"domain '{data.domain_names[domain]}' has 1 speaker with two sessions, and nontarget "
        "trials need two; remove the domain, or join it with another in utt2dom"
    )


def _advice(config: TrainingConfig, fitting: dict[str, int], people: int, dim: int) -> str:
    """What would fit, where a size that does not is the paper's."""
    asked = {key: _value(config, key) for key in fitting}
    of_paper = [key for key, value in asked.items() if value == PAPER[key]]
    if not of_paper:
        return ""
    shown = ", ".join(f"{key} = {PAPER[key]}" for key in of_paper)
    settings = " ".join(f"--set={key}={value}" for key, value in fitting.items())
    return (
        f"{shown}: the paper's, for thousands of people; what fits {people} people and embeddings "
        f"of {dim} values: {settings}"
    )


def _value(config: TrainingConfig, key: str) -> object:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)
