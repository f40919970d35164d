"""The seeds of a training as parts of a job, each in its own directory and gone on with there."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dcaplda.bin.cluster.parts import cut
from dcaplda.bin.cluster.whole import do_all, part_job, print_script, task_threads
from dcaplda.bin.common.options import Log, Tool
from dcaplda.bin.common.version import version
from dcaplda.runtime.parts import digests
from dcaplda.runtime.parts.stamps import Work, claim, claimed
from dcaplda.train.recipe.files import config_to_toml
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.seeds import seed_directory
from dcaplda.train.summary import read_summary

FOLDER = "parts"
"""Below the directory of the experiment: logs and the script, until all seeds are there."""
_TABLES = ("utt2spk", "utt2dur", "utt2num_frames", "utt2sess", "utt2dom", "segments")


class SharedSeeds:
    """Which seeds there are, what they are trained on, and which are finished."""

    def __init__(
        self,
        tool: Tool,
        options: Any,
        arguments: list[str],
        seeds: list[int],
        config: TrainingConfig,
    ) -> None:
        self.tool, self.arguments, self.seeds = tool, arguments, seeds
        if options.cluster:
            # More parts than seeds would have nothing to do; threads change the sums.
            threads = options.threads or task_threads(options)
            options = replace(options, nj=min(options.nj, len(seeds)), threads=threads)
        self.options = options
        self.directory = Path(arguments[2])
        self.work = _work(tool, self.options, arguments, config)

    def claimed(self, cut: tuple[int, int]) -> list[int]:
        """Seeds of a part, their directories marked with what is trained there."""
        mine = self.seeds[slice(*cut)]
        for seed in mine:
            claim(seed_directory(self.directory, seed), self.work)
        return mine

    def is_finished(self, seed: int) -> bool:
        """Whether the model of a seed is there, trained on these very data by this recipe."""
        place = seed_directory(self.directory, seed)
        known = claimed(place)
        if known is None or known.fingerprint != self.work.fingerprint:
            return False
        summary = read_summary(place)
        return summary is not None and "stopped" not in summary

    def run(self, log: Log) -> bool:
        """Have all seeds trained; False if only the script was printed."""
        options = self.options
        folder = self.directory / FOLDER

        def is_done(part: int) -> bool:
            begin, end = cut(len(self.seeds), part, options.nj)
            return all(self.is_finished(seed) for seed in self.seeds[begin:end])

        job = part_job(self.tool, options, self.arguments, folder, is_done)
        if options.cluster == "none":
            select = f"train-backend --seeds={options.seeds} --select {self.directory}"
            print_script(job, options, [f"Then, to select: {select}"])
            return False
        for seed in self.seeds:
            claim(seed_directory(self.directory, seed), self.work)
        return do_all(job, self.tool, options, self.arguments, log)


def _work(tool: Tool, options: Any, arguments: Sequence[str], config: TrainingConfig) -> Work:
    """All that makes a trained model what it is, but the seed, which is its directory's name."""
    data_dir, vectors, _ = arguments
    tables = [str(Path(data_dir) / name) for name in _TABLES]
    found = {
        "data": digests.of_text(*(digests.of_path(t) for t in tables if Path(t).is_file())),
        "vectors": digests.of_vectors(vectors, options.scp_root),
    }
    if options.start_model:
        found["start model"] = digests.of_path(options.start_model)
    for dev in config.dev:
        root = dev.scp_root
        named = [digests.of_vectors(x, root) for x in (dev.xvectors,) if x]
        named += [
            digests.of_table(x) for x in (dev.trials, dev.durations, dev.spk2utt, dev.utt2dom) if x
        ]
        found[f"development set {dev.name}"] = digests.of_text(*named)
    settings = {"version": version(), "recipe": digests.of_text(config_to_toml(config))}
    settings |= {"device": options.device, "threads": str(options.threads)}
    return Work(tool.name, 1, found, settings)
