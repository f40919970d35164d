"""Options that several tools have mean the same in each, and are refused in the same words."""

import dataclasses
import importlib
import subprocess
import sys
import tomllib
import typing
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from dcaplda.bin.common.option_groups import MULTI_ENROLL
from dcaplda.bin.common.options import CommonOptions, Tool, option, parse
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.several import WAYS

ROOT = Path(__file__).parents[2]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]

# Where a tool's option differs from that of the others, and why.
DIFFERENT = {
    ("train-backend", "config"): "a recipe, which the tool reads itself",
    ("train-backend", "seed"): "not given, it is the recipe's",
    ("compute-durations", "frame_shift"): "its inputs are frames, so there always is one",
    ("score-pairs", "num_parts"): "its parts are no lines",
    ("score-pairs", "top_k"): "of everybody, unless a number is given",
    ("search-speakers", "prior"): "that the speaker is enrolled at all, not that of one trial",
    ("cluster-utterances", "prior"): "of two utterances of a recording, so it has a default",
    ("import-gallery", "utt2spk"): "who is enrolled, not whom a bootstrap draws",
    ("calibrate-scores", "prior"): "weighs the fit, so it has a default",
    ("eval-scores", "prior"): "several, each with its metrics",
    ("eval-scores", "trials_form"): "trials without a label cannot be evaluated",
    ("eval-scores", "allow_missing"): "about trials without a score, not ids without a vector",
    ("calibrate-scores", "allow_missing"): "as in eval-scores",
    ("adapt-backend", "durations"): "only its report looks at them",
    ("adapt-backend", "from_"): "a bundle, or one kind of foreign model",
    ("adapt-backend", "report"): "a page of another kind",
    ("extract-embeddings", "output"): "an output of somebody's graph, not what is written",
    ("extract-embeddings", "part"): "of recordings, not of trials",
    ("extract-embeddings", "num_parts"): "parts share one directory, there is nothing to cat",
    ("extract-embeddings", "min_duration"): "has a value where none is given; shorter is left out",
    ("extract-embeddings", "segments"): "looked for beside wav.scp",
    ("extract-embeddings", "vad"): "the name of a detector, not decisions that were made",
    ("train-backend", "cluster"): "seeds that outlive their time, by submitit",
    ("enroll-speakers", "multi_enroll"): "a table has one voiceprint per name, no scores",
}
# Bad values, and what every tool with that option says.
BAD = {
    "threads": ("-1", "--threads=-1: cannot be negative"),
    "frame_shift": ("-0.01", "--frame-shift=-0.01: cannot be negative"),
    "seed": ("-3", "--seed=-3: cannot be negative"),
    "multi_enroll": ("mean", f"--multi-enroll=mean: expected {' or '.join(MULTI_ENROLL)}"),
    "cost_miss": ("high", "--cost-miss=high: expected a number"),
    "allow_missing": ("maybe", "--allow-missing=maybe: expected true or false"),
}
# compute-durations, of which one input must be chosen, asks for that first.
OWN_WORDS = {("compute-durations", "frame_shift"), ("enroll-speakers", "multi_enroll")}


def tools() -> dict[str, Tool]:
    """Every tool that is installed."""
    modules = {name: place.partition(":")[0] for name, place in SCRIPTS.items()}
    return {name: importlib.import_module(module).TOOL for name, module in modules.items()}


def shared() -> dict[str, dict[str, dataclasses.Field]]:
    """Options that more than one tool has: their fields, by tool."""
    found: dict[str, dict[str, dataclasses.Field]] = defaultdict(dict)
    for name, tool in tools().items():
        for field in dataclasses.fields(tool.options):
            found[field.name][name] = field
    return {key: fields for key, fields in found.items() if len(fields) > 1}


def meaning(tool: str, field: dataclasses.Field) -> tuple:
    kind = typing.get_type_hints(tools()[tool].options)[field.name]
    return kind, field.default, field.metadata["help"], field.metadata["bare"]


@pytest.mark.parametrize("name", sorted(shared()))
def test_a_shared_option_has_one_type_default_and_help(name: str) -> None:
    fields = shared()[name]
    usual = {meaning(t, field) for t, field in fields.items() if (t, name) not in DIFFERENT}
    assert len(usual) <= 1, usual


def test_an_option_that_is_said_to_differ_does() -> None:
    for (tool, name), why in DIFFERENT.items():
        assert why
        fields = shared()[name]
        mine = meaning(tool, fields[tool])
        others = {meaning(t, f) for t, f in fields.items() if (t, name) not in DIFFERENT}
        assert others and mine not in others, (tool, name)


@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_value_is_refused_in_the_same_words(name: str) -> None:
    value, words = BAD[name]
    users = [tool for tool in shared()[name] if (tool, name) not in OWN_WORDS]
    assert len(users) > 1
    for tool in users:
        with pytest.raises(UsageError) as caught:
            parse(tools()[tool], [f"--{name.replace('_', '-')}={value}"])
        assert str(caught.value) == words, tool


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--cost-fa=3"], "--cost-miss and --cost-fa need --prior"),
        (
            ["--enroll-voiceprints", "--multi-enroll=voiceprints"],
            "--enroll-voiceprints: averaging belongs to enroll-speakers",
        ),
    ],
)
def test_a_bad_combination_is_refused_in_the_same_words(options: list[str], words: str) -> None:
    for tool in ("score-trials", "search-speakers"):
        with pytest.raises(UsageError) as caught:
            parse(tools()[tool], options)
        assert str(caught.value) == words


def test_every_check_of_the_bases_is_called_once_and_the_tools_last() -> None:
    called = []

    @dataclass(frozen=True, kw_only=True)
    class Left(CommonOptions):
        left: int = option(0, "")

        def check(self) -> None:
            called.append("left")

    @dataclass(frozen=True, kw_only=True)
    class Right(CommonOptions):
        right: int = option(0, "")

        def check(self) -> None:
            called.append("right")

    @dataclass(frozen=True, kw_only=True)
    class Options(Left, Right):
        def check(self) -> None:
            called.append("own")

    Options()
    assert called == ["right", "left", "own"]


def test_help_and_bad_options_of_no_tool_wait_for_numpy() -> None:
    program = f"""
import importlib, sys
for module in {[place.partition(":")[0] for place in SCRIPTS.values()]}:
    main = importlib.import_module(module).main
    assert main(["--help"]) == 0
    assert main(["--no-such-option"]) == 1
    heavy = {{"numpy", "onnxruntime", "torch", "polars"}} & set(sys.modules)
    assert not heavy, (module, heavy)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_what_the_tools_share_knows_no_tool() -> None:
    for path in sorted((ROOT / "bin" / "common").glob("*.py")):
        lines = path.read_text().splitlines()
        wrong = [x for x in lines if "dcaplda.bin" in x and "dcaplda.bin.common" not in x]
        assert not wrong, (path.name, wrong)


def test_the_ways_of_several_utterances_are_those_of_the_runtime() -> None:
    """Two lists, since help does not wait for numpy."""
    assert MULTI_ENROLL == WAYS
