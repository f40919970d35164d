import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dcaplda.train.plda.covariances import weighted_covariances
from dcaplda.train.plda.em import fit_two_covariance


def two_covariance_data(rng, n_speakers: int, n_samples: int, between, within, mean=0.0):
    """Samples of w = y + e, and their speakers."""
    dim = len(between)
    y = rng.standard_normal((n_speakers, dim)) @ np.linalg.cholesky(between).T + mean
    e = rng.standard_normal((n_speakers * n_samples, dim)) @ np.linalg.cholesky(within).T
    speaker = np.repeat(np.arange(n_speakers), n_samples)
    return y[speaker] + e, speaker


def spectrum(rng, dim: int, power: float) -> np.ndarray:
    """A covariance with variances 1, 2^-power, 3^-power ... in random directions.

    A sample covariance of n vectors has a relative Frobenius error of about
    sqrt(((sum of variances)^2 / (sum of squared variances) + 1) / n): 6.5% at 5,000 speakers for
    20 equal variances whatever the estimator, less where variances fall, as those of speakers do.
    """
    basis, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    return (basis * np.arange(1, dim + 1.0) ** -power) @ basis.T


def relative_error(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def test_em_recovers_the_model_better_with_more_data():
    """Mean over four draws; one draw's error itself varies by a third."""
    sizes = (200, 1000, 5000)
    errors = np.zeros((len(sizes), 3))
    for seed in range(4):
        rng = np.random.default_rng(seed)
        between, within = spectrum(rng, 20, 1.5), spectrum(rng, 20, 0.5)
        for row, n_speakers in enumerate(sizes):
            x, speaker = two_covariance_data(rng, n_speakers, 10, between, within, mean=0.3)
            model = fit_two_covariance(weighted_covariances(x, speaker), 30)
            errors[row] += [
                relative_error(model.between, between) / 4,
                relative_error(model.within, within) / 4,
                relative_error(np.linalg.inv(model.within), np.linalg.inv(within)) / 4,
            ]
    assert np.all(np.diff(errors, axis=0) < 0), errors
    assert errors[-1].max() < 0.05, errors


@pytest.mark.parametrize("min_divergence", [False, True])
def test_em_reaches_the_closed_form_of_balanced_data(rng, min_divergence: bool):
    """With N samples of every speaker the optimum is known: within W_0 N / (N - 1),
    between B_0 - W_0 / (N - 1)."""
    x, speaker = two_covariance_data(rng, 500, 5, spectrum(rng, 6, 1.0), 0.5 * np.eye(6))
    start = weighted_covariances(x, speaker)
    model = fit_two_covariance(start, 300, min_divergence)
    np.testing.assert_allclose(model.within, start.within * 5 / 4, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(model.between, start.between - start.within / 4, atol=1e-6)


@pytest.mark.parametrize("min_divergence", [False, True])
def test_log_likelihood_never_falls(rng, min_divergence: bool):
    x, _ = two_covariance_data(rng, 40, 6, spectrum(rng, 6, 1.5), spectrum(rng, 6, 1.0))
    speaker = np.sort(np.concatenate([np.arange(40), rng.integers(0, 40, 200)]))  # uneven counts
    weights = rng.uniform(0.1, 3.0, 40)
    model = fit_two_covariance(weighted_covariances(x, speaker, weights), 40, min_divergence)
    steps = np.diff(model.log_likelihoods)
    assert steps.min() > -1e-9 * abs(model.log_likelihoods[-1])
    assert steps[0] > 0


def test_reported_log_likelihood_is_the_joint_density(rng):
    """Sum over speakers of c_s log N(all samples of the speaker | the model), from scipy."""
    x, _ = two_covariance_data(rng, 5, 4, np.eye(3), 0.5 * np.eye(3))
    speaker = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4])
    weights = np.array([1.0, 2.0, 0.5, 1.5, 0.7])
    model = fit_two_covariance(weighted_covariances(x, speaker, weights), 3)
    expected = 0.0
    for s in range(5):
        own = x[speaker == s]
        n = len(own)
        covariance = np.kron(np.ones((n, n)), model.between) + np.kron(np.eye(n), model.within)
        mean = np.tile(model.mean, n)
        expected += weights[s] * multivariate_normal(mean, covariance).logpdf(own.ravel())
    assert model.log_likelihoods[-1] == pytest.approx(expected, rel=1e-9)


def test_integer_weights_are_repeated_speakers(rng):
    x, speaker = two_covariance_data(rng, 12, 3, np.eye(4), 0.5 * np.eye(4))
    repeats = rng.integers(1, 4, 12)
    weighted = fit_two_covariance(weighted_covariances(x, speaker, repeats.astype(float)), 10)
    rows = [np.flatnonzero(speaker == s) for s in np.repeat(np.arange(12), repeats)]
    copies = np.repeat(np.arange(len(rows)), 3)
    repeated = fit_two_covariance(weighted_covariances(x[np.concatenate(rows)], copies), 10)
    np.testing.assert_allclose(weighted.between, repeated.between, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weighted.within, repeated.within, rtol=1e-9, atol=1e-12)
    assert weighted.log_likelihoods[-1] == pytest.approx(repeated.log_likelihoods[-1], rel=1e-10)


def test_fewer_speakers_than_dimensions_is_said_aloud_and_finite(rng):
    x, speaker = two_covariance_data(rng, 5, 30, np.eye(8), 0.5 * np.eye(8))
    notes: list[str] = []
    model = fit_two_covariance(weighted_covariances(x, speaker), 10, notes=notes)
    form = model.form(notes)
    assert np.isfinite(form.cross).all()
    assert np.isfinite(form.offset)
    assert "between-speaker" in notes[0]


def test_no_iterations_keep_the_sample_covariances(rng):
    x, speaker = two_covariance_data(rng, 30, 4, np.eye(3), np.eye(3))
    start = weighted_covariances(x, speaker)
    model = fit_two_covariance(start, 0)
    np.testing.assert_allclose(model.between, start.between, rtol=1e-10)
    np.testing.assert_allclose(model.within, start.within, rtol=1e-10)
