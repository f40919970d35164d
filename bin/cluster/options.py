"""--cluster and what goes with it."""

import itertools
import shlex
from dataclasses import dataclass
from typing import ClassVar

from dcaplda.bin.common.option_groups import check_choice, check_not_negative
from dcaplda.bin.common.options import CommonOptions, option

MOST_PARTS = 1_000_000
_OURS = ("--array", "-a", "--output", "-o", "--parsable", "--wait", "-W", "--wrap", "--chdir", "-D")
"""Options of sbatch without which parts would not be found again."""


@dataclass(frozen=True, kw_only=True)
class Cluster(CommonOptions):
    """Where the parts of a tool's work are done."""

    CLUSTERS: ClassVar[tuple[str, ...]] = ("local", "slurm", "none")

    cluster: str = option(
        "",
        "do the work in --nj parts: slurm (one array), local (processes), none (print the script)",
        counts="never",
    )
    nj: int = option(0, "parts of the work, for --cluster", counts="never")
    cluster_options: str = option(
        "", "options of sbatch, as '--partition=big --mem=8G --time=2:00:00'", counts="never"
    )
    retries: int = option(2, "how often a part that failed is tried again", counts="never")

    def check(self) -> None:
        """Check choices, and that nothing is given that would not be used."""
        if not self.cluster:
            if self.nj or self.cluster_options:
                raise ValueError("--nj and --cluster-options need --cluster, see --help")
            return
        check_choice(self, "cluster", self.CLUSTERS)
        check_not_negative(self, "retries")
        if not 1 <= self.nj <= MOST_PARTS:
            raise ValueError(f"--nj={self.nj}: --cluster needs a number of parts, at least 1")
        if getattr(self, "num_parts", 0):
            raise ValueError("--cluster makes the parts itself: leave --part and --num-parts out")
        if self.cluster_options and self.cluster == "local":
            raise ValueError("--cluster-options are for sbatch; --cluster=local has none")
        try:
            words = self.sbatch_options()
        except ValueError as error:
            raise ValueError(f"--cluster-options={self.cluster_options}: {error}") from None
        for word in words:
            if word.split("=")[0] in _OURS:
                raise ValueError(f"--cluster-options={word}: that is --cluster's own; leave it out")

    def sbatch_options(self) -> list[str]:
        """The words of --cluster-options."""
        return shlex.split(self.cluster_options)

    def task_threads(self) -> int:
        """Processors that a task on the cluster has: what sbatch is asked for, else one."""
        words = self.sbatch_options()
        for word, following in itertools.pairwise([*words, ""]):
            name, _, value = word.partition("=")
            if word.startswith("-c") and word[2:].isdecimal():
                value = word[2:]
            elif name not in ("-c", "--cpus-per-task"):
                continue
            value = value or following
            if value.isdecimal() and int(value):
                return int(value)
        return 1
