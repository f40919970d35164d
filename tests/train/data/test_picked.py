"""Rows of a matrix without a copy: the same vectors, the same models, and no second matrix."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from training_world import draw

from dcaplda.train.data import picked
from dcaplda.train.data.guesses import complete
from dcaplda.train.data.labelled import Labels, assemble
from dcaplda.train.recipe.sections import DataSection

N, DIM = 30_000, 192
BYTES = N * DIM * 4


@pytest.fixture(scope="module")
def many():
    """23 MB of vectors: 300 people of 10 sessions, in two domains."""
    rng = np.random.default_rng(0)
    person = np.arange(N) // 100
    voices = 3.0 * rng.standard_normal((300, DIM)) + 9.0 * (np.arange(300) % 2)[:, None]
    matrix = (voices[person] + rng.standard_normal((N, DIM))).astype(np.float32)
    ids = [f"d{p % 2}-{p:03d}-{row // 10:05d}-{row:06d}" for row, p in enumerate(person)]
    labels = Labels(
        place="made up",
        speaker={name: name[:6] for name in ids},
        session={name: name[:12] for name in ids},
        domain={name: name[:2] for name in ids},
        seconds=dict.fromkeys(ids, 5.0),
    )
    return ids, matrix, labels


def peak_bytes(call) -> int:
    """Most bytes that the call has at a time, numpy's among them."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_picked_rows_are_those_of_the_matrix() -> None:
    """By chunks, by numbers, all at once, and picked from what was picked."""
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((30, 4)).astype(np.float32)
    rows, again = np.sort(rng.permutation(30)[:20]), np.array([0, 3, 19])
    some = picked.pick(matrix, rows)
    assert len(some) == 20 and some.shape == (20, 4)
    np.testing.assert_array_equal(some[3:7], matrix[rows][3:7])
    np.testing.assert_array_equal(some[again], matrix[rows][again])
    np.testing.assert_array_equal(np.asarray(some), matrix[rows])
    np.testing.assert_array_equal(np.asarray(some, np.float64), matrix[rows].astype(np.float64))
    few = picked.pick(some, again)
    np.testing.assert_array_equal(np.asarray(few), matrix[rows][again])
    assert np.shares_memory(few.matrix, matrix), "a subset of a subset is of the first matrix"


@pytest.mark.parametrize("count", [1, picked.CHUNK, picked.CHUNK + 1])
def test_means_and_extremes_are_those_of_all_rows(count) -> None:
    matrix = np.random.default_rng(2).standard_normal((count + 5, 3)).astype(np.float32)
    rows = np.arange(count)
    for vectors in (matrix[:count], picked.pick(matrix, rows)):
        expected = matrix[:count].astype(np.float64).mean(axis=0)
        np.testing.assert_allclose(picked.mean_vector(vectors), expected, rtol=1e-9, atol=1e-12)
        least, greatest = picked.extremes(vectors)
        np.testing.assert_array_equal(least, matrix[:count].min(axis=0))
        np.testing.assert_array_equal(greatest, matrix[:count].max(axis=0))


def test_guesses_hold_no_second_copy(many) -> None:
    """What nobody told is asked of the vectors a few at a time; ids and labels are not in it."""
    ids, matrix, labels = many
    asked = replace(labels, domain=None)
    section = DataSection(missing_domains="guessed", missing_sessions="guessed")
    assert len(complete(ids, matrix, asked, section).notes) == 1
    few = matrix[:, :1].copy()
    names_only = peak_bytes(lambda: complete(ids, few, asked, section))
    assert peak_bytes(lambda: complete(ids, matrix, asked, section)) - names_only < 0.5 * BYTES


@pytest.mark.torch
@pytest.mark.parametrize("joint", [True, False])
def test_models_without_a_part_hold_no_second_copy(many, monkeypatch, joint) -> None:
    """LDA, PLDA and the joint scorer of four fifths, whose copy alone would be 0.8 of the data."""
    from dcaplda.train.data.folds import speaker_parts
    from dcaplda.train.plda import covariances
    from dcaplda.train.plda.generative import fit_generative
    from dcaplda.train.recipe.sections import InitSection, ModelSection, TrainingConfig
    from dcaplda.train.start.joint import scorer_without

    monkeypatch.setattr(covariances, "CHUNK", 1 << 10)
    monkeypatch.setattr(picked, "CHUNK", 1 << 10)
    data = assemble(*many)
    part = speaker_parts(data, 5)[0]
    assert len(part.others) > 0.75 * N
    init = InitSection(domain_offsets=joint, shared_offset=float(joint), em_iterations=1)
    config = TrainingConfig(model=ModelSection(lda_dim=32), init=init)

    def without():
        if joint:
            return scorer_without(data, part, config)
        return fit_generative(data.subset(part.others), config.init, 32, [])

    without()  # what is imported and kept the first time is not counted
    assert peak_bytes(without) < 0.6 * BYTES


@pytest.mark.torch
@pytest.mark.parametrize("subset", ["all", "one-per-recording"])
def test_models_without_a_part_are_those_of_its_copy(subset) -> None:
    """Bit for bit: LDA, PLDA and steps see the vectors of a matrix that has only these rows."""
    import torch

    from dcaplda.train.data.batches import BatchWalker
    from dcaplda.train.data.disturbances import Disturber
    from dcaplda.train.model.config import ModelConfig
    from dcaplda.train.recipe.sections import (
        BatchSection,
        InitSection,
        ModelSection,
        ObjectiveSection,
        TrainingConfig,
    )
    from dcaplda.train.start.values import build_model, find_start
    from dcaplda.train.steps.objective import Optimizer

    data = draw(4).data()
    some = data.subset(np.flatnonzero(data.identity % 3 > 0))
    copied = replace(some, embeddings=np.asarray(some.embeddings))
    model = ModelSection(variant="d-plda-dsd", lda_dim=8, side_hidden_dim=6, side_info_dim=2)
    batch = BatchSection(size=24, repeat_speakers=True, scale_noise=0.1, short_noise=0.1)
    config = TrainingConfig(model=model, init=InitSection(subset=subset), batch=batch)
    results = []
    for own in (some, copied):
        start = find_start(own, config)
        shape = ModelConfig(embedding_dim=24, **vars(model))
        backend = build_model(start, shape, config.init, 0)
        walker, disturber = BatchWalker(own, batch, 0), Disturber(own, batch)
        device = torch.device("cpu")
        optimizer = Optimizer(backend, own, ObjectiveSection(), device, None, disturber)
        optimizer.set_rate(1e-3)
        for _ in range(3):
            drawn = walker.next_batch()
            optimizer.step(drawn, disturber.draw(drawn, walker.rng))
        results.append(dict(backend.named_parameters()))
    for name, value in results[0].items():
        assert torch.equal(value, results[1][name]), name
