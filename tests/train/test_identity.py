"""The digest of the data covers every byte in its order."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_world import draw, write_dev

from dcaplda.train.identity import data_digest, sets_digest
from dcaplda.train.recipe.sections import DevSection
from dcaplda.train.selection.losses import Evaluator

pytestmark = pytest.mark.torch


def test_equal_data_have_equal_digests():
    assert data_digest(draw(0).data()) == data_digest(draw(0).data())


def test_vectors_permuted_among_utterances_are_noticed():
    data = draw(0).data()
    order = np.arange(len(data.ids))
    order[[0, 1]] = [1, 0]
    moved = replace(data, embeddings=data.embeddings[order])
    # Sums over the utterances cannot tell these apart.
    np.testing.assert_array_equal(np.sort(moved.embeddings, 0), np.sort(data.embeddings, 0))
    assert data_digest(moved) != data_digest(data)


@pytest.mark.parametrize(
    "field", ["embeddings", "seconds", "speaker", "identity", "session", "recording", "domain"]
)
def test_every_array_counts_to_its_last_bit(field: str):
    data = draw(0).data()
    changed = getattr(data, field).copy()
    changed.view(np.uint32).flat[-1] ^= 1
    assert data_digest(replace(data, **{field: changed})) != data_digest(data)


def test_ids_count():
    data = draw(0).data()
    swapped = [data.ids[1], data.ids[0], *data.ids[2:]]
    assert data_digest(replace(data, ids=swapped)) != data_digest(data)


def evaluator(directory) -> Evaluator:
    section = DevSection(
        name="held",
        xvectors=str(directory / "xvector.npz"),
        durations=str(directory / "utt2dur"),
        trials=str(directory / "trials"),
    )
    return Evaluator.load([section], 24, True, 0.01, torch.device("cpu"))


def test_development_sets_count_too(tmp_path):
    directory = write_dev(tmp_path / "dev")
    first = sets_digest(evaluator(directory))
    assert sets_digest(evaluator(directory)) == first
    lines = (directory / "trials").read_text().splitlines()
    (directory / "trials").write_text("\n".join(lines[:-1]) + "\n")
    assert sets_digest(evaluator(directory)) != first
    (directory / "trials").write_text("\n".join(lines) + "\n")
    sample = draw(5, speakers=6, prefix="v")
    vectors = sample.vectors.copy()
    vectors[[0, 1]] = vectors[[1, 0]]
    np.savez(directory / "xvector.npz", ids=np.array(sample.ids), data=vectors)
    assert sets_digest(evaluator(directory)) != first
