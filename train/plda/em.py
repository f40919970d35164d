"""Two-covariance PLDA with speaker weights, by expectation-maximization (eq. 5-7 and after).

w = y + e with y ~ N(mu, between) one per speaker and e ~ N(0, within) one per sample. This is
simplified PLDA w = mu + V h + e with a square V, between = V V', whose EM the paper weights:
every speaker's term in the sums over speakers is multiplied by c_s.
"""

from dataclasses import dataclass, field

import numpy as np

from dcaplda.train.plda.covariances import Array, Covariances, invertible, row_chunks, shrunk
from dcaplda.train.plda.form import PldaForm, plda_form


@dataclass(frozen=True)
class TwoCovariance:
    """A PLDA model as covariances, and the log-likelihood before each EM iteration and after."""

    mean: Array
    between: Array
    within: Array
    log_likelihoods: list[float] = field(default_factory=list)

    def shrunk(self, within: float, between: float = 0.0) -> "TwoCovariance":
        """The model with a share of its mean variances added: less sure of few speakers."""
        return TwoCovariance(
            self.mean,
            shrunk(self.between, between),
            shrunk(self.within, within),
            self.log_likelihoods,
        )

    def form(self, notes: list[str] | None = None) -> PldaForm:
        """Lambda, Gamma, c, k of the score (eq. 10-13)."""
        notes = [] if notes is None else notes
        between = invertible(self.between, "PLDA between-speaker", notes)
        within = invertible(self.within, "PLDA within-speaker", notes)
        return plda_form(np.linalg.inv(between), np.linalg.inv(within), self.mean)


@dataclass(frozen=True)
class _Expectation:
    """What the M-step needs of all speakers' posteriors, and the log-likelihood on the way."""

    cross: Array  # T: sum_s c_s E[h_s] f_s'
    second: Array  # R: sum_s c_s N_s E[h_s h_s']
    unweighted_second: Array  # sum_s c_s E[h_s h_s']
    log_likelihood: float


def fit_two_covariance(
    start: Covariances,
    iterations: int,
    min_divergence: bool = False,
    notes: list[str] | None = None,
) -> TwoCovariance:
    """EM from the sample covariances; the weighted log-likelihood never falls.

    `min_divergence` also re-estimates the prior of h and folds it into V, which reaches the
    same optimum in fewer iterations. The mean stays the weighted sample mean, as in the paper.
    A singular start is shrunk a little, with a line in `notes`.
    """
    notes = [] if notes is None else notes
    within = invertible(start.within, "PLDA within-speaker", notes)
    between = invertible(start.between, "PLDA between-speaker", notes)
    # Sufficient statistics: the speakers' means and counts, and the scatter of all samples.
    mass = float(start.weights @ start.counts)
    scatter = mass * (start.between + within)
    loadings = np.linalg.cholesky(between).astype(np.float64)
    likelihoods = []
    for _ in range(iterations):
        step = _expect(loadings, within, start, scatter)
        likelihoods.append(step.log_likelihood)
        loadings = np.linalg.solve(step.second, step.cross).T.astype(np.float64)
        within = (scatter - loadings @ step.cross) / mass
        within = 0.5 * (within + within.T)
        if min_divergence:
            prior = step.unweighted_second / start.weights.sum()
            loadings = loadings @ np.linalg.cholesky(prior)
    likelihoods.append(_expect(loadings, within, start, scatter).log_likelihood)
    return TwoCovariance(start.mean, loadings @ loadings.T, within, likelihoods)


def _expect(loadings: Array, within: Array, start: Covariances, scatter: Array) -> _Expectation:
    """Posteriors of h for all speakers, a chunk of them at a time.

    With V' W^-1 V = U diag(p) U', the posterior covariance of a speaker with N samples is
    U diag(1 / (1 + N p)) U': one eigenproblem serves every N.
    """
    precision_loadings = np.linalg.solve(within, loadings)
    strengths, basis = np.linalg.eigh(loadings.T @ precision_loadings)
    strengths = np.maximum(strengths, 0.0)
    into_basis = precision_loadings @ basis
    cross = np.zeros((len(strengths), len(within)))
    second, unweighted = (np.zeros((len(strengths), len(strengths))) for _ in range(2))
    gained = 0.0
    for rows in row_chunks(len(start.counts)):
        counts, weights = start.counts[rows, None], start.weights[rows, None]
        sums = counts * (start.class_means[rows] - start.mean)
        gain = 1.0 / (1.0 + counts * strengths)  # (S, R)
        evidence = sums @ into_basis
        rotated = evidence * gain  # E[h_s] in the basis U
        weighted = rotated * weights
        cross += weighted.T @ sums
        second += (weighted * counts).T @ rotated + np.diag(((weights * counts) * gain).sum(axis=0))
        unweighted += weighted.T @ rotated + np.diag((weights * gain).sum(axis=0))
        gained += float((weights * np.log(gain)).sum()) + float((weighted * evidence).sum())
    sign, log_det = np.linalg.slogdet(within)
    assert sign > 0, "within-speaker covariance lost positive definiteness"
    mass = float(start.weights @ start.counts)
    log_likelihood = -0.5 * (
        mass * (len(within) * np.log(2.0 * np.pi) + log_det)
        + float(np.trace(np.linalg.solve(within, scatter)))
        - gained
    )
    return _Expectation(
        cross=basis @ cross,
        second=basis @ second @ basis.T,
        unweighted_second=basis @ unweighted @ basis.T,
        log_likelihood=log_likelihood,
    )
