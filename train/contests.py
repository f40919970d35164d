"""The contest of a run: held once, kept in the experiment's directory, told in its config.toml."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dcaplda.runtime.fields import parse_json
from dcaplda.runtime.files import replacing
from dcaplda.train.auto.choose import Choice
from dcaplda.train.auto.contest import Contested, Match, contest
from dcaplda.train.auto.resolve import Plan
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.identity import data_digest
from dcaplda.train.recipe.auto import with_values
from dcaplda.train.recipe.files import config_to_toml

KEPT = "contest.json"


def hold_contest(
    plan: Plan,
    data: TrainingData,
    directory: Path,
    device: torch.device,
    threads: int,
    say: Callable[[str], None],
) -> Contested:
    """The contest, or what an earlier start of the same run kept of it."""
    if not plan.config.held_out.contest:
        return contest(plan, data, device, say)
    run = _digest(plan, data, device, threads)
    known = _read(directory / KEPT, run, plan)
    if known is not None:
        say(f"{directory / KEPT}: the contest of this run is over; its choices are kept")
        found = known
    else:
        found = contest(plan, data, device, say)
        kept = {
            "run": run,
            "choices": [vars(choice) for choice in found.choices],
            "matches": found.table(),
        }
        with replacing(directory / KEPT) as path:
            path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    for line in found.changes(plan.choices):
        say(line)
    return found


def _digest(plan: Plan, data: TrainingData, device: torch.device, threads: int) -> str:
    """Of all that the contest depends on."""
    asked = [config_to_toml(plan.config), config_to_toml(plan.recipe), data_digest(data)]
    asked += [str(device), str(threads)]
    return hashlib.sha256("\n".join(asked).encode()).hexdigest()[:16]


def _read(path: Path, run: str, plan: Plan) -> Contested | None:
    """What was kept; None where there is nothing, or something of another run or damaged."""
    try:
        kept = parse_json(path.read_bytes())
        if kept["run"] != run:
            return None
        choices = [Choice(**choice) for choice in kept["choices"]]
        values: dict[str, Any] = {choice.setting: choice.value for choice in choices}
        matches = [Match(**match) for match in kept["matches"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if set(values) != {choice.setting for choice in plan.choices}:
        return None
    return Contested(with_values(plan.config, values), choices, matches)


def config_text(contested: Contested) -> str:
    """config.toml: the settings that were used, then as comments what else was tried."""
    text = config_to_toml(contested.config)
    if not contested.matches:
        return text
    tried = "".join(f"# {match.line()}\n" for match in contested.matches)
    return f"{text}\n# Tried on parts held out (docs/training.md, a contest by turns):\n{tried}"
