"""How far a run is: a bar on a terminal, a line now and then in a log file."""

import math
import sys
import time
from collections.abc import Callable

from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.steps.loop import Progress

# Seconds from one line to the next where stderr is not a terminal.
LINE_EVERY = 60.0


class ProgressBar:
    """Shows rate and remaining time; `say` gets the lines where stderr is not a terminal."""

    def __init__(
        self, config: TrainingConfig, done: int, quiet: bool, say: Callable[[str], None]
    ) -> None:
        from tqdm import tqdm

        self.total = sum(stage.steps for stage in config.stages)
        self.bar = tqdm(
            total=self.total,
            initial=done,
            unit="step",
            disable=quiet or not sys.stderr.isatty(),
            leave=False,
        )
        self.speaks = self.bar.disable and not quiet
        self.say = say
        self.dev = math.nan
        self.first_step = done
        self.started = self.spoken = time.monotonic()

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
        if self.speaks and time.monotonic() - self.spoken >= LINE_EVERY:
            self.spoken = time.monotonic()
            self.say(self.line(progress, figures, self.spoken - self.started))

    def line(self, progress: Progress, figures: dict[str, float], seconds: float) -> str:
        """A line for a log file, after so many seconds."""
        rate = (progress.total - self.first_step) / seconds
        left = (self.total - progress.total) / rate / 60.0
        return (
            f"stage {progress.stage + 1}, step {progress.total} of {self.total}, "
            f"{rate:.1f} steps/s, {left:.0f} min left, loss {figures['loss']:.4f}, "
            f"dev {self.dev:.4f}"
        )
