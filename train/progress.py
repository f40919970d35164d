"""A bar with rate and remaining time on stderr."""

import math
from collections.abc import Callable

from dcaplda.train.loop import Progress
from dcaplda.train.training_config import TrainingConfig


class ProgressBar:
    """Shows each step; silent where stderr is not a terminal."""

    def __init__(self, config: TrainingConfig, done: int, quiet: bool) -> None:
        from tqdm import tqdm

        total = sum(stage.steps for stage in config.stages)
        # disable=None: tqdm itself looks whether stderr is a terminal.
        self.bar = tqdm(
            total=total, initial=done, unit="step", disable=True if quiet else None, leave=False
        )
        self.dev = math.nan

    def __enter__(self) -> Callable[[Progress, dict[str, float]], None]:
        return self.report

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def report(self, progress: Progress, figures: dict[str, float]) -> None:
        """Show a step."""
        self.dev = figures.get("dev", self.dev)
        self.bar.set_description(f"stage {progress.stage + 1}", refresh=False)
        self.bar.set_postfix(loss=f"{figures['loss']:.4f}", dev=f"{self.dev:.4f}", refresh=False)
        self.bar.update(1)
