"""Training without evaluation gives what the training loop gives without development sets."""

import tomllib

import pytest
import torch
from training_world import SMALL_RECIPE, draw

from dcaplda.train.model.config import ModelConfig
from dcaplda.train.recipe.files import config_from_dict
from dcaplda.train.selection.losses import Evaluator
from dcaplda.train.start.values import build_model, find_start
from dcaplda.train.steps.loop import Trainer
from dcaplda.train.steps.unwatched import train_unwatched

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")


@pytest.mark.parametrize("average", ["none", "ema"])
def test_equal_to_the_training_loop_bit_for_bit(tmp_path, average: str):
    values = {**tomllib.loads(SMALL_RECIPE), "averaging": {"average": average, "ema_decay": 0.7}}
    config = config_from_dict(values, "small")
    data = draw(0).data()
    shape = ModelConfig(embedding_dim=24, **vars(config.model))
    start = find_start(data, config)
    watched, unwatched = (build_model(start, shape, config.init, 3) for _ in range(2))
    trainer = Trainer(watched, data, Evaluator([], 0.01), config, {}, tmp_path, CPU)
    chosen = trainer.run(lambda progress, figures: None)
    train_unwatched(unwatched, data, config, CPU)
    last = dict(watched.named_parameters())
    for name, value in unwatched.named_parameters():
        assert torch.equal(value, chosen.parameters[name])
    changed = any(not torch.equal(chosen.parameters[name], last[name]) for name in last)
    assert changed == (average == "ema")
    assert chosen.place == {"last": 24, **({"average": "ema"} if average == "ema" else {})}


def test_no_steps_change_nothing():
    values = tomllib.loads(SMALL_RECIPE)
    for number in (1, 2, 3):
        values[f"stage{number}"]["steps"] = 0
    config = config_from_dict(values, "small")
    data = draw(0).data()
    shape = ModelConfig(embedding_dim=24, **vars(config.model))
    model = build_model(find_start(data, config), shape, config.init, 3)
    before = {name: value.clone() for name, value in model.named_parameters()}
    train_unwatched(model, data, config, CPU)
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name])
