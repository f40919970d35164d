"""The recipe of egs/recordings: its tables, its mistakes, and whole runs on a small world."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import kaldiio
import numpy as np
import pytest
from training_world import DIM, all_trials, copies, draw, write_data_dir

RECIPE = Path(__file__).parents[2] / "egs" / "recordings"
PLAN = """
train = ["one", "two"]
cohort = "cohort"
[[dev]]
name = "seen"
folder = "dev"
trials = "trials"
weight = 0.5
[[eval]]
name = "models"
folder = "dev"
trials = "trials_models"
spk2utt = "models"
"""
TRAIN = """
[model]
side_hidden_dim = 8
duration_feature = "log"
[init]
em_iterations = 3
domain_offsets = true
lda_group_offset = 1.0
calibration_folds = 3
duration_start = "fitted"
calibration_speakers = 60
[batch]
size = 48
held_out_folds = 3
across_domains = true
[stage1]
steps = 0
[stage2]
steps = 6
evaluate_every = 3
[stage3]
steps = 0
"""


def write_folder(directory: Path, sample) -> None:
    write_data_dir(directory, sample)
    table = dict(zip(sample.ids, sample.vectors, strict=True))
    kaldiio.save_ark(str(directory / "x.ark"), table, scp=str(directory / "xvector.scp"))
    text = (directory / "xvector.scp").read_text().replace(f"{directory}/", "")
    (directory / "xvector.scp").write_text(text)  # relative to the folder


@pytest.fixture
def world(tmp_path) -> Path:
    root = tmp_path / "data"
    everyone = copies(draw(2), np.full(DIM, 0.5))
    for name, wanted in (("one", ("dom0", "dom0_tel")), ("two", ("dom1", "dom2"))):
        keep = [i for i, u in enumerate(everyone.ids) if everyone.domain[u] in wanted]
        part = draw(2)
        part.ids = [everyone.ids[i] for i in keep]
        part.vectors = everyone.vectors[keep]
        for key in ("speaker", "session", "domain", "seconds"):
            setattr(part, key, {u: getattr(everyone, key)[u] for u in part.ids})
        write_folder(root / name, part)
    dev = draw(5, speakers=6, prefix="v")
    write_folder(root / "dev", dev)
    lines = [" ".join(trial) for trial in all_trials(dev)]
    (root / "dev/trials").write_text("\n".join(lines) + "\n")
    (root / "dev/models").write_text("".join(f"m-{u} {u}\n" for u in dev.ids))
    (root / "dev/trials_models").write_text("".join(f"m-{line}\n" for line in lines))
    write_folder(root / "cohort", draw(7, speakers=4, prefix="c"))
    (tmp_path / "plan.toml").write_text(PLAN)
    (tmp_path / "train.toml").write_text(TRAIN)
    return tmp_path


def recipe(world: Path, *options: str) -> subprocess.CompletedProcess:
    """run.sh with the world's plan and its recipe of training."""
    named = (f"--data={world}/plan.toml", f"--train={world}/train.toml")
    return run(*named, *options, world / "data", world / "exp")


def run(*words: str | Path) -> subprocess.CompletedProcess:
    alone = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        [RECIPE / "run.sh", *words], capture_output=True, text=True, env={**os.environ, **alone}
    )


def said(done: subprocess.CompletedProcess) -> str:
    """The error, which is one line."""
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "ERROR" in line]
    return line


def test_tables_join_folders_and_split_trials_by_domain(world):
    done = recipe(world, "--stop-stage=0")
    assert done.returncode == 0, done.stderr
    exp = world / "exp"
    scp = (exp / "data/train/xvector.scp").read_text().splitlines()
    assert len(scp) == sum(
        len((world / f"data/{name}/utt2spk").read_text().splitlines()) for name in ("one", "two")
    )
    assert all(Path(line.split()[1].rpartition(":")[0]).is_absolute() for line in scp)
    domains = sorted(path.name for path in (exp / "trials/seen").iterdir())
    assert domains == ["dom0", "dom1", "dom2"]
    parts = [(exp / "trials/seen" / d).read_text().splitlines() for d in domains]
    whole = (world / "data/dev/trials").read_text().splitlines()
    assert sorted(line for part in parts for line in part) == sorted(whole)
    dev = tomllib.loads((exp / "conf/train.toml").read_text())["dev"]
    assert [(d["name"], d["weight"]) for d in dev] == [("seen", 0.5)]  # [[eval]] is not there


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('trials = "trials"\n', "", "needs the key 'trials'"),
        ("weight", "wieght", "no key 'wieght'"),
        ('folder = "dev"\n', 'folder = "nowhere"\n', "xvector.scp: no such file"),
        ("cohort =", "cohrt =", "no key 'cohrt'"),
    ],
)
def test_mistakes_in_the_plan_are_one_line(world, old: str, new: str, message: str):
    (world / "plan.toml").write_text(PLAN.replace(old, new, 1))
    assert message in said(recipe(world, "--stop-stage=0"))


