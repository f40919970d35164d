import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.runtime.errors import ModelError
from dcaplda.train.plda import covariances
from dcaplda.train.plda.covariances import invertible, shrunk, weighted_covariances


def written_out(x: np.ndarray, classes: np.ndarray, weights: np.ndarray):
    """Eq. 5-7 sample by sample."""
    total = sum(weights[c] for c in classes)
    mean = sum(weights[c] * v for v, c in zip(x, classes, strict=True)) / total
    between = np.zeros((x.shape[1], x.shape[1]))
    within = np.zeros_like(between)
    for s in range(classes.max() + 1):
        own = x[classes == s]
        centre = own.mean(axis=0)
        between += weights[s] * len(own) * np.outer(centre - mean, centre - mean)
        for v in own:
            within += weights[s] * np.outer(v - centre, v - centre)
    return mean, between / total, within / total


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), n_classes=st.integers(2, 6), dim=st.integers(1, 4))
def test_weighted_covariances_are_equations_5_to_7(seed: int, n_classes: int, dim: int):
    rng = np.random.default_rng(seed)
    classes = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 20)])
    x = rng.standard_normal((len(classes), dim)) + 3.0
    weights = rng.uniform(0.1, 2.0, n_classes)
    found = weighted_covariances(x.astype(np.float64), classes, weights)
    mean, between, within = written_out(x, classes, weights)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.between, between, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.within, within, rtol=1e-10, atol=1e-12)


def test_total_is_the_weighted_covariance_of_the_vectors(rng):
    classes = rng.integers(0, 5, 60)
    classes[:5] = np.arange(5)
    weights = rng.uniform(0.5, 2.0, 5)
    x = rng.standard_normal((60, 3))
    found = weighted_covariances(x, classes, weights)
    expected = np.cov(x, rowvar=False, aweights=weights[classes], ddof=0)
    np.testing.assert_allclose(found.total, expected, rtol=1e-10)


def test_integer_weights_are_repeated_speakers(rng):
    x = rng.standard_normal((12, 3))
    classes = np.repeat([0, 1, 2], 4)
    weighted = weighted_covariances(x, classes, np.array([1.0, 3.0, 2.0]))
    repeated_x = np.concatenate([x[:4], x[4:8], x[4:8], x[4:8], x[8:], x[8:]])
    repeated = weighted_covariances(repeated_x, np.repeat(np.arange(6), 4))
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.between, repeated.between, rtol=1e-10)
    np.testing.assert_allclose(weighted.within, repeated.within, rtol=1e-10)


def test_pieces_of_the_data_add_up(rng, monkeypatch):
    x = rng.standard_normal((50, 4)).astype(np.float32)
    classes = np.arange(50) % 7
    whole = weighted_covariances(x, classes)
    monkeypatch.setattr(covariances, "CHUNK", 8)
    pieces = weighted_covariances(x, classes)
    np.testing.assert_allclose(pieces.within, whole.within, rtol=1e-12)
    np.testing.assert_allclose(pieces.between, whole.between, rtol=1e-12)


def test_shrinkage_adds_a_share_of_the_mean_variance():
    found = shrunk(np.diag([1.0, 3.0]), 0.5)
    np.testing.assert_allclose(found, np.diag([2.0, 4.0]))


def test_singular_covariance_is_shrunk_aloud():
    notes: list[str] = []
    found = invertible(np.diag([1.0, 0.0]), "within-speaker", notes)
    assert np.linalg.eigvalsh(found)[0] > 0
    assert "1 of 2 directions" in notes[0]
    assert "within-speaker" in notes[0]


def test_regular_covariance_is_left_alone():
    notes: list[str] = []
    matrix = np.diag([1.0, 0.01])
    assert invertible(matrix, "x", notes) is matrix
    assert notes == []


@pytest.mark.parametrize("bad", [np.zeros((2, 2)), np.full((2, 2), np.nan)])
def test_hopeless_covariance_is_an_error(bad: np.ndarray):
    with pytest.raises(ModelError, match="within"):
        invertible(bad, "within", [])


def test_rows_that_are_computed_when_asked_for_give_the_same(monkeypatch) -> None:
    """A chunk at a time or all at once: the same sums, within rounding."""
    monkeypatch.setattr(covariances, "CHUNK", 7)
    rng = np.random.default_rng(0)
    x, classes = rng.standard_normal((60, 5)), np.arange(60) % 9
    doubled = covariances.Mapped(x.shape, lambda rows: 2.0 * x[rows])
    found = covariances.weighted_covariances(doubled, classes)
    expected = covariances.weighted_covariances(2.0 * x, classes)
    for name in ("mean", "between", "within", "class_means"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12)
    means = np.stack([2.0 * x[classes == c].mean(axis=0) for c in range(9)])
    np.testing.assert_allclose(found.class_means, means, rtol=1e-12)
