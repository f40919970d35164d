"""The value `auto` in recipes: where it may stand, and its way to disk and back."""

import dataclasses
import tomllib

import pytest

from dcaplda.runtime.errors import UsageError
from dcaplda.train.recipe.auto import AUTO_KEYS, is_auto, with_values
from dcaplda.train.recipe.files import config_from_dict, config_to_toml, load_recipe
from dcaplda.train.recipe.sections import TrainingConfig


def test_every_auto_key_is_a_key_of_a_recipe():
    for key in AUTO_KEYS:
        section, name = key.split(".")
        assert name in {f.name for f in dataclasses.fields(getattr(TrainingConfig(), section))}


def test_without_a_recipe_everything_is_auto_but_what_is_set():
    config = load_recipe("", ["model.lda_dim=7", "run.seed=3"], auto=True)
    assert set(AUTO_KEYS) - set(config.auto) == {"model.lda_dim"}
    assert (config.model.lda_dim, config.run.seed) == (7, 3)


def test_a_file_without_auto_keeps_the_paper_s_values(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text("[stage1]\nsteps = 3\n")
    config = load_recipe(str(path), auto=True)
    assert config.auto == ()
    assert config.model.lda_dim == 300


def test_auto_stands_in_files_and_settings_and_comes_back_from_toml(tmp_path):
    path = tmp_path / "r.toml"
    path.write_text('[model]\nlda_dim = "auto"\nvariant = "plda-dd"\n[stage1]\nsteps = "auto"\n')
    config = load_recipe(str(path), ["init.shrinkage=auto"])
    assert config.auto == ("model.lda_dim", "init.shrinkage", "stage1.steps")
    text = config_to_toml(config)
    assert 'lda_dim = "auto"' in text
    assert config_from_dict(tomllib.loads(text), "again") == config


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("run.seed=auto", r"\[run\] seed cannot be 'auto'"),
        ("model.lda_dims=auto", "did you mean 'lda_dim'"),
        ("nothing.at_all=auto", "no key 'nothing'"),
    ],
)
def test_auto_where_it_cannot_be_is_refused(setting: str, message: str):
    with pytest.raises(UsageError, match=message):
        load_recipe("", [setting])


def test_values_take_the_place_of_auto():
    config = load_recipe("", [], auto=True)
    changed = with_values(config, {"model.variant": "plda", "stage1.steps": 0, "run.seed": 5})
    assert (changed.model.variant, changed.stage1.steps, changed.run.seed) == ("plda", 0, 5)
    assert not is_auto(changed, "model.variant", "stage1.steps")
    assert is_auto(changed, "model.lda_dim")
    with pytest.raises(UsageError, match="model.variant = 'dplda'"):
        with_values(config, {"model.variant": "dplda"})
