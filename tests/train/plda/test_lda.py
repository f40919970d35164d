import numpy as np
import pytest
from training_world import draw

from dcaplda.train.plda.covariances import weighted_covariances
from dcaplda.train.plda.lda import fit_lda


@pytest.fixture(scope="module")
def fitted():
    data = draw(1).data()
    covariances = weighted_covariances(
        data.embeddings, data.speaker, data.speaker_weights("domain")
    )
    return data, covariances, fit_lda(covariances)


def test_directions_solve_the_generalised_eigenproblem(fitted):
    _, covariances, lda = fitted
    left = lda.directions @ covariances.between
    right = lda.ratios[:, None] * (lda.directions @ covariances.within)
    np.testing.assert_allclose(left, right, atol=1e-9)


def test_directions_come_best_first(fitted):
    assert np.all(np.diff(fitted[2].ratios) <= 0)


def test_projections_have_zero_mean_and_unit_variance_under_the_weights(fitted):
    data, _, lda = fitted
    weight = data.speaker_weights("domain")[data.speaker]
    projected = data.embeddings.astype(np.float64) @ lda.directions.T + lda.offset
    np.testing.assert_allclose(np.average(projected, axis=0, weights=weight), 0, atol=1e-9)
    variance = np.average(projected**2, axis=0, weights=weight)
    np.testing.assert_allclose(variance, 1.0, rtol=1e-9)


def test_first_and_last_are_the_two_ends(fitted):
    lda = fitted[2]
    np.testing.assert_array_equal(lda.first(4)[0], lda.directions[:4])
    np.testing.assert_array_equal(lda.last(3)[0], lda.directions[-3:])
    np.testing.assert_array_equal(lda.last(3)[1], lda.offset[-3:])


def test_fewer_samples_than_dimensions_are_said_aloud_and_finite():
    data = draw(1, domains=1, speakers=4, sessions=2, chunks=1).data()
    covariances = weighted_covariances(data.embeddings, data.speaker)
    notes: list[str] = []
    lda = fit_lda(covariances, notes=notes)
    assert np.isfinite(lda.directions).all()
    assert "within-speaker covariance" in notes[0]
