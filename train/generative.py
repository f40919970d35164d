"""LDA and PLDA of some training data: a backend without calibration (paper, 4.2.1)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.train.covariances import Array, Covariances, invertible, weighted_covariances
from dcaplda.train.data import TrainingData
from dcaplda.train.lda import Lda, fit_lda
from dcaplda.train.offset_plda import class_weights, offset_form, offset_statistics
from dcaplda.train.plda import PldaForm
from dcaplda.train.plda_em import TwoCovariance, fit_two_covariance
from dcaplda.train.training_config import InitSection


@dataclass(frozen=True)
class Generative:
    """LDA and PLDA of some training data: a backend without calibration."""

    lda: Lda
    lda_dim: int
    plda: TwoCovariance
    form: PldaForm

    def projected(self, embeddings: NDArray[np.floating]) -> Array:
        """w of eq. 4, in float64."""
        weight, bias = self.lda.first(self.lda_dim)
        return projected(embeddings, weight, bias)

    def scores(self, embeddings: NDArray[np.floating]) -> Array:
        """Raw score (eq. 9) of each vector against each; (n, n)."""
        return form_scores(self.form, self.projected(embeddings))


def form_scores(form: PldaForm, x: Array) -> Array:
    """Eq. 9 for each vector against each; (n, R) -> (n, n)."""
    own = np.einsum("ij,jk,ik->i", x, form.auto, x, optimize=True) + x @ form.linear
    return 2.0 * x @ form.cross @ x.T + own[:, None] + own[None, :] + form.offset


def projected(embeddings: NDArray[np.floating], weight: Array, bias: Array) -> Array:
    """w of eq. 4 from a projection, in float64."""
    w = embeddings.astype(np.float64) @ weight.T + bias
    norms: Array = np.linalg.norm(w, axis=1, keepdims=True)
    return w / norms


def fit_generative(
    data: TrainingData, section: InitSection, lda_dim: int, notes: list[str]
) -> Generative:
    """LDA, then PLDA on the projected and length-normalised vectors."""
    if section.subset == "one-per-recording":
        data = data.one_per_recording()
    classes: NDArray[np.integer] = data.speaker
    if section.classes == "identity":
        classes = np.unique(data.identity, return_inverse=True)[1]
    covariances, _ = _statistics(data.embeddings, data, classes, section)
    lda = fit_lda(covariances, section.lda_shrinkage, notes, section.lda_scale)
    w = projected(data.embeddings, *lda.first(lda_dim))
    statistics, copies = _statistics(w, data, classes, section)
    mean = statistics.mean
    if section.domain_offsets:  # the vectors of the statistics are around 0
        statistics = replace(statistics, mean=np.zeros_like(mean))
    plda = fit_two_covariance(statistics, section.em_iterations, section.em_min_divergence, notes)
    plda = replace(plda, mean=mean).shrunk(section.shrinkage, section.shrinkage_between)
    if not section.domain_offsets:
        return Generative(lda, lda_dim, plda, plda.form(notes))
    plda = replace(plda, within=plda.within + section.copy_offset * copies)
    within = invertible(plda.within, "PLDA within-speaker", notes)
    form = offset_form(plda.between, within, section.shared_offset * plda.between, mean)
    return Generative(lda, lda_dim, plda, form)


def _statistics(
    vectors: NDArray[np.floating],
    data: TrainingData,
    classes: NDArray[np.integer],
    section: InitSection,
) -> tuple[Covariances, Array]:
    """Covariances of the classes, and that of the means of copies (zero if not modelled)."""
    if section.domain_offsets:
        found = offset_statistics(vectors, data, classes, section.balance)
        return found.around, found.copies
    weights = class_weights(data, classes, section.balance)
    covariances = weighted_covariances(vectors, classes, weights)
    return covariances, np.zeros_like(covariances.within)
