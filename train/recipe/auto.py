"""The value `auto`: settings of a recipe that the data decide (train/auto), not its writer."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from dcaplda.train.recipe.problems import Problems
from dcaplda.train.recipe.sections import TrainingConfig

AUTO = "auto"

AUTO_KEYS = (
    "model.variant",
    "model.lda_dim",
    "model.side_hidden_dim",
    "model.side_info_dim",
    "model.side_activation",
    "model.duration_feature",
    "model.joint",
    "model.recordings",
    "data.missing_domains",
    "data.missing_sessions",
    "init.balance",
    "init.classes",
    "init.domain_offsets",
    "init.shared_offset",
    "init.copy_offset",
    "init.subset",
    "init.em_iterations",
    "init.lda_shrinkage",
    "init.lda_scale",
    "init.shrinkage",
    "init.shrinkage_between",
    "init.calibration_folds",
    "init.calibration_domains",
    "init.duration_start",
    "batch.size",
    "batch.balance",
    "batch.repeat_speakers",
    "batch.held_out_folds",
    "batch.held_out_domains",
    "objective.prior",
    "stage1.steps",
    "stage1.rate",
    "stage2.steps",
    "stage2.rate",
    "stage3.steps",
    "averaging.average",
    "averaging.ema_decay",
    "held_out.people",
    "held_out.domains",
    "held_out.calibrate",
    "held_out.contest",
)
"""What may be "auto"; where there is no recipe, all of it is."""


def everything_auto() -> dict[str, Any]:
    """Values of a recipe that leaves all to the data."""
    values: dict[str, Any] = {}
    for key in AUTO_KEYS:
        section, name = key.split(".")
        values.setdefault(section, {})[name] = AUTO
    return values


def take_auto(
    values: Mapping[str, Any], problems: Problems
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values without those that are "auto", and the names of these."""
    found: list[str] = []
    rest: dict[str, Any] = {}
    for section, table in values.items():
        if not isinstance(table, Mapping):
            rest[section] = table
            continue
        own = [key for key, value in table.items() if value == AUTO]
        wrong: list[str] = []
        for key in own:
            if f"{section}.{key}" not in AUTO_KEYS and _is_key(section, key):
                known = [k for k in AUTO_KEYS if k.startswith(f"{section}.")]
                can = f"; {', '.join(known)} may be" if known else ""
                problems.add(f"[{section}] {key} cannot be 'auto'{can}")
                wrong.append(key)
        auto = [key for key in own if f"{section}.{key}" in AUTO_KEYS]
        found += [f"{section}.{key}" for key in auto]
        taken = {*auto, *wrong}
        rest[section] = {key: value for key, value in table.items() if key not in taken}
    return rest, tuple(sorted(found, key=AUTO_KEYS.index))


def _is_key(section: str, key: str) -> bool:
    """Whether a recipe has this key at all; others have an error of their own."""
    default = getattr(TrainingConfig(), section, None)
    return default is not None and hasattr(default, key)


def is_auto(config: TrainingConfig, *keys: str) -> bool:
    """Whether one of these keys is left to the data."""
    return any(key in config.auto for key in keys)


def with_values(config: TrainingConfig, values: Mapping[str, Any]) -> TrainingConfig:
    """The recipe with `section.key` values in place of what was there, "auto" or not."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    changed = {
        name: dataclasses.replace(getattr(config, name), **table)
        for name, table in sections.items()
    }
    return dataclasses.replace(config, **changed, auto=without(config.auto, values))


def without(auto: Iterable[str], keys: Iterable[str]) -> tuple[str, ...]:
    """Keys of `auto` that are not in `keys`."""
    known = set(keys)
    return tuple(key for key in auto if key not in known)
