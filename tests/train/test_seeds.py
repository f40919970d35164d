import json
from pathlib import Path

import pytest
from training_world import draw, write_data_dir, write_dev, write_recipe

from dcaplda.bin.train_backend import main
from dcaplda.runtime.errors import ModelError, UsageError
from dcaplda.train.seeds import parse_seeds, select_best

pytestmark = pytest.mark.torch
FILES = ("model.safetensors", "model_config.json", "config.toml", "curves.png", "summary.txt")


@pytest.mark.parametrize(
    ("text", "seeds"), [("0-3", [0, 1, 2, 3]), ("7", [7]), ("5,1-2,2", [1, 2, 5]), ("3-3", [3])]
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["a", "1-", "-3", "3-1", "", "1,,2", "1.5"])
def test_other_seeds_are_refused(text: str):
    with pytest.raises(UsageError, match="--seeds"):
        parse_seeds(text)


def fake_run(directory: Path, seed: int, average: float | None) -> None:
    place = directory / f"seed-{seed}"
    place.mkdir(parents=True)
    for name in FILES:
        (place / name).write_text(f"{name} of {seed}")
    summary = {"average": average, "seed": seed, "dev": []}
    (place / "training_summary.json").write_text(json.dumps(summary))


def test_the_best_seed_is_put_in_front_and_the_spread_told(tmp_path):
    for seed, average in ((0, 0.5), (1, 0.4), (2, 0.6), (10, 0.45)):
        fake_run(tmp_path, seed, average)
    (tmp_path / "seed-3").mkdir()
    seed, lines = select_best(tmp_path)
    assert seed == 1
    for name in FILES:
        assert (tmp_path / name).read_text() == f"{name} of 1"
    summary = json.loads((tmp_path / "training_summary.json").read_text())
    assert summary["seed"] == 1
    assert summary["seeds"]["best"] == 0.4
    assert summary["seeds"]["median"] == pytest.approx(0.475)
    assert summary["seeds"]["worst"] == 0.6
    assert "worst: 0.6000 (+50.0%)" in lines
    assert "seed-3 is not finished and was left out" in lines
    assert (tmp_path / "seeds.txt").read_text().splitlines() == lines


def test_selection_needs_finished_runs_with_development_sets(tmp_path):
    with pytest.raises(ModelError, match="no finished run"):
        select_best(tmp_path)
    fake_run(tmp_path, 0, None)
    with pytest.raises(ModelError, match="no development sets"):
        select_best(tmp_path)


def test_without_development_sets_the_least_held_out_loss_is_selected(tmp_path):
    for seed, loss in ((0, 0.5), (1, 0.3), (2, 0.4)):
        fake_run(tmp_path, seed, None)
        place = tmp_path / f"seed-{seed}" / "training_summary.json"
        summary = json.loads(place.read_text())
        place.write_text(json.dumps({**summary, "held_out": {"cllr": loss}}))
    seed, lines = select_best(tmp_path)
    assert seed == 1
    assert lines[0] == "seed 1: held-out Cllr 0.3000"


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_data_dir(root / "train", draw(0))
    write_dev(root / "dev")
    write_recipe(root / "recipe.toml")
    return root


def train(world: Path, directory: Path, *options: str) -> int:
    arguments = [str(world / "train"), str(world / "train" / "xvector.npz"), str(directory)]
    return main([f"--config={world / 'recipe.toml'}", "--threads=1", *options, *arguments])


def test_several_seeds_equal_a_job_array_and_selection(world, tmp_path, capsys):
    assert train(world, tmp_path / "a", "--seeds=0-1", "--jobs=2") == 0
    spoken = capsys.readouterr().err
    for seed in (0, 1):
        assert train(world, tmp_path / "b" / f"seed-{seed}", f"--seed={seed}") == 0
        one, other = (tmp_path / x / f"seed-{seed}" / "model.safetensors" for x in "ab")
        assert one.read_bytes() == other.read_bytes()
    assert main(["--select", str(tmp_path / "b")]) == 0
    for name in ("model.safetensors", "seeds.txt", "training_summary.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert "median" in spoken
    assert "is selected" in spoken


def test_a_failing_seed_is_named_with_its_own_words(world, tmp_path, capsys):
    option = "--set=batch.size=4000"
    assert train(world, tmp_path / "exp", "--seeds=3", option) == 1
    spoken = capsys.readouterr().err
    assert "1 of 1 seeds failed; seed 3" in spoken
    assert "batch.size" in spoken.splitlines()[-1]