def table(path: Path) -> dict[str, str]:
    return dict(line.split() for line in path.read_text().splitlines())


def test_held_out_domains_take_no_part_in_training_or_selection(world):
    assert recipe(world, "--stop-stage=0").returncode == 0
    exp = world / "exp"
    command = [sys.executable, RECIPE / "local/lodo.py", "prepare", exp]
    subprocess.run(command, check=True, capture_output=True)
    names = (exp / "lodo/names").read_text().split()
    assert names == ["dom0", "dom1", "dom2"]  # dom0_tel has dom0's people and goes with it
    for name in names:
        place = exp / "lodo" / name
        hidden = {name, "dom0_tel"} if name == "dom0" else {name}
        parts = {part: table(place / part / "utt2spk") for part in ("train", "held")}
        assert not set(parts["train"].values()) & set(parts["held"].values())
        assert sorted({**parts["train"], **parts["held"]}) == sorted(
            table(exp / "data/train/utt2spk")
        )
        assert set(table(place / "held/utt2dom").values()) == hidden
        dev = tomllib.loads((place / "train.toml").read_text())["dev"]
        assert [(d["name"], d["weight"]) for d in dev] == [("seen", 0.5), ("held-out", 0.0)]
        domain = table(exp / "data/dev/utt2dom")
        tests = {line.split()[1] for line in Path(dev[0]["trials"]).read_text().splitlines()}
        assert {domain[test] for test in tests} == {"dom0", "dom1", "dom2"} - hidden
        domain, session = (table(place / f"held/utt2{word}") for word in ("dom", "sess"))
        for line in Path(dev[1]["trials"]).read_text().splitlines():
            one, other, kind = line.split()
            assert domain[one] == domain[other] and session[one] != session[other]
            assert (parts["held"][one] == parts["held"][other]) == (kind == "target")


def test_mistakes_on_the_command_line_are_one_line(world):
    for compare in ("--compare=true", "--compare=false"):
        assert "no option '--seedz'" in said(recipe(world, compare, "--seedz=1"))
        assert "expected <data-root> <exp-dir>" in said(run(compare, "one"))
        assert "nowhere: no such directory" in said(run(compare, "nowhere", world / "exp"))
    assert "--compare=true or --compare=false" in said(recipe(world, "--compare=yes"))
    assert "--split needs a value" in said(recipe(world, "--split"))
    assert "no such file" in said(run("--train=none.toml", world / "data/one", world / "exp"))


def test_a_comparison_needs_sets_that_choose(world):
    (world / "plan.toml").write_text('train = ["one"]\n')
    assert "name at least one" in said(recipe(world, "--compare=true", "--stop-stage=0"))


def test_people_are_held_out_where_no_sets_are_named(world):
    (world / "plan.toml").write_text('train = ["one", "two"]\n')
    done = recipe(world, "--stop-stage=0", "--split=0.5", "--seed=3")
    assert done.returncode == 0, done.stderr
    exp = world / "exp"
    parts = {name: table(exp / f"data/{name}/utt2spk") for name in ("all", "train", "eval")}
    people = {name: set(part.values()) for name, part in parts.items()}
    assert not people["train"] & people["eval"]
    assert people["train"] | people["eval"] == people["all"]
    assert len(people["eval"]) == len(people["all"]) / 2
    rows = [line.split("\t") for line in (exp / "sets.tsv").read_text().splitlines()]
    kinds = ["multi", "multi_cross", "single", "single_cross"]  # dom0 and its copies have people
    assert [row[1] for row in rows] == kinds
    for _, kind, folder, trials, models, _, domains in rows:
        place = exp / "data" / folder
        assert (place / trials).name == f"trials_{kind}" and (place / models).is_file()
        lists = [(exp / "trials" / kind / d).read_text() for d in domains.split(",")]
        whole = (place / trials).read_text().splitlines()
        assert sorted("".join(lists).splitlines()) == sorted(whole)


def test_trials_without_sessions_are_warned_of(world):
    folder = world / "data/two"
    known = run("--stop-stage=0", folder, world / "exp")
    assert known.returncode == 0 and "WARNING: no utt2sess" not in known.stderr
    (folder / "utt2sess").unlink()
    assert "figures may be too good" in run("--stop-stage=0", folder, world / "exp").stderr


