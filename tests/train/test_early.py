"""All that can be known before LDA is one message of one line, told before any LDA."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from training_world import draw, write_data_dir, write_dev, write_recipe

from dcaplda.runtime.errors import UsageError
from dcaplda.train import run as training
from dcaplda.train.early import PAPER, check_fit
from dcaplda.train.recipe.files import load_recipe
from dcaplda.train.recipe.problems import Problems
from dcaplda.train.run import Request, train

pytestmark = pytest.mark.torch
REPO = Path(__file__).parents[2]
CPU = torch.device("cpu")
NO_STEPS = [f"stage{number}.steps=0" for number in (1, 2, 3)]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("world")
    write_data_dir(root / "train", draw(0))
    write_dev(root / "dev")
    write_recipe(root / "recipe.toml")
    return root


def request(world: Path, exp: Path, recipe: Path, *settings: str, data="train") -> Request:
    return Request(
        data_dir=str(world / data),
        vectors=str(world / data / "xvector.npz"),
        directory=exp,
        config=load_recipe(str(recipe), settings),
        device=CPU,
        threads=1,
        quiet=True,
        recipe=str(recipe),
    )


def silent(text: str) -> None:
    pass


def refusal(asked: Request, monkeypatch) -> str:
    """What a run is refused with; LDA must not have been reached."""

    def reached(*arguments):
        raise AssertionError("LDA was computed before the problems were told")

    monkeypatch.setattr(training, "find_start", reached)
    with pytest.raises(UsageError) as error:
        train(asked, silent, silent)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_sizes_batches_and_sets_are_told_together(world, tmp_path, monkeypatch):
    recipe = write_recipe(world / "many.toml", split=False)
    recipe.write_text(
        recipe.read_text()
        + '[[dev]]\nname = "unseen"\nxvectors = "scp:nowhere/x.scp"\ntrials = "dev/trials"\n'
        + '[[dev]]\nname = "other"\nxvectors = "dev/xvector.npz"\ntrials = "gone"\n'
        + 'durations = "dev/utt2dur"\n'
    )
    settings = ["model.lda_dim=25", "model.side_hidden_dim=30", "batch.size=200"]
    settings += ["batch.domain_weights.dom7=2", "model.duration_parameters.centre=3"]
    said = refusal(request(world, tmp_path / "exp", recipe, *settings), monkeypatch)
    assert said.startswith(f"{recipe}: 7 problems: (1) ")
    for words in (
        "model.lda_dim = 25: the embeddings have 24 values",
        "model.side_hidden_dim = 30: the embeddings have 24 values",
        "batch.size = 200: domain 'dom0' has 14 speakers, a batch takes 33; set batch.size to at "
        "most 84 or batch.repeat_speakers = true",
        "no domain 'dom7' in the training data",
        "has no parameter 'centre'",
        f"[[dev]] 'unseen': no such file: {world}/nowhere/x.scp; the variant uses durations; add",
        f"[[dev]] 'other': no such file: {world}/gone",
    ):
        assert words in said, words
    assert "the paper's" not in said


def test_the_paper_s_sizes_say_so_and_what_is_advised_trains(world, tmp_path, monkeypatch):
    conf = REPO / "conf" / "dca-plda.toml"
    config = load_recipe(str(conf))
    sizes = (config.model.lda_dim, config.model.side_hidden_dim, config.batch.size)
    assert sizes == tuple(PAPER.values())
    with monkeypatch.context() as patch:
        said = refusal(request(world, tmp_path / "exp", conf), patch)
    assert "(3) batch.size = 2048: domain 'dom0' has 14 speakers, a batch takes 341" in said
    assert "the paper's, for thousands of people; what fits 42 people and embeddings of 24" in said
    advised = [word.removeprefix("--set=") for word in said.split() if word.startswith("--set=")]
    assert advised == ["model.lda_dim=24", "model.side_hidden_dim=24", "batch.size=84"]
    few = ["stage1.steps=2", "stage2.steps=0", "stage3.steps=0", "init.em_iterations=1"]
    summary = train(request(world, tmp_path / "exp", conf, *advised, *few), silent, silent)
    assert summary["steps"] == 2


def test_a_few_people_get_fewer_directions_than_the_embeddings_have():
    data = draw(1, domains=2, speakers=4).data()
    config = load_recipe(str(REPO / "conf" / "dca-plda.toml"))
    advice = check_fit(config, data, Problems())
    assert "--set=model.lda_dim=7 " in advice  # eight people differ in seven directions


def test_batches_are_checked_only_where_there_are_steps(world, tmp_path, monkeypatch):
    recipe = world / "recipe.toml"
    asked = request(world, tmp_path / "exp", recipe, "batch.size=4000", *NO_STEPS)
    assert train(asked, silent, silent)["steps"] == 0
    asked = request(world, tmp_path / "more", recipe, "batch.size=4000")
    assert "batch.size = 4000" in refusal(asked, monkeypatch)
    held = ["batch.held_out_folds=2", "batch.size=4"]
    said = refusal(request(world, tmp_path / "held", recipe, *held), monkeypatch)
    assert "batch.size = 4: too small for two samples of a speaker of each of 3 domains" in said
    held = ["batch.held_out_folds=40"]
    said = refusal(request(world, tmp_path / "held", recipe, *held), monkeypatch)
    assert "no held-out part has two speakers" in said


def test_data_that_cannot_be_read_do_not_hide_the_rest(world, tmp_path, monkeypatch):
    recipe = world / "recipe.toml"
    settings = ["dev.held.trials=gone", "model.joint=true", "model.variant=d-plda"]
    said = refusal(request(world, tmp_path / "exp", recipe, *settings, data="none"), monkeypatch)
    assert said.startswith("5 problems: (1) ")  # not the recipe's fault alone
    for words in (
        f"{world / 'none'}: no such data directory",
        "[[dev]] 'held': no such file: gone",
        "joint = true with variant = 'd-plda'",
        "stage1.steps, stage2.steps and stage3.steps to 0",
        "init.domain_offsets = true",
    ):
        assert words in said, words


def sample_without(people: int) -> object:
    """The world with so many people in its last domain."""
    whole = draw(0)
    last = sorted({whole.speaker[n] for n in whole.ids if whole.domain[n] == "dom2"})[people:]
    keep = [i for i, name in enumerate(whole.ids) if whole.speaker[name] not in last]
    return replace(
        whole, ids=[whole.ids[i] for i in keep], vectors=np.ascontiguousarray(whole.vectors[keep])
    )


def test_a_domain_of_one_speaker_is_named(world, tmp_path, monkeypatch):
    write_data_dir(world / "lonely", sample_without(1))
    recipe = world / "recipe.toml"
    for settings in ([], NO_STEPS):  # the calibration of the start meets it, too
        asked = request(world, tmp_path / "exp", recipe, *settings, data="lonely")
        said = refusal(asked, monkeypatch)
        assert "domain 'dom2' has 1 speaker with two sessions" in said and "problems" not in said


def test_one_speaker_and_equal_embeddings_are_told_in_words(world, tmp_path, monkeypatch):
    one = draw(0, domains=1, speakers=1)
    write_data_dir(world / "one", one)
    asked = request(world, tmp_path / "exp", world / "recipe.toml", *NO_STEPS, data="one")
    assert "one speaker" in refusal(asked, monkeypatch)
    same = draw(0)
    same.vectors[:, 5] = 0.25
    write_data_dir(world / "same", same)
    asked = request(world, tmp_path / "exp", world / "recipe.toml", data="same")
    said = refusal(asked, monkeypatch)
    assert "value 5 (counted from 0) is 0.25 in all training embeddings (1 of 24" in said
