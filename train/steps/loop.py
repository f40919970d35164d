"""The three stages of training: steps, evaluation, selection, checkpoints."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dcaplda.runtime.errors import ModelError
from dcaplda.train.data.batches import Batch, BatchWalker
from dcaplda.train.data.disturbances import Disturber
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.rings import Ints
from dcaplda.train.model.backend import Backend
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.selection.losses import Evaluator, Losses
from dcaplda.train.steps.averaging import Candidate, Parameters, copied, make_averager
from dcaplda.train.steps.checkpoints import Checkpoint, prefixed, save_checkpoint, unprefixed
from dcaplda.train.steps.held_out import HeldOut, HeldOutWalker
from dcaplda.train.steps.log import TrainingLog
from dcaplda.train.steps.objective import Optimizer
from dcaplda.train.steps.restoring import check_checkpoint, damaged
from dcaplda.train.steps.stopping import Stopped

BAD_BATCH = "bad_batch.txt"


@dataclass
class Progress:
    """Where a run stands."""

    stage: int = 0
    """Stage, counted from 0; 3 when all are done."""
    step: int = 0
    """Steps made in this stage."""
    total: int = 0
    """Steps made in all stages."""
    start: dict[str, Any] = field(default_factory=dict)
    """Losses before the first step."""


class Trainer:
    """A run on given data; `run` starts it or goes on where `resume` found it."""

    def __init__(
        self,
        model: Backend,
        data: TrainingData,
        evaluator: Evaluator,
        config: TrainingConfig,
        identity: dict[str, Any],
        directory: Path,
        device: torch.device,
        held_out: HeldOut | None = None,
        stepping: bool = True,
    ) -> None:
        """`identity` is JSON that tells this run from others: its configuration and data.

        With `stepping` false no step will be made, and no batch need fit the data.
        """
        self.model = model.to(device)
        self.data = data
        self.evaluator = evaluator
        self.config = config
        self.identity = identity
        self.directory = directory
        self.device = device
        self.walker: BatchWalker | HeldOutWalker | None
        if not stepping:
            self.walker = None
        elif held_out is None:
            self.walker = BatchWalker(data, config.batch, config.run.seed)
        else:
            self.walker = HeldOutWalker(data, config.batch, config.run.seed, held_out.parts)
        self.disturber = Disturber(data, config.batch)
        self.optimizer = Optimizer(model, data, config.objective, device, held_out, self.disturber)
        self.averager = make_averager(config.averaging)
        self.progress = Progress()
        self.best: Candidate | None = None
        self._saved_log_bytes = 0

    # -- running ---------------------------------------------------------------------------

    def run(
        self,
        report: Callable[[Progress, dict[str, float]], None],
        stop: Callable[[], bool] = lambda: False,
    ) -> Candidate:
        """Train to the end; `report` is called after every step with figures to show.

        When `stop` says so after a step, its state is saved and Stopped is raised.
        """
        log = TrainingLog(self.directory, self._saved_log_bytes)
        try:
            if self.progress.total == 0 and self.best is None:
                losses = self._evaluate(log, minimum=True)
                if losses is not None:
                    self.progress.start = {"actual": losses.actual, "minimum": losses.minimum}
            while self.progress.stage < len(self.config.stages):
                self._run_stage(log, report, stop)
            self._save(log)
        finally:
            log.close()
        return self._result()

    def finish(self) -> Candidate:
        """What the steps made so far have reached; the log ends where they do."""
        TrainingLog(self.directory, self._saved_log_bytes).close()
        return self._result()

    @property
    def asked(self) -> int:
        """Steps of the whole recipe."""
        return sum(stage.steps for stage in self.config.stages)

    def _run_stage(
        self,
        log: TrainingLog,
        report: Callable[[Progress, dict[str, float]], None],
        stop: Callable[[], bool],
    ) -> None:
        progress = self.progress
        section = self.config.stages[progress.stage]
        if progress.step == 0 and section.steps:
            self._begin_stage()
        self.optimizer.set_rate(section.rate)
        while progress.step < section.steps:
            if stop():
                self._save(log)
                raise Stopped(progress.total, self.asked)
            assert self.walker is not None, "a run with steps has batches"
            batch = self.walker.next_batch()
            disturbance = self.disturber.draw(batch, self.walker.rng)
            loss, norm = self.optimizer.step(batch, disturbance)
            progress.step += 1
            progress.total += 1
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise self._breakdown(batch, loss, norm)
            log.write({**self._place(), "loss": loss, "gradient_norm": norm})
            if progress.stage > 0:
                self.averager.step(self._parameters())
            figures = {"loss": loss}
            last = progress.step == section.steps
            if last or progress.step % section.evaluate_every == 0:
                minimum = last or progress.total % self.config.run.minimum_every == 0
                losses = self._evaluate(log, minimum)
                if losses is not None:
                    figures["dev"] = losses.average
            report(progress, figures)
            if not last and progress.total % self.config.run.checkpoint_every == 0:
                self._save(log)
        progress.stage += 1
        progress.step = 0
        if section.steps:
            self._save(log)

    def _begin_stage(self) -> None:
        """Stage 3 starts from the best model; averages start with their stage."""
        if self.progress.stage == 2:
            if self.best is not None:
                self._set_parameters(self.best.parameters)
            # Adam's moments belong to the place that training left.
            self.optimizer.restart()
        if self.progress.stage > 0:
            self.averager.start(self._parameters())

    def _evaluate(self, log: TrainingLog, minimum: bool) -> Losses | None:
        if not self.evaluator.sets:
            return None
        losses = self.evaluator.evaluate(self.model, minimum)
        place = self._place()
        row: dict[str, Any] = {**place, "average": losses.average, "actual": losses.actual}
        if minimum:
            row["minimum"] = losses.minimum
        log.write(row)
        if self.best is None or losses.average < self.best.loss:
            self.best = Candidate(losses.average, copied(self._parameters()), place)
        if self.progress.stage > 0:
            self.averager.met(self._parameters(), losses.average, place, self._judge)
        return losses

    def _result(self) -> Candidate:
        """The best model, or a better average; the last of either where nothing judges."""
        if self.best is None:
            average = self.averager.last()
            place = {"last": self.progress.total}
            if average is not None:
                return Candidate(math.nan, average.parameters, {**average.place, **place})
            return Candidate(math.nan, copied(self._parameters()), place)
        average = self.averager.best(self._judge)
        return average if average is not None and average.loss < self.best.loss else self.best

    def _judge(self, parameters: Parameters) -> float:
        """Average loss of other parameters; the model itself comes back unchanged."""
        own = copied(self._parameters())
        self._set_parameters(parameters)
        loss = self.evaluator.evaluate(self.model).average
        self._set_parameters(own)
        return loss

    def _breakdown(self, batch: Batch, loss: float, norm: float) -> ModelError:
        """Name the step and the batch that broke the arithmetic."""
        place = self.directory / BAD_BATCH
        names = [self.data.ids[row] for row in batch.rows]
        place.write_text("\n".join(names) + "\n", encoding="utf-8")
        what = f"loss is {loss}" if not math.isfinite(loss) else f"gradient norm is {norm}"
        return ModelError(
            f"stage {self.progress.stage + 1} step {self.progress.step}: {what}; the batch is "
            f"{names[0]} ... {names[-1]} ({len(names)} utterances, all in {place}); try a lower "
            "rate"
        )

    # -- state -----------------------------------------------------------------------------

    def _place(self) -> dict[str, int]:
        progress = self.progress
        return {"stage": progress.stage + 1, "step": progress.step, "total": progress.total}

    def _parameters(self) -> Parameters:
        return dict(self.model.named_parameters())

    def _set_parameters(self, parameters: Parameters) -> None:
        with torch.no_grad():
            for name, own in self.model.named_parameters():
                own.copy_(parameters[name])

    def _save(self, log: TrainingLog) -> None:
        tensors: dict[str, Tensor] = prefixed("model", self._parameters())
        tensors.update(prefixed("adam", self.optimizer.state()))
        if self.walker is not None:
            tensors.update(prefixed("walker", _tensors(self.walker.state())))
        averages, average_values = self.averager.state()
        tensors.update(prefixed("averager", averages))
        tensors["random"] = torch.get_rng_state()
        best = None
        if self.best is not None:
            tensors.update(prefixed("best", self.best.parameters))
            best = {"loss": self.best.loss, "place": self.best.place}
        values = {
            "identity": self.identity,
            "progress": vars(self.progress),
            "generator": None if self.walker is None else self.walker.rng.bit_generator.state,
            "best": best,
            "averager": average_values,
            "log_bytes": log.flush(),
        }
        save_checkpoint(self.directory, tensors, values)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go back to a checkpoint of this run; a damaged one is an error, and changes nothing."""
        walker = None if self.walker is None else _tensors(self.walker.state())
        check_checkpoint(checkpoint, self._parameters(), self.optimizer.parameters, walker)
        values = checkpoint.values
        tensors = {
            name: tensor if name.startswith(("walker.", "random")) else tensor.to(self.device)
            for name, tensor in checkpoint.tensors.items()
        }
        try:
            self._restore_random(tensors, values)
            self.averager.restore(unprefixed("averager", tensors), values["averager"])
        except (ModelError, RuntimeError, KeyError, TypeError) as error:
            raise damaged(checkpoint, str(error)) from None
        self._set_parameters(unprefixed("model", tensors))
        self.optimizer.restore(unprefixed("adam", tensors))
        self.progress = Progress(**values["progress"])
        if values["best"] is not None:
            best = values["best"]
            self.best = Candidate(best["loss"], unprefixed("best", tensors), best["place"])
        self._saved_log_bytes = values["log_bytes"]

    def _restore_random(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Batches and random numbers go on where they stood."""
        if self.walker is not None and values["generator"] is not None:
            walker = {key: value.numpy() for key, value in unprefixed("walker", tensors).items()}
            self.walker.restore(walker, values["generator"])
        torch.set_rng_state(tensors["random"])


def _tensors(state: dict[str, Ints]) -> dict[str, Tensor]:
    return {key: torch.from_numpy(value) for key, value in state.items()}
