"""What every tool has: --version, names of missing arguments; and embeddings of every format."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dcaplda.bin.common import version
from dcaplda.bin.common.arguments import argument_names, need
from dcaplda.bin.common.options import parse
from dcaplda.runtime.errors import UsageError, shortened

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {name: place.partition(":")[0] for name, place in PROJECT["scripts"].items()}


def tool(name: str):
    return importlib.import_module(MODULES[name]).TOOL


@pytest.mark.parametrize("name", MODULES)
def test_every_tool_tells_its_version(name: str, capsys) -> None:
    main = importlib.import_module(MODULES[name]).main
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{name} of dcaplda {PROJECT['version']}\n"
    assert main(["--help"]) == 0
    assert "--version" in capsys.readouterr().out


def test_a_checkout_tells_its_own_version_and_an_install_that_of_the_package(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(version, "PROJECT", tmp_path / "pyproject.toml")
    assert version.version() == PROJECT["version"]
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "dcaplda"\nversion = "9.8"\n')
    assert version.version() == "9.8"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\nversion = "9.8"\n')
    assert version.version() == PROJECT["version"]


def test_a_link_in_bin_runs_the_tool() -> None:
    for name in MODULES:
        assert (ROOT / "bin" / name).resolve() == ROOT / "bin" / "_tool", name
    command = [sys.executable, str(ROOT / "bin" / "_checkout.py"), "copy-vectors", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == f"copy-vectors of dcaplda {PROJECT['version']}\n", done.stderr


@pytest.mark.parametrize("name", MODULES)
def test_the_usage_text_names_as_many_arguments_as_the_tool_takes(name: str) -> None:
    forms = argument_names(tool(name).usage)
    count = tool(name).arguments
    least, most = count if isinstance(count, tuple) else (count, count)
    assert forms
    for names in forms:
        assert least <= len(names) <= most
        assert all(re.fullmatch(r"<[\w.|-]+>", word) for word in names)


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        (
            "score-trials",
            ["m", "a", "b"],
            "<trials-rxfilename> and <scores-wxfilename> are missing",
        ),
        ("score-trials", list("abcde") + ["six"], "expected 5 arguments, found 6: 'six' is too"),
        ("copy-vectors", ["a"], "expected 2 arguments, found 1: <vectors-out> is missing"),
        ("compute-durations", [], "<utt2dur-wxfilename> is missing"),
        ("adapt-backend", ["a"], "<unlabelled-rspecifier> and <adapted-bundle-dir> are missing"),
        ("train-backend", [], "<data-dir> and <xvector-rspecifier> and <exp-dir> are missing"),
        ("calibrate-scores", ["a"], "<scores> and <calibration.json> are missing"),
    ],
)
def test_missing_arguments_are_named(name: str, given: list[str], says: str) -> None:
    options = ["--vad=x"] if name == "compute-durations" else []
    with pytest.raises(UsageError) as caught:
        parse(tool(name), [*options, *given])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("adapt-backend", ["a", "b"], "expected 3 arguments, found 2: <adapted-bundle-dir> is mis"),
        ("adapt-backend", ["--from=kaldi", "--plda=p", "a", "b", "c"], "found 3: 'c' is too much"),
        ("calibrate-scores", ["a", "b"], "found 2: <calibration.json> is missing"),
        ("calibrate-scores", ["--apply=c", "a", "b", "c"], "expected 2 arguments, found 3: 'c'"),
        ("import-model", ["--from=cosine", "a"], "<bundle-dir> is missing"),
        ("import-model", ["--from=dca-plda", "a"], "<bundle-dir> is missing"),
    ],
)
def test_each_form_of_a_tool_names_its_own(name: str, line: list[str], says: str, capsys) -> None:
    assert importlib.import_module(MODULES[name]).main(line) == 1
    assert says in capsys.readouterr().err


def test_names_of_options_and_of_what_may_be_left_out_are_no_arguments() -> None:
    usage = (
        "Words <x>.\n\nUsage: t [options] <a> <b> [<c> ...]\n   or: t --d=<e> <f>\ne.g.: t <g>\n"
    )
    assert argument_names(usage) == [["<a>", "<b>"], ["<f>"]]
    need(usage, 1, ["one"])
    with pytest.raises(UsageError, match="expected 1 argument, found 0: <f> is missing"):
        need(usage, 1, [])


def test_words_are_cut_where_they_are_long_and_no_path() -> None:
    digest, path = "f" * 64, "/" + "/".join(["folder"] * 30)
    kept = f"'{path}': sha256 {digest} and " + "short words " * 30
    assert shortened(kept) == kept
    assert shortened(f"no '{'a' * 40}{'b' * 40}' here") == f"no '{'a' * 32}...{'b' * 16}' here"
    assert len(shortened("a/" * 5000)) < 240
    assert str(UsageError("y" * 999)) == "y" * 32 + "..." + "y" * 16
