"""What is asked in a contest: settings that rules chose, and values that might be better.

Only what is "auto" is asked about. Every value is tried in place of the one that the contest has
come to, so that later questions build on what earlier ones found.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from dcaplda.train.auto import families
from dcaplda.train.auto.facts import Facts
from dcaplda.train.recipe.sections import TrainingConfig

Values = dict[str, Any]
"""Settings, as `model.lda_dim`, and their values."""


@dataclass(frozen=True)
class Question:
    """A setting, and what else it might be."""

    setting: str
    candidates: Callable[[TrainingConfig, Facts], list[Values]]

    def asked(self, config: TrainingConfig, facts: Facts, free: Collection[str]) -> list[Values]:
        """Candidates that change only what is free."""
        if self.setting not in free:
            return []
        own = [
            {key: value for key, value in values.items() if key in free}
            for values in self.candidates(config, facts)
            # What must change together is free together, or not tried.
            if all(key in free for key in values if key not in FOLLOWERS)
        ]
        return [
            values
            for values in own
            if values[self.setting] != current(config, self.setting) and _possible(config, values)
        ]


FOLLOWERS = ("model.side_hidden_dim", "model.side_info_dim", "model.recordings")
"""What follows another setting where it may."""


def _possible(config: TrainingConfig, values: Values) -> bool:
    """Whoever asks for recordings has asked for a joint model."""
    joint, recordings = (
        values.get(key, current(config, key)) for key in ("model.joint", "model.recordings")
    )
    return bool(joint or not recordings)


def current(config: TrainingConfig, setting: str) -> Any:
    """The value of a setting."""
    section, name = setting.split(".")
    return getattr(getattr(config, section), name)


def _times(setting: str, *factors: float) -> Question:
    def candidates(config: TrainingConfig, facts: Facts) -> list[Values]:
        return [{setting: round(current(config, setting) * factor, 4)} for factor in factors]

    return Question(setting, candidates)


def _fewer_directions(config: TrainingConfig, facts: Facts) -> list[Values]:
    share = max(1, int(families.LDA_SHARE * facts.dim))
    return [{"model.lda_dim": share}] if share < config.model.lda_dim else []


def _other_variant(config: TrainingConfig, facts: Facts) -> list[Values]:
    if config.model.joint:
        return [{"model.variant": "plda", "model.joint": False, "model.recordings": False}]
    if config.model.variant == "plda" and facts.seconds is not None and facts.groups > 1:
        recordings = facts.in_sessions >= families.IN_SESSIONS
        joint: Values = {"model.variant": "plda-dd", "model.joint": True}
        return [{**joint, "model.recordings": recordings}]
    return []


def _other_sizes(config: TrainingConfig, facts: Facts) -> list[Values]:
    found = []
    for share in families.LDA_SHARES:
        size = max(1, min(int(share * facts.dim), facts.people_left - 1))
        hidden = max(1, facts.dim - size)
        values: Values = {"model.lda_dim": size, "model.side_hidden_dim": hidden}
        values["model.side_info_dim"] = min(config.model.side_info_dim, hidden)
        found.append(values)
    return found


FEW: list[Question] = [
    _times("init.lda_shrinkage", 1 / 16, 1 / 64),
    _times("init.shrinkage_between", 0.3),
    _times("init.shrinkage", 1 / 3, 3.0),
    Question("model.lda_dim", _fewer_directions),
    _times("init.shared_offset", 0.0),
    Question("model.variant", _other_variant),
]
"""Without steps, in this order: LDA first, since the rest depends on it."""
MANY: list[Question] = [Question("model.lda_dim", _other_sizes)]
"""With steps; their number is asked about apart, since it takes no models of its own."""


def step_counts(config: TrainingConfig, longer: bool) -> list[int]:
    """Other numbers of steps of stage 1."""
    shares = (*families.STEP_SHARES, *((families.LONGER,) if longer else ()))
    return sorted({int(round(share * config.stage1.steps)) for share in shares})
