"""The recipe fragment egs/kaldi/local, with stand-ins for run.pl, queue.pl and retry.pl."""

import json
from pathlib import Path

import numpy as np
import pytest
from golden import read_columns
from kaldi_recipe import DIM, ROOT, Recipe
from random_models import random_model

from dcaplda.export.bundle_writer import export_model

pytestmark = pytest.mark.torch


@pytest.mark.slow
def test_the_whole_fragment_runs_and_jobs_do_not_change_the_scores(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    sets = ["data/train", "exp/xvectors_train", "data/test", "exp/xvectors_test"]
    sets += ["data/test/trials", "exp/dcaplda"]
    said = recipe.run("dcaplda.sh", "--nj", "3", "--cmd", "run.pl --mem 4G", *sets)
    assert "EER" in said
    assert "held-out Cllr" in said  # the verdict of the training
    place = tmp_path / "exp" / "dcaplda"
    assert [path.parent for path in tmp_path.rglob("backend.onnx")] == [place / "bundle"]
    found = read_columns(place / "test_utt2dur")
    assert max(float(row[1]) for row in found) < 10
    scores = (place / "scores" / "scores").read_bytes()
    trials = read_columns(tmp_path / "data" / "test" / "trials")
    rows = read_columns(place / "scores" / "scores")
    assert [row[:2] for row in rows] == [row[:2] for row in trials]
    targets = [float(r[2]) for r, t in zip(rows, trials, strict=True) if t[2] == "target"]
    others = [float(r[2]) for r, t in zip(rows, trials, strict=True) if t[2] == "nontarget"]
    assert np.mean(targets) > np.mean(others) + 1
    assert sorted(p.name for p in (place / "scores").iterdir()) == [
        "log",
        "report.html",
        "results.txt",
        "scores",
    ]
    recipe.run("dcaplda.sh", "--stage", "2", "--nj=1", *sets)
    assert (place / "scores" / "scores").read_bytes() == scores


def test_a_failing_job_fails_the_script(tmp_path: Path, small_bundle: Path) -> None:
    recipe = Recipe(tmp_path)
    xvectors = ["exp/xvectors_test/xvector.scp", "exp/xvectors_test/xvector.scp"]
    said = recipe.run(
        "dcaplda_score.sh", str(small_bundle), *xvectors, "data/test/trials", "exp/scores", status=1
    )
    assert "failed, log is in" in said
    assert not (tmp_path / "exp" / "scores" / "scores").exists()
    log = (tmp_path / "exp" / "scores" / "log" / "score.1.log").read_text()
    assert "needs the seconds of speech" in log


def test_durations_come_from_the_best_source(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    data = tmp_path / "data" / "test"
    (data / "utt2num_frames").write_text("a 250\n")
    (data / "segments").write_text("a rec 1 3\n")
    found = []
    for source in ("vad.scp", "utt2num_frames", "segments", "utt2dur"):
        recipe.run("dcaplda_durations.sh", "data/test", "out")
        found.append(read_columns(tmp_path / "out")[0][1])
        (data / source).unlink()
    assert float(found[0]) < 9
    assert found[1:] == ["2.5", "2", "100"]
    said = recipe.run("dcaplda_durations.sh", "data/test", "out", status=1)
    assert "has none of vad.scp" in said


@pytest.mark.slow
def test_the_optional_recipe_takes_its_development_set_from_where_it_says(tmp_path: Path) -> None:
    recipe = Recipe(tmp_path)
    recipe.make_set("dev", 8, np.random.default_rng(1))
    (tmp_path / "exp" / "dcaplda").mkdir()
    recipe.run("dcaplda_durations.sh", "data/dev", "exp/dcaplda/dev_utt2dur")
    path = tmp_path / "conf" / "dcaplda.toml"
    head, dev = path.read_text().split("# [[dev]]")
    path.write_text(head + "[[dev]]" + dev.replace("\n# ", "\n"))
    few = ("batch.size=40", "init.em_iterations=2", *(f"stage{n}.steps=1" for n in (1, 2, 3)))
    options = " ".join(f"--set={setting}" for setting in few)
    recipe.typed(
        f"train-backend --config=conf/dcaplda.toml {options} data/train "
        "scp:exp/xvectors_train/xvector.scp exp/dcaplda"
    )
    summary = json.loads((tmp_path / "exp/dcaplda/training_summary.json").read_text())
    assert [row["name"] for row in summary["dev"]] == ["dev"]
    assert summary["variant"] == "d-plda-dsd"


@pytest.mark.parametrize("script", ["dcaplda.sh", "dcaplda_train.sh", "dcaplda_score.sh"])
def test_wrong_use_shows_the_usage(tmp_path: Path, script: str) -> None:
    recipe = Recipe(tmp_path)
    assert "Usage: local/" in recipe.run(script, "--nonsense", "3", status=1)
    assert "Usage: local/" in recipe.run(script, "one", status=1)
    assert "Usage: local/" in recipe.run(script, "--help")


def score(recipe: Recipe, bundle: Path, command: str, status: int = 0) -> bytes:
    """Four jobs of dcaplda_score.sh; the scores, or nothing."""
    xvectors = ["exp/xvectors_test/xvector.scp", "exp/xvectors_test/xvector.scp"]
    options = ["--nj", "4", "--cmd", command, "--durations", "data/test/utt2dur"]
    options += ["--score-opts", "--prior=0.1"]
    inputs = [str(bundle), *xvectors, "data/test/trials", "exp/scores"]
    recipe.run("dcaplda_score.sh", *options, *inputs, status=status)
    path = recipe.folder / "exp" / "scores" / "scores"
    return path.read_bytes() if path.exists() else b""


@pytest.fixture(scope="module")
def twelve(tmp_path_factory) -> Path:
    """A bundle for the recipe's vectors."""
    directory = tmp_path_factory.mktemp("bundle") / "model"
    export_model(random_model("d-plda-dsd", embedding_dim=DIM, lda_dim=8), directory)
    return directory


def whole(recipe: Recipe, bundle: Path) -> bytes:
    """The scores of one process."""
    scp = "scp:exp/xvectors_test/xvector.scp"
    recipe.typed(
        f"score-trials --prior=0.1 --durations=data/test/utt2dur {bundle} {scp} {scp} "
        "data/test/trials whole"
    )
    return (recipe.folder / "whole").read_bytes()


def test_jobs_that_are_done_are_not_done_again(tmp_path: Path, twelve: Path) -> None:
    recipe = Recipe(tmp_path)
    expected = whole(recipe, twelve)
    place = tmp_path / "exp" / "scores"
    (place / "scores.part.3").mkdir(parents=True)  # in the way of the third job
    assert score(recipe, twelve, "run.pl --mem 4G", status=1) == b""
    (place / "scores.part.3").rmdir()
    assert score(recipe, twelve, "retry.pl queue.pl") == expected
    logs = {j: (place / "log" / f"score.{j}.log").read_text() for j in range(1, 5)}
    assert ["is done already" in logs[j] for j in range(1, 5)] == [True, True, False, True]
    assert sorted(path.name for path in place.iterdir()) == ["log", "scores"]


@pytest.mark.slow
def test_parts_of_other_trials_are_made_again(tmp_path: Path, twelve: Path) -> None:
    recipe = Recipe(tmp_path)
    (tmp_path / "exp" / "scores" / "scores.part.3").mkdir(parents=True)
    score(recipe, twelve, "run.pl", status=1)
    (tmp_path / "exp" / "scores" / "scores.part.3").rmdir()
    lines = (tmp_path / "data" / "test" / "trials").read_text().splitlines(keepends=True)
    (tmp_path / "data" / "test" / "trials").write_text("".join(lines[::-1]))
    assert score(recipe, twelve, "run.pl") == whole(recipe, twelve)


@pytest.mark.slow
def test_retry_tries_again_what_a_lost_machine_left(tmp_path: Path, twelve: Path) -> None:
    recipe = Recipe(tmp_path)
    # A tool that dies once, in the middle, as with its machine.
    tool = tmp_path / "tools" / "score-trials"
    tool.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = --part=2 ] && mkdir {tmp_path}/died 2>/dev/null; then kill -9 $$; fi\n'
        f'exec {ROOT}/bin/score-trials "$@"\n'
    )
    tool.chmod(0o755)
    assert score(recipe, twelve, "retry.pl run.pl") == whole(recipe, twelve)
    assert (tmp_path / "died").exists()
