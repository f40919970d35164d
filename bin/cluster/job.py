"""A job of many parts, and the script that does one of them under any scheduler."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

PART = "@PART@"
"""Stands for the number of a part in the words of a command."""
_NODE = re.compile(r"^# part [0-9]+ of [0-9]+ on (\S+) at ", re.M)
_LOG_END = 20_000
"""Bytes at the end of a log in which the reason of a failure is looked for."""


@dataclass(frozen=True)
class Job:
    """The same command for each of `count` parts, which count from 1."""

    name: str
    count: int
    command: Sequence[str]
    """Words; PART stands for the number of the part."""
    folder: Path
    """Where logs, the script and the record of what was submitted lie."""
    is_done: Callable[[int], bool]
    directory: Path
    """Where the command is run."""

    @property
    def logs(self) -> Path:
        """The folder of the logs."""
        return self.folder / "log"

    def script(self, options: Sequence[str] = ()) -> str:
        """The text of the script, with `options` of sbatch in its head.

        The number of the part is that of the scheduler's task and the script's argument in sum: an
        array that is cut begins again at 1, and `bash script 3` does part 3.
        """
        task = "${SLURM_ARRAY_TASK_ID:-${SGE_TASK_ID:-${PBS_ARRAY_INDEX:-0}}}"
        said = f'echo "# part $part of {self.count}'
        lines = [
            "#!/usr/bin/env bash",
            *(f"#SBATCH {word}" for word in options),
            f"# One part of {self.name}: the task of the array, or the number given as argument.",
            f"part=$(({task} + ${{1:-0}}))",
            f"cd {shlex.quote(str(self.directory))} || exit 1",
            f'{said} on $(hostname) at $(date -Is), job ${{SLURM_JOB_ID:-${{JOB_ID:-$$}}}}"',
            " ".join(_word(word) for word in self.command),
            "status=$?",
            f'{said} ended with status $status at $(date -Is)"',
            "exit $status",
        ]
        return "\n".join(lines) + "\n"


def _word(word: str) -> str:
    """A word for the shell, in which PART becomes the variable."""
    pieces = [shlex.quote(piece) if piece else "" for piece in word.split(PART)]
    return '"$part"'.join(pieces) or "''"


@dataclass(frozen=True)
class LogEnd:
    """What a log tells of its last try."""

    node: str
    reason: str


def read_log(path: Path) -> LogEnd:
    """The node that the last try ran on, and the last thing that was said; empty if unknown."""
    try:
        with open(path, "rb") as stream:
            stream.seek(max(0, path.stat().st_size - _LOG_END))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return LogEnd("", "")
    nodes = _NODE.findall(text)
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("# part ")]
    errors = [line for line in lines if "ERROR" in line or "error:" in line]
    return LogEnd(nodes[-1] if nodes else "", (errors or lines or [""])[-1].strip())
