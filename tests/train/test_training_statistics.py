"""What training tells later warnings: every domain counts the same."""

import numpy as np
import pytest
import torch
from random_models import random_model
from training_world import DIM, draw

from dcaplda.train.summary import data_statistics, weighted_percentiles

pytestmark = pytest.mark.torch


def test_weighted_percentiles_are_those_of_repeated_samples() -> None:
    """A weight of 3 is a sample that comes three times; exactly, since values are samples."""
    values = np.array([5.0, 1.0, 3.0, 2.0, 4.0])
    weights = np.array([3.0, 1.0, 1.0, 1.0, 2.0])
    repeated = np.sort(np.repeat(values, weights.astype(int)))
    for level in (0.05, 12.5, 25.0, 50.0, 62.5, 63.0, 99.95, 100.0):
        expected = repeated[max(int(np.ceil(level / 100 * len(repeated))) - 1, 0)]
        assert weighted_percentiles(values, weights, [level]) == [expected]
        # Only the proportions of the weights matter.
        assert weighted_percentiles(values, weights / 7.0, [level]) == [expected]


def test_a_small_domain_counts_as_much_as_a_large_one() -> None:
    """Means and covariance of a set without most of one domain, written out; 1e-5."""
    whole = draw(2).data()
    rows = np.flatnonzero((whole.domain != 0) | (np.arange(len(whole.ids)) % 4 == 0))
    data = whole.subset(rows)
    model = random_model("d-plda-dsd", embedding_dim=DIM)
    told = data_statistics(model, data, torch.device("cpu"))
    domains = np.unique(data.domain)
    assert len({int((data.domain == d).sum()) for d in domains}) > 1
    norms = np.linalg.norm(data.embeddings, axis=1)
    mean = np.mean([norms[data.domain == d].mean() for d in domains])
    assert told["embedding_norm"]["mean"] == pytest.approx(mean, rel=1e-5)
    assert abs(mean - norms.mean()) > 1e-4 * mean, "an unweighted mean would fail"
    with torch.no_grad():
        z = model.side_info(torch.from_numpy(np.asarray(data.embeddings))).double().numpy()
    expected = np.mean([z[data.domain == d].mean(axis=0) for d in domains], axis=0)
    np.testing.assert_allclose(told["side_information"]["mean"], expected, atol=1e-5)
