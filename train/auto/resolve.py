"""Between reading the data and LDA: facts, nonsense refused, settings chosen, doubts said."""

from dataclasses import dataclass, replace
from typing import Any

from dcaplda.train.auto.choose import Choice, choose
from dcaplda.train.auto.facts import Facts, count, refuse_nonsense
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.config import VARIANTS, ModelConfig
from dcaplda.train.recipe.auto import with_values
from dcaplda.train.recipe.sections import DataSection, ModelSection, TrainingConfig

ROUGH = 30
"""People below which every figure is rough."""


@dataclass(frozen=True)
class Plan:
    """The recipe to train with, and what is to be told about it."""

    config: TrainingConfig
    choices: list[Choice]
    lines: list[str]
    doubts: list[str]
    """What cannot be known from these data."""
    recipe: TrainingConfig = TrainingConfig()
    """The recipe before, with what is "auto" in it."""
    facts: Facts | None = None
    """None where nothing was "auto"."""


def reading(config: TrainingConfig) -> tuple[DataSection, bool]:
    """How to read the data, and whether durations must be there, before anything is chosen."""
    guessed = {key: "guessed" for key in config.auto if key.startswith("data.missing")}
    section = with_values(config, guessed).data
    needed = "model.variant" not in config.auto and VARIANTS[config.model.variant].duration_stage
    return section, needed


def resolve(
    config: TrainingConfig, data: TrainingData, place: str, given: ModelConfig | None = None
) -> Plan:
    """Decide what is "auto"; `given` is the model to start from, whose shape is kept."""
    if not config.auto:
        return Plan(config, [], [], [])
    if given is not None:
        config = _shaped(config, given)
    facts = count(data)
    refuse_nonsense(data, facts, place)
    resolved = choose(config, facts)
    lines = [facts.line(), *told(resolved.choices)]
    return Plan(resolved.config, resolved.choices, lines, _doubts(facts), config, facts)


def judged_by_sets(plan: Plan) -> Plan:
    """The plan where development sets choose the model: its calibration is theirs too.

    Known only once the sets are read: those that are too small to choose are as if not there.
    """
    reasons = {
        "held_out.calibrate": "the development sets choose the model as it is",
        "held_out.contest": "the development sets choose",
    }
    changed = [
        replace(choice, value=False, reason=reasons[choice.setting])
        if choice.setting in reasons and choice.value
        else choice
        for choice in plan.choices
    ]
    if changed == plan.choices:
        return plan
    own = {choice.setting: choice.value for choice in changed if choice.setting in reasons}
    lines = [plan.lines[0], *told(changed)]
    return replace(plan, config=with_values(plan.config, own), choices=changed, lines=lines)


def told(choices: list[Choice]) -> list[str]:
    """One line per reason."""
    by_reason: dict[str, list[str]] = {}
    for choice in choices:
        setting = f"{choice.setting} = {as_written(choice.value)}"
        by_reason.setdefault(choice.reason, []).append(setting)
    return [f"auto: {', '.join(own)} ({reason})" for reason, own in by_reason.items()]


def _shaped(config: TrainingConfig, given: ModelConfig) -> TrainingConfig:
    """The recipe with the sizes of a model that is there already, and no parts held out: models
    without them would start elsewhere."""
    known = ModelSection.__dataclass_fields__
    values = {
        f"model.{key}": value
        for key, value in given.to_dict().items()
        if key in known and f"model.{key}" in config.auto
    }
    for key, none in (("people", 0), ("domains", 0), ("calibrate", False), ("contest", False)):
        if f"held_out.{key}" in config.auto:
            values[f"held_out.{key}"] = none
    return with_values(config, values)


def _doubts(facts: Facts) -> list[str]:
    doubts = []
    if facts.people < ROUGH:
        doubts.append(
            f"{facts.people} people: every figure will be rough, and rare errors (a prior of 0.01) "
            "cannot be measured"
        )
    if facts.groups == 1:
        doubts.append(
            "one domain (or all share people): what another microphone, line or language does to "
            "the scores cannot be learnt or measured here"
        )
    elif facts.groups == 2:
        doubts.append(
            "two groups of domains: too few to take turns, so what a new one costs is not measured"
        )
    if facts.seconds is None:
        doubts.append("no durations (utt2dur): short utterances will be trusted as long ones")
    elif facts.seconds[0] == facts.seconds[2]:
        doubts.append(
            f"all durations are {facts.seconds[0]:g} s: what shorter and longer utterances do to "
            "the scores is not taught"
        )
    return doubts


def as_written(value: Any) -> str:
    """As a recipe has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
