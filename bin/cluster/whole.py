"""A tool's whole work through its parts: make them somewhere, put them together, once."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcaplda.bin.cluster.children import start_of
from dcaplda.bin.cluster.head import Scheduler, only_head, see_through, write_script
from dcaplda.bin.cluster.job import PART, Job
from dcaplda.bin.cluster.options import Cluster
from dcaplda.bin.cluster.parts import Inputs, work_of
from dcaplda.bin.common.options import Log, Tool, command, words_of
from dcaplda.runtime.errors import UsageError

# Options of the head that a part does not have.
_OF_HEAD: dict[str, Any] = {"cluster": "", "nj": 0, "cluster_options": "", "retries": 2}

Merge = Callable[[list[Path], str], int]
"""From the files of all parts, in order, to the output; how many lines or rows that has."""


def run_parts(
    tool: Tool,
    options: Cluster,
    arguments: list[str],
    inputs: Inputs,
    log: Log,
    merge: Merge | None = None,
) -> int:
    """Do this very command line in --nj parts; its last argument, a file, is what comes out.

    Parts and logs lie in `<output>.parts` until all is done. A second call finds what is there; one
    after the last has nothing to do.
    """
    from dcaplda.runtime.parts.merging import in_order, merge_lines
    from dcaplda.runtime.parts.stamps import is_done, write_stamp
    from dcaplda.runtime.tables.specifiers import check_output

    target = arguments[-1].strip()
    if target in ("-", "") or target.startswith("|"):
        raise UsageError(f"'{target}': parts are kept beside the output of --cluster; name a file")
    check_output(target)
    work = work_of(tool.name, options, arguments, inputs, options.nj)
    whole = replace(work, num_parts=1)
    folder = Path(f"{target}.parts")

    def path_of(part: int | str) -> Path:
        return folder / f"{part}-of-{options.nj}"

    job = part_job(
        tool,
        options,
        [*arguments[:-1], str(path_of(PART))],
        folder,
        lambda part: is_done(path_of(part), work, part),
    )
    if options.cluster != "none" and is_done(target, whole, 1):
        log.info(f"all is done already: {target}")
        return 0

    def finish() -> None:
        paths = in_order([path_of(part) for part in range(1, options.nj + 1)], work)
        count = (merge or merge_lines)(paths, target)
        write_stamp(target, whole, 1)
        log.info(f"put {options.nj} parts together: {count} lines in {target}")

    do_all(job, tool, options, arguments, log, finish)
    return 0


def do_all(
    job: Job,
    tool: Tool,
    options: Cluster,
    arguments: list[str],
    log: Log,
    finish: Callable[[], None] = lambda: None,
) -> bool:
    """Have all parts done, then `finish`; False if only the script was printed.

    Nothing is left of the job's folder then, and no second head comes in between.
    """
    if options.cluster == "none":
        again = command(tool, options, arguments, cluster="local", cluster_options="")
        print_script(job, options, [f"Then, to put the parts together: {again}"])
        return False
    with only_head(job):
        write_script(job)
        see_through(job, scheduler_of(job, options, log), options.retries, log)
        finish()
        shutil.rmtree(job.folder, ignore_errors=True)
    return True


def part_job(
    tool: Tool,
    options: Cluster,
    arguments: list[str],
    folder: Path,
    is_done: Callable[[int], bool],
    **changed: Any,
) -> Job:
    """The job whose parts are this command with --part and --num-parts."""
    if hasattr(options, "threads") and not options.threads:
        changed["threads"] = task_threads(options)
    if not tool.own_config:
        changed["config"] = ""  # what it says is in the options
    words = words_of(options, **_OF_HEAD, part=PART, num_parts=options.nj, **changed)
    started = [*start_of(tool.name), *words, *arguments]
    return Job(tool.name, options.nj, started, folder, is_done, Path(os.getcwd()))


def scheduler_of(job: Job, options: Cluster, log: Log) -> Scheduler:
    """Who runs the parts."""
    if options.cluster == "slurm":
        from dcaplda.bin.cluster.slurm import Slurm

        return Slurm(job, options.sbatch_options(), log.warning)
    if options.cluster == "submitit":
        from dcaplda.bin.cluster.submitted import Submitit

        return Submitit(job, options.sbatch_options(), log.warning)
    from dcaplda.bin.cluster.local import Local

    return Local(job, _at_once(options))


def print_script(job: Job, options: Cluster, afterwards: list[str]) -> None:
    """The script for those who submit by hand, and what to do with it."""
    name = "array.sh"
    head = job.script(
        [
            f"--job-name={job.name}",
            f"--array=1-{job.count}",
            shlex.quote(f"--output={job.logs}/%a.log"),
            "--open-mode=append --requeue",
            *([options.cluster_options] if options.cluster_options else []),
        ]
    )
    logs = shlex.quote(str(job.logs))
    array = f"-t 1-{job.count} -S /bin/bash -j y -o {logs}"
    loop = f"for part in $(seq {job.count}); do bash {name} $part; done"
    lines = [
        f"# Put this into a file {name}, and submit it; finished parts are skipped:",
        *(
            f"#   mkdir -p {logs}; {way}"
            for way in (f"sbatch {name}", f"qsub {array} {name}  (Grid Engine)", loop)
        ),
        *(f"# {line}" for line in afterwards),
    ]
    sys.stdout.write(head + "\n".join(lines) + "\n")


def _at_once(options: Cluster) -> int:
    """Processes side by side: as many as the cores feed."""
    from dcaplda.bin.cluster.local import cores

    given = getattr(options, "threads", 0) or 1
    return max(1, min(options.nj, cores() // given))


def task_threads(options: Cluster) -> int:
    """Threads of a part, where the user has named none."""
    if options.cluster != "local":
        return options.task_threads()
    from dcaplda.bin.cluster.local import cores

    return max(1, cores() // _at_once(options))
