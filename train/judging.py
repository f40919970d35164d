"""What judges a run: development sets, or where these are too small parts held out."""

from collections.abc import Callable

from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.selection.losses import Evaluator

FEW_TARGETS = 200
"""Target trials of all development sets together below which they cannot choose between steps."""


def takes_turns(config: TrainingConfig) -> bool:
    """Whether parts of the training data are held out in turn to judge the result."""
    return config.held_out.people > 0 or config.held_out.domains > 0


def sets_choose(evaluator: Evaluator, config: TrainingConfig) -> bool:
    """Whether the development sets select the model; small ones only where nothing else can."""
    if not evaluator.sets:
        return False
    return _n_targets(evaluator) >= FEW_TARGETS or not takes_turns(config)


def _n_targets(evaluator: Evaluator) -> int:
    return sum(int(dev.targets.sum()) for dev in evaluator.sets)


def judging(evaluator: Evaluator, config: TrainingConfig, warn: Callable[[str], None]) -> Evaluator:
    """What selects the model: the development sets, or nothing where they are too small."""
    if not evaluator.sets or sets_choose(evaluator, config):
        return evaluator
    calibrated = " and correct its calibration" if config.held_out.calibrate else ""
    warn(
        f"the development sets have {_n_targets(evaluator)} target trials, too few to choose a "
        f"model by (at least {FEW_TARGETS}): they are only reported, and parts held out judge the "
        f"result{calibrated}"
    )
    return Evaluator([], evaluator.prior)
