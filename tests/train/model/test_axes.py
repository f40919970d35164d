"""The score on axes of its own: the form of offsets.py, and its gradient through the loss."""

import numpy as np
import pytest
import torch
from joint_models import joint_torch_model
from training_world import draw

from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.joint.terms import pair_terms
from dcaplda.train.data.batches import BatchWalker
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.axes import AxisScore
from dcaplda.train.model.backend import CONDITIONS, Backend
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.plda.generative import form_scores
from dcaplda.train.plda.offsets import offset_form
from dcaplda.train.recipe.sections import BatchSection
from dcaplda.train.steps.loss import batch_loss
from dcaplda.train.steps.plain_loss import plain_loss

pytestmark = pytest.mark.torch
DIM = 6
PRIOR = 0.05


@pytest.fixture
def score(rng) -> AxisScore:
    """Random axes and variances, in float32."""
    made = AxisScore(DIM, 9)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            size = 1.0 if name == "turn" else 0.7
            noise = size * rng.standard_normal(parameter.shape)
            parameter.add_(torch.from_numpy(noise.astype(np.float32)))
        made.length.fill_(2.5)
    return made


def test_it_is_the_form_with_shared_offset_and_diagonal_covariances(score, rng) -> None:
    """offset_form of diag(b), 1 and diag(o), of vectors turned, centred and made 2.5 long: 1e-5."""
    w = rng.standard_normal((8, DIM))
    between, offset, turn, centre = (
        p.detach().double().numpy()
        for p in (score.log_between.exp(), score.log_offset.exp(), score.turn, score.centre)
    )
    form = offset_form(np.diag(between), np.eye(DIM), np.diag(offset), np.zeros(DIM))
    turned = w @ turn.T - centre
    expected = form_scores(form, 2.5 * turned / np.sqrt((turned**2).sum(axis=1, keepdims=True)))
    with torch.no_grad():
        x = torch.from_numpy(w.astype(np.float32))
        found = score(x, x).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_its_terms_are_those_of_two_single_utterances(score) -> None:
    """runtime/joint has them from the densities; within 1e-6 in float64."""
    score = score.double()
    between, offset = (
        p.detach().numpy() for p in (score.log_between.exp(), score.log_offset.exp())
    )
    expected = pair_terms(between, (offset, offset), (1.0, 1.0))
    cross, own, constant = (part.detach().numpy() for part in score.terms())
    np.testing.assert_allclose(cross, expected.cross, atol=1e-6)
    np.testing.assert_allclose(own, expected.enroll, atol=1e-6)
    np.testing.assert_allclose(own, expected.test, atol=1e-6)
    assert float(constant) == pytest.approx(expected.constant, abs=1e-6)


def test_score_is_symmetric(score, rng) -> None:
    x = torch.from_numpy(rng.standard_normal((5, DIM)).astype(np.float32))
    with torch.no_grad():
        torch.testing.assert_close(score(x, x), score(x, x).T, rtol=1e-5, atol=1e-5)


def test_without_offset_it_is_two_covariance_plda() -> None:
    """o -> 0: the two-covariance score of two axes, by hand; vectors that are 5 long already."""
    score = AxisScore(2, 2).double()
    between = 3.0
    with torch.no_grad():
        score.log_offset.fill_(-40.0)
        score.log_between.fill_(np.log(between))
        score.length.fill_(5.0)
    total = between + 1.0
    determinant = total**2 - between**2
    expected = 0.0
    for a, b in ((3.0, -4.0), (4.0, 3.0)):
        same = -0.5 * (total * (a * a + b * b) - 2 * between * a * b) / determinant
        same -= 0.5 * np.log(determinant)
        expected += same + 0.5 * (a * a + b * b) / total + np.log(total)
    sides = torch.tensor([[[3.0, 4.0]], [[-4.0, 3.0]]], dtype=torch.float64)
    assert score(*sides).item() == pytest.approx(expected, abs=1e-10)


@pytest.fixture(scope="module")
def data() -> TrainingData:
    return draw(2).data()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_and_gradient_equal_autograd_of_the_full_matrix(data, dtype) -> None:
    """1e-4 of each gradient's norm in float32, 1e-8 in float64."""
    model = joint_torch_model(variant="d-plda-dd").to(dtype)
    batch = BatchWalker(data, BatchSection(size=48), 0).next_batch()
    rows = batch.rows
    x, d = (torch.tensor(part[rows], dtype=dtype) for part in (data.embeddings, data.seconds))
    labels = [
        torch.from_numpy(part[rows]).long() for part in (data.identity, data.session, data.domain)
    ]
    losses, gradients = [], []
    for loss in (batch_loss(model, x, d, batch, PRIOR), plain_loss(model, x, d, *labels, PRIOR)):
        model.zero_grad()
        loss.backward()
        losses.append(loss.item())
        gradients.append(
            {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        )
    tolerance = 1e-4 if dtype == torch.float32 else 1e-8
    assert losses[0] == pytest.approx(losses[1], rel=tolerance)
    ours, theirs = gradients
    assert ours.keys() == theirs.keys()
    for name in ("turn", "centre", "log_between", "log_offset"):
        assert theirs[f"plda.{name}"].norm() > 1e-6
    floor = 1e-4 * max(g.norm().item() for g in theirs.values())
    for name, gradient in theirs.items():
        error = (ours[name] - gradient).norm().item()
        assert error <= tolerance * max(gradient.norm().item(), floor), name


@pytest.mark.parametrize(("feature", "width"), [("log", 1), ("wlog", 2)])
def test_conditions_of_one_usual_utterance_are_zeros(feature: str, width: int) -> None:
    """Usual lengths and ease, log 1 utterance, and a place of which nothing is known."""
    config = ModelConfig(
        embedding_dim=8, lda_dim=4, variant="plda-dd", joint=True, duration_feature=feature
    )
    model = Backend(config)
    features = model.duration_features(torch.tensor([3.0, 20.0, 100.0]))
    assert features.shape == (3, width + CONDITIONS)
    assert not features[:, width:].any()
    assert features[:, :width].any()
    assert model.scale_dur is not None and model.scale_dur.cross.shape == (width + 5, width + 5)


@pytest.mark.parametrize("variant", ["plda", "d-plda", "plda-sd", "d-plda-dsd"])
def test_other_variants_cannot_be_joint(variant: str) -> None:
    with pytest.raises(ModelError, match="use plda-dd or d-plda-dd"):
        ModelConfig(embedding_dim=8, lda_dim=4, variant=variant, joint=True)
