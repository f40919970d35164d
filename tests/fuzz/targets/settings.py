"""Files of settings: options, recipes, worlds, tables of sets, calibrations, notes."""

import dataclasses
import importlib
import json
import math
import tomllib
from typing import Any

from fuzz.choices import Choices
from fuzz.edits import STRANGE, edited_tree, json_bytes, toml_bytes
from fuzz.target import OTHER, SAME, Target, require

from dcaplda.bin.common.options import parse
from dcaplda.eval import score_calibration
from dcaplda.eval.sets import read_table
from dcaplda.eval.trials.conditions import SideFiles
from dcaplda.runtime.tables.voiceprint_tag import check_tag
from dcaplda.simulate.config import load_world
from dcaplda.train.early import check_recipe
from dcaplda.train.recipe.files import config_to_dict, load_recipe
from dcaplda.train.recipe.problems import Problems

TOOLS = ("score_trials", "eval_scores", "enroll_speakers", "search_speakers", "make_trials")
ARGUMENTS = ["a"] * 5


def equal(found: Any, told: Any) -> bool:
    """The same value, of the same kind; a whole number may stand for a fraction."""
    if isinstance(told, dict) and isinstance(found, dict):
        return all(key in found and equal(found[key], value) for key, value in told.items())
    if isinstance(told, (list, tuple)) and isinstance(found, (list, tuple)):
        pairs = zip(found, told, strict=False)
        return len(found) == len(told) and all(equal(a, b) for a, b in pairs)
    if type(found) is type(told):
        return bool(found == told)
    return type(found) is float and type(told) is int and found == float(told)


class Options(Target):
    """Files of options (TOML) of five tools.

    Oracle: every option has the value that Python's own TOML reader finds, of its declared kind;
    numbers are finite. Text may stand for a number, and a number for text.
    """

    name = "options"

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.tools = [importlib.import_module(f"dcaplda.bin.{name}").TOOL for name in TOOLS]

    def attempt(self, choices: Choices) -> str:
        tool = choices.pick(self.tools)
        fields = [f for f in dataclasses.fields(tool.options) if f.name != "config"]
        tree: dict[str, Any] = {}
        for _ in choices.times(4):
            field = choices.pick(fields)
            default = None if field.default is dataclasses.MISSING else field.default
            key = field.name.rstrip("_").replace("_", choices.pick("_-"))
            tree[key] = choices.pick((default, 1, 0, 2, 0.5, "x", True, *STRANGE))
        content = toml_bytes(choices, tree)
        path = self.write("c.toml", content)
        count = tool.arguments if isinstance(tool.arguments, int) else tool.arguments[0]
        options, _ = parse(tool, [f"--config={path}", *ARGUMENTS[:count]])
        for name, told in tomllib.loads(content.decode("utf-8")).items():
            key = name.replace("-", "_")
            found = getattr(options, key if hasattr(options, key) else f"{key}_")
            self._check(name, found, told)
        return SAME

    def _check(self, name: str, found: Any, told: Any) -> None:
        require(not isinstance(found, float) or math.isfinite(found), f"{name} = {found}")
        if isinstance(found, list):
            told = told if isinstance(told, list) else [told]
            require([str(item) for item in told] == found, f"{name}: {told!r} became {found!r}")
        elif isinstance(told, str) and not isinstance(found, str):
            words = {"true": 1, "t": 1, "": 1, "false": 0, "f": 0}
            value = words.get(told.lower()) if told.lower() in words else float(told)
            require(found == value, f"{name}: {told!r} became {found!r}")
        elif isinstance(found, str):
            require(found == str(told), f"{name}: {told!r} became {found!r}")
        else:
            same = found == (float(told) if isinstance(found, float) else told)
            require(same, f"{name}: {told!r} became {found!r}")
            kinds = (bool, int, float)
            require(type(found) in kinds, f"{name}: {told!r} became a {type(found).__name__}")


