"""Disturbances of a batch: what each does to vectors and seconds, written out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from training_world import DIM, draw

from dcaplda.train.data.batches import BatchWalker
from dcaplda.train.data.disturbances import Disturber
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.model.forms import model_forms
from dcaplda.train.recipe.files import load_recipe
from dcaplda.train.start.values import build_model, find_start
from dcaplda.train.steps.objective import Optimizer

pytestmark = pytest.mark.torch
CPU = torch.device("cpu")
SMALL = ["model.lda_dim=10", "model.side_hidden_dim=8", "model.side_info_dim=3"]
SMALL += ["init.em_iterations=5", "batch.size=48", "model.duration_feature=log"]


@pytest.fixture(scope="module")
def data():
    return draw(2).data()


def recipe(*settings: str):
    return load_recipe("", [*SMALL, *settings])


def disturbed(data, *settings: str, seed: int = 0) -> tuple[Tensor, Tensor, object, object]:
    """Vectors and seconds of a batch after the disturbance, the batch, the disturbance."""
    config = recipe(*settings)
    batch = BatchWalker(data, config.batch, 0).next_batch()
    disturber = Disturber(data, config.batch)
    drawn = disturber.draw(batch, np.random.default_rng(seed))
    assert drawn is not None
    x, seconds = torch.from_numpy(data.embeddings[batch.rows]), torch.from_numpy(data.seconds)
    return *disturber.apply(drawn, batch, x, seconds[batch.rows]), batch, drawn


def test_nothing_is_drawn_unless_asked(data) -> None:
    config = recipe()
    batch = BatchWalker(data, config.batch, 0).next_batch()
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert Disturber(data, config.batch).draw(batch, rng) is None
    assert rng.bit_generator.state == before


def test_offset_noise_moves_all_vectors_of_a_block_alike(data) -> None:
    found, _, batch, drawn = disturbed(data, "batch.offset_noise=0.5")
    moved = found.numpy() - data.embeddings[batch.rows]
    for block, offset in zip(batch.blocks, drawn.offsets, strict=True):
        expected = np.broadcast_to(offset, (block.size, DIM))
        np.testing.assert_allclose(moved[block.start : block.stop], expected, atol=1e-5)
    many = [disturbed(data, "batch.offset_noise=0.5", seed=s)[3].offsets for s in range(200)]
    # 200 draws of each block: relative standard error of a deviation 3 % or less.
    sizes = np.std(np.concatenate(many), axis=0) / data.embeddings.std(axis=0)
    np.testing.assert_allclose(sizes, 0.5, rtol=0.15)


def test_scale_noise_stretches_a_block_around_the_centre(data) -> None:
    found, _, batch, drawn = disturbed(data, "batch.scale_noise=0.3")
    centre = data.embeddings.mean(axis=0)
    for block, scale in zip(batch.blocks, drawn.scales, strict=True):
        rows = slice(block.start, block.stop)
        expected = centre + (data.embeddings[batch.rows[rows]] - centre) * scale
        np.testing.assert_allclose(found[rows].numpy(), expected, atol=1e-4)
    assert (drawn.scales > 0).all()


def test_short_noise_cuts_and_adds_what_a_shorter_utterance_has_more(data) -> None:
    """Covariance c (1/t - 1/s) W, W written out; seconds between the shortest and the whole."""
    rest = np.empty_like(data.embeddings)
    for speaker in np.unique(data.speaker):
        own = data.speaker == speaker
        rest[own] = data.embeddings[own] - data.embeddings[own].mean(axis=0)
    within = rest.T @ rest / (len(rest) - len(np.unique(data.speaker)))
    scaled = []
    for seed in range(60):
        found, left, batch, _ = disturbed(data, "batch.short_noise=4.0", seed=seed)
        whole, left = data.seconds[batch.rows], left.numpy()
        assert (left <= whole * (1 + 1e-6)).all() and (left >= data.seconds.min() * 0.999).all()
        cut = left < whole * 0.9
        added = (found.numpy() - data.embeddings[batch.rows])[cut]
        scaled.append(added / np.sqrt(4.0 * (1 / left - 1 / whole))[cut, None])
        kept = left == whole
        np.testing.assert_array_equal(found.numpy()[kept], data.embeddings[batch.rows][kept])
    rows = np.concatenate(scaled)
    assert len(rows) > 500
    error = np.linalg.norm(rows.T @ rows / len(rows) - within) / np.linalg.norm(within)
    assert error < 4 * np.sqrt(DIM / len(rows))


def test_dropped_side_information_is_a_z_of_zero(data) -> None:
    config = recipe("batch.side_dropout=0.4", "model.variant=d-plda-dsd")
    start = find_start(data, config)
    model = build_model(start, ModelConfig(embedding_dim=DIM, **vars(config.model)), config.init, 0)
    batch = BatchWalker(data, config.batch, 0).next_batch()
    drawn = Disturber(data, config.batch).draw(batch, np.random.default_rng(1))
    assert drawn is not None and drawn.side_kept is not None
    kept = torch.from_numpy(drawn.side_kept)
    assert 0.2 < 1 - float(kept.mean()) < 0.6
    x, seconds = torch.from_numpy(data.embeddings[batch.rows]), torch.from_numpy(data.seconds)
    forms = model_forms(model, x, seconds[batch.rows], kept)
    plain = model_forms(model, x, seconds[batch.rows])
    for form, whole in zip(forms[3:], plain[3:], strict=True):
        assert (form.x[kept == 0] == 0).all()
        assert torch.equal(form.x[kept == 1], whole.x[kept == 1])


def test_the_optimizer_sees_the_disturbed_vectors(data) -> None:
    config = recipe("batch.offset_noise=0.5")
    batch = BatchWalker(data, config.batch, 0).next_batch()
    disturber = Disturber(data, config.batch)
    drawn = disturber.draw(batch, np.random.default_rng(0))
    start = find_start(data, config)

    def first_loss(of, disturbance) -> float:
        shape = ModelConfig(embedding_dim=DIM, **vars(config.model))
        model = build_model(start, shape, config.init, 0)
        optimizer = Optimizer(model, of, config.objective, CPU, None, disturber)
        return optimizer.step(batch, disturbance)[0]

    moved = data.embeddings.copy()
    for block, offset in zip(batch.blocks, drawn.offsets, strict=True):
        moved[np.unique(batch.rows[block.start : block.stop])] += offset
    expected = first_loss(replace(data, embeddings=moved), None)
    assert first_loss(data, drawn) == pytest.approx(expected, rel=1e-5)
