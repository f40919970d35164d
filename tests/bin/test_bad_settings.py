"""Settings of the wrong kind, in files and on the command line: one line, and status 1."""

import importlib
from pathlib import Path

import pytest

DEEP = "[" * 3000 + "]" * 3000


def complaint(capsys, tool: str, *arguments: object) -> str:
    """The one line of error that a tool ends with."""
    module = importlib.import_module(f"dcaplda.bin.{tool}")
    assert module.main(["--print-args=false", *map(str, arguments)]) == 1
    said = capsys.readouterr()
    errors = [line for line in said.err.splitlines() if "ERROR" in line]
    assert len(errors) == 1 and "Traceback" not in said.err and not said.out
    return errors[0]


@pytest.fixture
def trials(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("trials").write_text("a b target\na c nontarget\n")
    Path("scores").write_text("a b 1.5\na c -2\n")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bootstrap = [1]", "c.toml: --bootstrap = [1]: expected a whole number"),
        ("bootstrap = inf", "--bootstrap = inf: expected a whole number"),
        ("bootstrap = { a = 1 }", "expected a whole number"),
        ("bootstrap = 2020-01-01", "expected a whole number"),
        ("bootstrap = 2.7", "--bootstrap = 2.7: expected a whole number"),
        ("bootstrap = 1e400", "expected a whole number"),
        ("bootstrap = true", "expected a whole number"),
        (f"bootstrap = {'9' * 5000}", "not valid TOML"),
        ("confidence = nan", "--confidence = nan: expected a number"),
        ("confidence = [0.5]", "expected a number"),
        (f"seed = {'9' * 30}", "at most 63 bits"),
        ("names = [[1]]", "expected text"),
        ("header = 2", "expected true or false"),
        (f"bootstrap = {DEEP}", "nested too deeply"),
        ('report = "a\\u0000b"', "zero byte"),
        ("a.b = 1", "no option '--a'"),
        ('enroll_column = "a"\nenroll-column = "b"', "'--enroll-column' is given twice"),
    ],
)
def test_a_file_of_options(trials: Path, capsys, text: str, words: str) -> None:
    Path("c.toml").write_text(text)
    assert words in complaint(capsys, "eval_scores", "--config=c.toml", "trials", "scores")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--bootstrap=1_000", "--bootstrap=1_000: expected a whole number"),
        ("--bootstrap=٣", "expected a whole number"),
        (f"--bootstrap={'9' * 5000}", "expected a whole number"),
        ("--confidence=inf", "--confidence=inf: expected a number"),
        ("--confidence=nan", "expected a number"),
        ("--confidence=1e400", "expected a number"),
        (f"--seed={'9' * 30}", "at most 63 bits"),
        ("--seed=-1", "cannot be negative"),
    ],
)
def test_the_command_line(trials: Path, capsys, option: str, words: str) -> None:
    assert words in complaint(capsys, "eval_scores", option, "trials", "scores")


def test_a_table_that_looks_packed(trials: Path, capsys) -> None:
    """A line may begin as gzip does, and an id as zlib does: neither is unpacked."""
    Path("headed").write_bytes(b"enroll\ttest\tlabel\n\x1f\x8bxx\n")
    assert "line 2" in complaint(capsys, "eval_scores", "--header", "headed", "scores")
    for name, line in (("trials", "xڀ b target\nc d nontarget\n"), ("scores", "xڀ b 2\nc d -2\n")):
        Path(name).write_text(line)
    module = importlib.import_module("dcaplda.bin.eval_scores")
    assert module.main(["--bootstrap=0", "trials", "scores"]) == 0


@pytest.mark.parametrize(
    "text", ["set = [1, 2]\nsystem = [3]", "set = 3", "[[set]]\nname = 3", "set = [[1]]", DEEP]
)
def test_a_table_of_sets(trials: Path, capsys, text: str) -> None:
    Path("sets.toml").write_text(text)
    assert "sets.toml" in complaint(capsys, "eval_scores", "--table=sets.toml")


@pytest.mark.parametrize(
    "text",
    [
        "[model]\nduration_parameters = [1, 2]",
        '[model]\nduration_feature = "bin"\nduration_parameters = { thresholds = "x" }',
        "[model]\nduration_parameters = { center = true }",
        "[model]\nlda_dim = inf",
        "[run]\nseed = 99999999999999999999999",
        "dev = [[1]]",
        "[stage1]\nrate = 2020-01-01",
        "model = 3",
        f"x = {DEEP}",
        "[objective]\nprior = nan",
    ],
)
def test_a_recipe(trials: Path, capsys, text: str) -> None:
    Path("r.toml").write_text(text)
    assert "r.toml: " in complaint(capsys, "train_backend", "--config=r.toml", "a", "b", "c")


def test_settings_of_a_recipe_on_the_command_line(trials: Path, capsys) -> None:
    for setting in ("model.duration_parameters=3", f"model.lda_dim={DEEP}", "run.seed=inf"):
        complaint(capsys, "train_backend", f"--set={setting}", "a", "b", "c")
    assert "more than" in complaint(capsys, "train_backend", "--seeds=0-99999999999", "a", "b", "c")


@pytest.mark.parametrize(
    "text",
    ["space = 3", "[space]\ndim = 1e400", f"[space]\ndim = {'9' * 400}", "domains = 1", DEEP],
)
def test_a_world(trials: Path, capsys, text: str) -> None:
    Path("w.toml").write_text(text)
    assert "w.toml: " in complaint(capsys, "simulate_xvectors", "w.toml", "out")


@pytest.mark.torch
@pytest.mark.parametrize(
    "text",
    ["[]", DEEP, '{"embedding_dim": 1e999}', '{"embedding_dim": 3, "duration_parameters": [1]}']
    + ['{"embedding_dim": 3, "variant": []}', '{"embedding_dim": true}', '{"embedding_dim": 0}'],
)  # fmt: skip
def test_a_model_configuration(trials: Path, capsys, text: str) -> None:
    Path("m").mkdir()
    Path("m/model_config.json").write_text(text)
    Path("m/model.safetensors").write_bytes(b"x")
    assert "m/model_config.json: " in complaint(capsys, "export_onnx", "m", "out")


@pytest.mark.parametrize(
    "text", ["[]", DEEP, '{"format": "dcaplda-calibration", "alpha": [1]}']
    + ['{"format": "dcaplda-calibration", "alpha": 1, "beta": 1e999}'],
)  # fmt: skip
def test_a_calibration(trials: Path, capsys, text: str) -> None:
    Path("cal.json").write_text(text)
    assert "cal.json: " in complaint(capsys, "calibrate_scores", "--apply=cal.json", "scores", "-")