class Recipe(Target):
    """Recipes of a training.

    Oracle: every key has the value that Python's own TOML reader finds, and nothing is NaN.
    """

    name = "recipe"

    def __init__(self, folder: Any) -> None:
        super().__init__(folder)
        self.tree = config_to_dict(load_recipe(""))
        self.tree.pop("dev")

    def attempt(self, choices: Choices) -> str:
        tree = edited_tree(choices, self.tree)
        if isinstance(tree, dict) and choices.chance(4):
            tree["dev"] = choices.pick(([{"name": "a", "xvectors": "x", "trials": "t"}], *STRANGE))
        content = toml_bytes(choices, tree)
        config = load_recipe(str(self.write("r.toml", content)))
        problems = Problems()
        check_recipe(config, "", problems)
        problems.refuse()
        told = tomllib.loads(content.decode("utf-8"))
        found = config_to_dict(config)
        told.pop("dev", None)
        require(equal(found, told), "a value was not taken as it stands")
        require("nan" not in json.dumps(found).lower().replace("nanos", ""), "a NaN was taken")
        return SAME


WORLD = {
    "space": {
        "dim": 8, "speaker_axes": 4, "speaker_first": 4.0, "speaker_last": 1.0,
        "chunk_seconds": 10.0, "offset_rank": 2,
    },
    "sets": {"chunks": 2, "heldout_speakers": 3, "chunk_seconds": [4.0, 60.0]},
    "qualities": {"gender": {"values": ["f", "m"], "size": 1.0}},
    "factors": {"noise": {"shift": 0.5, "scale": 0.5, "axes": 0.5, "chunk": 0.5}},
    "domains": {
        "tel": {
            "role": "train", "speakers": 4, "full_seconds": [10.0, 60.0],
            "conditions": [{"p": 0.5}, {"p": 0.5, "noise": 1.0}],
            "qualities": {"gender": {"f": 0.5, "m": 0.5}},
        }
    },
}  # fmt: skip


class World(Target):
    """World files, tables of sets, calibrations, and the notes beside voiceprints.

    Oracle: what is accepted has the values that Python's own readers find; a note that names
    another model is never taken for ours.
    """

    name = "world"

    def attempt(self, choices: Choices) -> str:
        return choices.pick((self._world, self._sets, self._calibration, self._note))(choices)

    def _world(self, choices: Choices) -> str:
        content = toml_bytes(choices, edited_tree(choices, WORLD))
        config = load_world(str(self.write("w.toml", content)))
        told = tomllib.loads(content.decode("utf-8"))
        require(equal(dataclasses.asdict(config), told), "a value was not taken as it stands")
        return SAME

    def _sets(self, choices: Choices) -> str:
        entry = {"name": "a", "trials": "t", "group": "G", "utt2dur": "d"}
        tree = {"set": [entry], "system": [{"name": "s", "scores": "x.{set}", "model": "m"}]}
        content = toml_bytes(choices, edited_tree(choices, tree))
        sets, systems = read_table(str(self.write("s.toml", content)), SideFiles())
        told = tomllib.loads(content.decode("utf-8"))
        require([s.name for s in sets] == [s["name"] for s in told["set"]], "other names")
        require([s.name for s in systems] == [s["name"] for s in told["system"]], "other names")
        return SAME

    def _calibration(self, choices: Choices) -> str:
        tree = {
            "format": "dcaplda-calibration", "alpha": 1.5, "beta": -0.5, "prior": 0.01,
            "n_target": 10, "n_nontarget": 20, "cllr": 0.3,
        }  # fmt: skip
        content = json_bytes(choices, edited_tree(choices, tree))
        found = score_calibration.load(str(self.write("c.json", content)))
        told = json.loads(content)
        require(equal(dataclasses.asdict(found), {k: told[k] for k in ("alpha", "beta")}), "other")
        require(math.isfinite(found.alpha) and math.isfinite(found.beta), "not finite")
        return SAME

    def _note(self, choices: Choices) -> str:
        tree = edited_tree(choices, {"model_fingerprint": "a" * 64})
        self.write("x.ark", b"")
        self.write("x.ark.json", json_bytes(choices, tree))
        known = check_tag(f"ark:{self.folder}/x.ark", "", "a" * 64)
        told = json.loads((self.folder / "x.ark.json").read_bytes())
        ours = isinstance(told, dict) and told.get("model_fingerprint") == "a" * 64
        require(known == ours, "a note of another model was taken for ours")
        return SAME if known else OTHER
