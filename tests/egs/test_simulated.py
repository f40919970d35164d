"""The recipe of egs/simulated: its summary, and a whole run with a few steps of training."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "egs" / "simulated"
METRICS = ("cllr_0.5", "min_cllr_lin_0.5", "cllr_0.01", "min_cllr_lin_0.01")
REST = ("dcf_0.01", "min_dcf_0.01", "eer")


def result(system, name, group, cllr, average=False):
    values = {metric: cllr for metric in METRICS} | dict.fromkeys(REST, 0.5)
    row = {"system": system, "set": group if average else name, "group": group, **values}
    return row | ({"average_of": [name]} if average else {})


def summary(tmp_path, losses, intervals=None) -> str:
    """What summary.py prints for the losses {(system, group): cllr}."""
    rows = [result(system, f"eval-{g}-full", g, x) for (system, g), x in losses.items()]
    rows += [result(system, f"eval-{g}-full", g, x, True) for (system, g), x in losses.items()]
    (tmp_path / "main.single.json").write_text(json.dumps(rows))
    if intervals:
        oracle = [
            result("oracle", f"eval-{g}-full", g, 0.2)
            | {"intervals": {"cllr_0.5": [low, 1], "cllr_0.01": [low, 1]}}
            for g, low in intervals.items()
        ]
        (tmp_path / "oracle.json").write_text(json.dumps(oracle))
    command = [sys.executable, RECIPE / "local" / "summary.py", tmp_path / "main"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_summary_says_what_was_promised_of_the_unseen_sets(tmp_path):
    losses = {("plda", "trnh"): 0.1, ("d-plda-dsd", "trnh"): 0.1}
    losses |= {("plda", "far"): 0.8, ("plda", "noisy"): 0.4}
    losses |= {("d-plda-dsd", "far"): 0.4, ("d-plda-dsd", "noisy"): 0.5}
    losses |= {("plda", "unseen"): 0.6, ("d-plda-dsd", "unseen"): 0.45}
    text = summary(tmp_path, losses)
    assert "d-plda-dsd is 25% below plda" in text
    assert "above 1 or worse than plda: noisy" in text


def test_summary_names_a_system_below_the_oracles_interval(tmp_path):
    losses = {("oracle", "far"): 0.2, ("plda", "far"): 0.15}
    assert "in any of 1 sets: 0" in summary(tmp_path, losses, {"far": 0.1})
    text = summary(tmp_path, losses, {"far": 0.18})
    assert "plda on eval-far-full: 0.1500 below 0.1800" in text


def test_recipe_refuses_unknown_options_and_worlds():
    for word in ("--wrold=demo", "demo", "--world=none", "--compare=nothing"):
        done = subprocess.run([RECIPE / "run.sh", word], capture_output=True, text=True)
        assert done.returncode == 1 and "ERROR" in done.stderr


def test_the_demo_opens_with_a_sentence_and_runs_the_recipe_last():
    root = RECIPE.parents[1]
    # As typed in a shell: a `make test` around this would have its say in the output.
    shell = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-n", "demo"]
    planned = subprocess.run(command, cwd=root, env=shell, capture_output=True, text=True)
    lines = planned.stdout.strip().splitlines()
    assert re.fullmatch(r'echo "This [^.]* \(about six minutes\)\."', lines[0]), lines[0]
    assert lines[-1].endswith("egs/simulated/run.sh --world=demo --dir=exp/demo")


@pytest.mark.slow
@pytest.mark.torch
def test_recipe_runs_from_simulation_to_report(tmp_path):
    small = "stage1.steps=3 stage2.steps=2 stage3.steps=1 batch.size=120 init.em_iterations=3"
    command = [RECIPE / "run.sh", f"--dir={tmp_path}/demo", f"--set={small}", "--seeds=0-0"]
    command += ["--systems=plda d-plda-dsd plda-asnorm cosine", "--top-n-candidates=300"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    page = tmp_path / "demo" / "results" / "main.html"
    assert done.stdout.splitlines()[-1] == page.resolve().as_uri()
    assert 100_000 < page.stat().st_size < 3_000_000
    assert "oracle, for reference, has" in page.read_text()
    rows = json.loads((tmp_path / "demo" / "results" / "main.single.json").read_text())
    assert len({row["set"] for row in rows if "average_of" not in row}) == 24
    bundles = {path.parent for path in (tmp_path / "demo").rglob("backend.onnx")}
    assert {path.parent.name for path in bundles} == {"bundles"}  # nothing exports twice
    follow_the_advice(done.stdout, tmp_path / "demo" / "data" / "train")


def follow_the_advice(said: str, train: Path) -> None:
    """What the recipe says to type next is typed; on some of the people, to be quick."""
    tables = {name: (train / name).read_text().splitlines() for name in ("utt2spk", "xvector.scp")}
    people = sorted({line.split()[1] for line in tables["utt2spk"]})[::40]
    speaker = dict(line.split() for line in tables["utt2spk"])
    for name, lines in tables.items():
        kept = [line for line in lines if speaker[line.split()[0]] in people]
        (train / name).write_text("\n".join(kept) + "\n")
    commands = [line for line in said.splitlines() if line.startswith("  ")]
    advice = commands[-4:]
    words = ["PATH", "train-backend", "score-trials", "eval-scores"]
    assert [re.split("[ =]", line.strip())[0] for line in advice] == words
    typed = ["bash", "-euc", "\n".join(advice)]
    done = subprocess.run(typed, cwd=RECIPE.parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "EER" in done.stdout
    found = train.parents[1] / "backend"
    assert (found / "bundle" / "model.json").is_file() and (found / "report.html").is_file()
