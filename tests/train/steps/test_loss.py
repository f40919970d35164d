"""The fast loss against the full-matrix definition, and that against eq. 14 itself."""

import math

import numpy as np
import pytest
import torch
from random_models import random_model
from training_world import draw

from dcaplda.eval.metrics.scalars import cllr
from dcaplda.train.data.batches import Batch, BatchWalker, make_batch
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.config import VARIANTS
from dcaplda.train.recipe.sections import BatchSection
from dcaplda.train.steps.loss import batch_loss
from dcaplda.train.steps.plain_loss import plain_loss

pytestmark = pytest.mark.torch
PRIOR = 0.01


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return draw(2).data()


def tensors(data: TrainingData, batch: Batch, dtype=torch.float32) -> tuple:
    rows = batch.rows
    return torch.tensor(data.embeddings[rows], dtype=dtype), torch.tensor(
        data.seconds[rows], dtype=dtype
    )


def plain(model: Backend, data: TrainingData, batch: Batch, weights=None, prior=PRIOR, dtype=None):
    labels = [
        torch.from_numpy(part[batch.rows]).long()
        for part in (data.identity, data.session, data.domain)
    ]
    return plain_loss(model, *tensors(data, batch, dtype or torch.float32), *labels, prior, weights)


def fast(model: Backend, data: TrainingData, batch: Batch, prior=PRIOR, dtype=None):
    return batch_loss(model, *tensors(data, batch, dtype or torch.float32), batch, prior)


def gradients(model: Backend, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_close(model: Backend, found: torch.Tensor, expected: torch.Tensor, tolerance: float):
    """Loss, and each parameter's gradient by its relative norm."""
    assert found.item() == pytest.approx(expected.item(), rel=tolerance)
    ours, theirs = gradients(model, found), gradients(model, expected)
    assert ours.keys() == theirs.keys()
    # A gradient that is zero but for rounding is compared with the largest one.
    floor = 1e-4 * max(g.norm().item() for g in theirs.values())
    for name, theirs_of_name in theirs.items():
        error = (ours[name] - theirs_of_name).norm().item()
        assert error <= tolerance * max(theirs_of_name.norm().item(), floor), name


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("balance", ["domain", "flat"])
def test_loss_and_gradient_equal_the_full_matrix(data, variant: str, balance: str):
    model = random_model(variant)
    batch = BatchWalker(data, BatchSection(size=48, balance=balance), 0).next_batch()
    assert_close(model, fast(model, data, batch), plain(model, data, batch), 1e-5)


@pytest.mark.parametrize("activation", ["softmax", "log-softmax"])
@pytest.mark.parametrize("feature", ["log", "bin"])
def test_other_activations_and_durations_equal_the_full_matrix(data, activation, feature):
    model = random_model("d-plda-dsd", side_activation=activation, duration_feature=feature)
    batch = BatchWalker(data, BatchSection(size=48), 0).next_batch()
    assert_close(model, fast(model, data, batch), plain(model, data, batch), 1e-5)


def test_in_float64_they_agree_far_beyond_float32(data):
    """1e-9 and not 1e-15, since torch's softplus takes log(1 + e^x) as x above 20."""
    model = random_model("d-plda-dsd").double()
    batch = BatchWalker(data, BatchSection(size=48), 0).next_batch()
    kwargs = {"dtype": torch.float64}
    assert_close(
        model, fast(model, data, batch, **kwargs), plain(model, data, batch, **kwargs), 1e-9
    )


def test_domain_weights_and_repeated_speakers_equal_the_full_matrix(data):
    weights = {"dom0": 0.2, "dom2": 3.0}
    section = BatchSection(size=120, repeat_speakers=True, domain_weights=weights)
    batch = BatchWalker(data, section, 0).next_batch()
    model = random_model("d-plda-dsd")
    expected = plain(model, data, batch, torch.tensor([0.2, 1.0, 3.0]))
    assert_close(model, fast(model, data, batch), expected, 1e-5)


def test_a_domain_of_weight_zero_does_not_count(data):
    section = BatchSection(size=48, domain_weights={"dom1": 0.0})
    batch = BatchWalker(data, section, 0).next_batch()
    model = random_model("d-plda-dsd")
    expected = plain(model, data, batch, torch.tensor([1.0, 0.0, 1.0]))
    assert_close(model, fast(model, data, batch), expected, 1e-5)


def test_frozen_parts_get_no_gradient(data):
    model = random_model("plda-dsd")
    model.preprocess.requires_grad_(False)
    model.plda.requires_grad_(False)
    batch = BatchWalker(data, BatchSection(size=36), 0).next_batch()
    found = gradients(model, fast(model, data, batch))
    assert not any(name.startswith(("preprocess", "plda")) for name in found)
    expected = gradients(model, plain(model, data, batch))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5)


def test_plain_loss_is_the_paper_s_cllr(data):
    """Eq. 14 over the prior's entropy, from the LLRs alone, by the metrics of eval/."""
    model = random_model("d-plda-dsd")
    batch = make_batch(data, np.arange(20), np.ones(3))
    embeddings, seconds = tensors(data, batch)
    with torch.no_grad():
        llrs = model(embeddings, seconds, embeddings, seconds).double().numpy()
    target, nontarget = [], []
    for i, a in enumerate(batch.rows):
        for j, b in enumerate(batch.rows):
            if data.domain[a] != data.domain[b] or data.session[a] == data.session[b]:
                continue
            same = data.identity[a] == data.identity[b]
            (target if same else nontarget).append(llrs[i, j])
    expected = cllr(np.array(target), np.array(nontarget), PRIOR)
    assert plain(model, data, batch).item() == pytest.approx(expected, rel=1e-5)


def test_uninformative_scores_cost_one(data):
    """LLR 0 everywhere: exactly the prior's entropy, whatever the prior."""
    model = random_model("d-plda")
    with torch.no_grad():
        for parameter in model.plda.parameters():
            parameter.zero_()
        model.shift.zero_()
    batch = BatchWalker(data, BatchSection(size=36), 0).next_batch()
    for prior in (0.5, 0.01):
        assert fast(model, data, batch, prior).item() == pytest.approx(1.0, rel=1e-6)


def test_extreme_scores_stay_finite(data):
    """A logit of many thousands must cost in proportion, not overflow."""
    model = random_model("d-plda")
    with torch.no_grad():
        for parameter in model.plda.parameters():
            parameter.zero_()
        model.shift.fill_(5000.0)
    batch = BatchWalker(data, BatchSection(size=36), 0).next_batch()
    loss = fast(model, data, batch)
    gamma = math.log(PRIOR / (1 - PRIOR))
    entropy = -PRIOR * math.log(PRIOR) - (1 - PRIOR) * math.log(1 - PRIOR)
    assert loss.item() == pytest.approx((1 - PRIOR) * (5000 + gamma) / entropy, rel=1e-5)
    assert all(torch.isfinite(g).all() for g in gradients(model, loss).values())


def test_without_gradient_nothing_is_kept(data):
    model = random_model("d-plda-dsd")
    batch = BatchWalker(data, BatchSection(size=36), 0).next_batch()
    with torch.no_grad():
        loss = fast(model, data, batch)
    assert not loss.requires_grad
    assert loss.item() == pytest.approx(fast(model, data, batch).item(), rel=1e-6)