def test_robustness_without_sets_to_measure_on_is_refused(world):
    (world / "plan.toml").write_text('train = ["one", "two"]\n')
    assert recipe(world, "--stop-stage=0").returncode == 0
    command = [RECIPE / "robustness.sh", world / "exp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "no [[dev]] sets" in said(done)


def test_robustness_table_gives_mean_and_range_over_seeds(tmp_path):
    changes = tmp_path / "changes.txt"
    changes.write_text("# comment\nbase 0-1\nabsent 0-1 --set=a.b=1\n")
    for seed, loss in enumerate((0.2, 0.4)):
        run = tmp_path / f"robustness/base/seed-{seed}"
        run.mkdir(parents=True)
        values = {"cllr@0.5": loss, "min_cllr@0.5": 0.1, "cllr@0.01": loss, "min_cllr@0.01": 0.1}
        sets = [{"group": "g", **values}, {"group": "g", **values}]
        (run / "training_summary.json").write_text(json.dumps({"dev": sets}))
    command = [sys.executable, RECIPE / "local/plan.py", "robustness", tmp_path, changes]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "| base | 2 | 0.300 / 0.100 (0.200-0.400)" in text
    assert "absent" not in text


@pytest.mark.slow
@pytest.mark.torch
def test_one_folder_gives_a_backend_and_figures_of_people_held_out(world):
    folder, exp = world / "data/two", world / "exp"
    (folder / "utt2dom").unlink()  # looked for in the ids
    done = run("--bootstrap=0", folder, exp)
    assert done.returncode == 0, done.stderr
    assert (exp / "backend/bundle/model.json").is_file()
    assert "| backend | " in (exp / "summary.md").read_text()
    assert (exp / "report.html").stat().st_size > 10_000
    results = json.loads((exp / "results.json").read_text())
    found = {row["set"]: row["cllr_0.5"] for row in results}
    assert found["single"] < 0.9  # no score at all costs 1
    # Nothing is trained twice, and nothing is taken for a model of other people.
    model = exp / "backend/model.safetensors"
    before = model.stat().st_mtime_ns
    assert run("--bootstrap=0", folder, exp).returncode == 0
    assert model.stat().st_mtime_ns == before
    assert "trained on other tables" in said(run("--seed=1", folder, exp))
    shutil.rmtree(exp / "backend")
    whole = run("--split=0", "--seed=1", folder, exp)
    assert whole.returncode == 0 and "no sets to score" in whole.stderr
    summary = json.loads((exp / "backend/training_summary.json").read_text())
    assert summary["speakers"] == len(set(table(folder / "utt2spk").values()))


@pytest.mark.slow
@pytest.mark.torch
def test_sets_that_are_named_are_scored_and_compared(world):
    exp, plan = world / "exp", f"--data={world}/plan.toml"
    done = run(plan, "--bootstrap=0", world / "data", exp)
    assert done.returncode == 0, done.stderr
    groups = {row["set"] for row in json.loads((exp / "results.json").read_text())}
    assert {"seen", "models", "seen.dom0"} <= groups
    # Models that are single utterances score as the utterances do.
    one, other = ((exp / f"scores/backend/{n}").read_text().split() for n in ("seen", "models"))
    np.testing.assert_allclose(np.float64(one[2::3]), np.float64(other[2::3]), atol=1e-4)
    # What was trained without settings stands beside the systems of the comparison.
    done = recipe(world, "--compare=true", "--stop-stage=0")
    assert "systems: backend paper plda " in done.stderr
    compared = recipe(world, "--compare=true", "--stage=3", "--systems=backend", "--bootstrap=0")
    assert compared.returncode == 0, compared.stderr
    assert "backend" in (exp / "summary.md").read_text()


@pytest.mark.slow
@pytest.mark.torch
def test_comparison_gives_a_table_and_a_report(world):
    options = ("--lda-dims=8 10", "--side-dims=2", "--seeds=0-0", "--top-ns=10 20", "--bootstrap=0")
    options += ("--systems=d-plda-dsd plda-snorm plda-asnorm cosine",)
    done = recipe(world, "--compare=true", *options)
    assert done.returncode == 0, done.stderr
    exp = world / "exp"
    assert len(list(exp.rglob("backend.onnx"))) == 3  # one of each model: nothing exports twice
    systems = {row["system"] for row in json.loads((exp / "results.json").read_text())}
    assert systems == {"d-plda-dsd", "plda-snorm", "plda-asnorm", "cosine"}
    assert "d-plda-dsd" in (exp / "summary.md").read_text()
    assert (exp / "report.html").stat().st_size > 10_000
    # Models that are single utterances score as the utterances do.
    one, other = ((exp / f"scores/d-plda-dsd/{n}").read_text().split() for n in ("seen", "models"))
    np.testing.assert_allclose(np.float64(one[2::3]), np.float64(other[2::3]), atol=1e-4)
    trained = {path: path.stat().st_mtime_ns for path in exp.glob("runs/*/seed-0/*.safetensors")}
    again = recipe(world, "--compare=true", *options, "--stop-stage=2")
    assert again.returncode == 0, again.stderr
    assert trained  # nothing is trained twice
    assert all(path.stat().st_mtime_ns == before for path, before in trained.items())
