import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dcaplda.runtime.errors import ModelError
from dcaplda.train.plda.form import plda_form


def random_precision(rng: np.random.Generator, dim: int) -> np.ndarray:
    root = rng.standard_normal((dim, 2 * dim))
    return root @ root.T / (2 * dim) + 0.1 * np.eye(dim)


@pytest.mark.parametrize("dim", [1, 2, 7])
def test_score_is_the_log_ratio_of_the_densities(rng: np.random.Generator, dim: int) -> None:
    """log N(w1, w2 | same) - log N(w1, w2 | different), within 1e-8."""
    between, within = random_precision(rng, dim), random_precision(rng, dim)
    mean = rng.standard_normal(dim)
    form = plda_form(between, within, mean)
    speaker, noise = np.linalg.inv(between), np.linalg.inv(within)
    total = speaker + noise
    same = np.block([[total, speaker], [speaker, total]])
    joint = multivariate_normal(np.tile(mean, 2), same)
    alone = multivariate_normal(mean, total)
    for _ in range(50):
        w1, w2 = 2.0 * rng.standard_normal((2, dim))
        expected = joint.logpdf(np.concatenate([w1, w2])) - alone.logpdf(w1) - alone.logpdf(w2)
        score = (
            2 * w1 @ form.cross @ w2
            + w1 @ form.auto @ w1
            + w2 @ form.auto @ w2
            + (w1 + w2) @ form.linear
            + form.offset
        )
        assert score == pytest.approx(expected, abs=1e-8)


def test_indefinite_precision_is_refused() -> None:
    with pytest.raises(ModelError, match="not positive definite"):
        plda_form(np.diag([1.0, -0.5]), np.eye(2), np.zeros(2))
