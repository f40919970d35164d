import pytest
import torch

from dcaplda.train.recipe.sections import AveragingSection
from dcaplda.train.steps.averaging import BestAverage, NoAverage, RunningAverage, make_averager

pytestmark = pytest.mark.torch


def model(value: float) -> dict[str, torch.Tensor]:
    return {"a": torch.full((2,), value), "b": torch.full((1, 2), -value)}


def distance_to(goal: float):
    """A judge for whom a model at `goal` is best."""
    return lambda parameters: abs(parameters["a"][0].item() - goal)


def test_running_average_is_exponential():
    average = RunningAverage(0.9)
    average.start(model(1.0))
    expected = 1.0
    for value in (2.0, -1.0, 4.0):
        average.step(model(value))
        expected = 0.9 * expected + 0.1 * value
    assert average.average["a"][0].item() == pytest.approx(expected, rel=1e-6)
    assert average.average["b"][0, 0].item() == pytest.approx(-expected, rel=1e-6)


def test_best_running_average_is_kept():
    average = RunningAverage(0.5)
    average.start(model(0.0))
    for value in (2.0, 2.0, 8.0):
        average.step(model(value))
        average.met(model(value), 9.0, {"step": value}, distance_to(1.4))
    found = average.best(distance_to(1.4))
    assert found is not None
    assert found.parameters["a"][0].item() == pytest.approx(1.5)
    assert found.loss == pytest.approx(0.1, abs=1e-6)


def test_top_k_averages_as_many_as_the_judge_likes():
    average = BestAverage(3)
    for value, loss in ((0.0, 5.0), (3.0, 1.0), (7.0, 3.0), (5.0, 2.0)):
        average.met(model(value), loss, {}, distance_to(0.0))
    # The three best are 3, 5, 7; their averages are 4 (of two) and 5 (of three).
    for goal, expected in ((4.2, 4.0), (4.8, 5.0)):
        found = average.best(distance_to(goal))
        assert found is not None
        assert found.parameters["a"][0].item() == expected


def test_one_model_has_no_average():
    average = BestAverage(3)
    average.met(model(1.0), 1.0, {}, distance_to(0.0))
    assert average.best(distance_to(0.0)) is None
    assert NoAverage().best(distance_to(0.0)) is None


@pytest.mark.parametrize("kind", ["ema", "top-k", "none"])
def test_restored_averagers_go_on_alike(kind: str):
    section = AveragingSection(average=kind, ema_decay=0.7, top_k=2)
    judge = distance_to(2.5)

    def walk(averager, values) -> None:
        for value in values:
            averager.step(model(value))
            averager.met(model(value), abs(value - 2.5), {"value": value}, judge)

    one = make_averager(section)
    one.start(model(0.0))
    walk(one, [1.0, 4.0])
    two = make_averager(section)
    tensors, values = one.state()
    two.restore({name: tensor.clone() for name, tensor in tensors.items()}, values)
    for averager in (one, two):
        walk(averager, [2.0, 3.0])
    found, expected = two.best(judge), one.best(judge)
    if kind == "none":
        assert found is None
        assert expected is None
        return
    assert found is not None
    assert expected is not None
    assert found.loss == expected.loss
    assert torch.equal(found.parameters["a"], expected.parameters["a"])


def test_kept_models_do_not_move_with_the_training():
    average = BestAverage(2)
    live = model(1.0)
    average.met(live, 1.0, {}, distance_to(0.0))
    live["a"].fill_(99.0)
    assert average.models[0].parameters["a"][0].item() == 1.0
