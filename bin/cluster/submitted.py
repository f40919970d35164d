"""Parts through submitit: a task whose time is over keeps what it reached, and is queued again.

submitit submits and queues again; who is at work is asked of squeue as for any array, since
`job.state` asks sacct, which sites without accounting do not have.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dcaplda.bin.cluster import seed_task
from dcaplda.bin.cluster.job import PART, Job
from dcaplda.bin.cluster.slurm import Array, Slurm
from dcaplda.runtime.errors import UsageError

USUAL_MINUTES = 24 * 60
"""Time of a task if --cluster-options has no --time; then it is queued again."""
MOST_TURNS = 1000
"""How often a task may come to the end of its time."""
_OPTION = re.compile(r"--([a-z][a-z0-9-]*)=(.*)", re.S)
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")


class Submitit(Slurm):
    """As Slurm, but submitit writes the scripts and reacts to the end of a task's time."""

    def __init__(self, job: Job, options: Sequence[str], warn: Callable[[str], None]) -> None:
        super().__init__(job, options, warn)
        self._parameters, self._minutes = _parameters(options)

    def log_of(self, part: int) -> Path:
        """Where a part talks to."""
        for array in reversed(self._arrays):
            if part in array.parts:
                task = f"_{array.parts.index(part)}" if len(array.parts) > 1 else ""
                return self.job.logs / f"{array.id}{task}_0_log.err"
        return self.job.logs

    def submit(self, parts: Sequence[int]) -> str:
        """Submit one array, or one for each stretch that the site allows."""
        size = self._longest + 1  # submitit counts from 0
        cuts = range(0, len(parts), size)
        numbers = [self._submit_tasks(parts[first : first + size]) for first in cuts]
        return f"Slurm job{'s' if len(numbers) > 1 else ''} {', '.join(numbers)} by submitit"

    def _submit_tasks(self, parts: Sequence[int]) -> str:
        import cloudpickle
        import submitit

        # By value: the node need not know where this project lies.
        cloudpickle.register_pickle_by_value(seed_task)
        executor = submitit.SlurmExecutor(folder=self.job.logs, max_num_timeout=MOST_TURNS)
        executor.update_parameters(
            job_name=self.job.name,
            time=self._minutes,
            additional_parameters={"requeue": True, **self._parameters},
            array_parallelism=len(parts),
        )
        try:
            jobs = _submitted(executor, [self._task(part) for part in parts])
        except submitit.core.utils.FailedJobError as error:
            raise UsageError(f"sbatch refused the array: {error}; see --cluster-options") from None
        number = str(jobs[0].job_id).split("_")[0]
        self._record(Array(number, 0, tuple(parts)))
        return number

    def _task(self, part: int) -> seed_task.SeedTask:
        command = [word.replace(PART, str(part)) for word in self.job.command]
        title = f"part {part} of {self.job.count}"
        return seed_task.SeedTask(command, str(self.job.directory), title)


def _submitted(executor: Any, tasks: Sequence[seed_task.SeedTask]) -> list[Any]:
    """The jobs of tasks, in one array."""
    with executor.batch():
        return [executor.submit(task) for task in tasks]


def _parameters(options: Sequence[str]) -> tuple[dict[str, str], int]:
    """Options of sbatch as submitit takes them, and the minutes of --time."""
    found: dict[str, str] = {}
    for word in options:
        match = _OPTION.fullmatch(word)
        if match is None:
            raise UsageError(
                f"--cluster-options: '{word}': --cluster=submitit takes options as --name=value"
            )
        found[match[1]] = match[2]
    if "time" not in found:
        return found, USUAL_MINUTES
    return found, minutes(found.pop("time"))


def minutes(text: str) -> int:
    """Minutes of a time as Slurm writes it: M, M:S, H:M:S, D-H, D-H:M or D-H:M:S."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise UsageError(f"--cluster-options: --time={text}: expected minutes, or hours:minutes:00")
    days, *rest = (None if value is None else int(value) for value in match.groups())
    first, second, third = rest
    assert first is not None
    if days is not None:
        return max(1, (days * 24 + first) * 60 + (second or 0) + (1 if third else 0))
    if third is not None:
        return max(1, first * 60 + (second or 0) + (1 if third else 0))
    return max(1, first + (1 if second else 0))
