"""LDA and PLDA of some training data: a backend without calibration (paper, 4.2.1)."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.plda.covariances import Array, Mapped, Rows, invertible, weighted_covariances
from dcaplda.train.plda.em import TwoCovariance, fit_two_covariance
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.plda.lda import Lda, fit_lda
from dcaplda.train.plda.offsets import class_weights, offset_form, offset_statistics
from dcaplda.train.recipe.sections import InitSection


@dataclass(frozen=True)
class Generative:
    """LDA and PLDA of some training data: a backend without calibration."""

    lda: Lda
    lda_dim: int
    plda: TwoCovariance
    form: PldaForm
    shared: Array | None = None
    """Covariance of the offset that both sides of a trial share; None: the start knows of none."""

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
    data: TrainingData,
    section: InitSection,
    lda_dim: int,
    notes: list[str],
    rows: NDArray[np.integer] | None = None,
) -> Generative:
    """LDA, then PLDA on the projected and length-normalised vectors, of all rows or of some.

    Of either no more than a chunk is made at a time.
    """
    if rows is not None:
        data = data.subset(rows)
    if section.subset == "one-per-recording":
        data = data.subset(data.one_per_recording())
    vectors = data.embeddings
    classes: NDArray[np.integer] = data.speaker
    if section.classes == "identity":
        classes = np.unique(data.identity, return_inverse=True)[1]
    if section.domain_offsets:
        return _fit_with_offsets(vectors, data, classes, section, lda_dim, notes)
    weights = class_weights(data, classes, section.balance)
    covariances = weighted_covariances(vectors, classes, weights)
    lda = fit_lda(covariances, section.lda_shrinkage, notes, section.lda_scale)
    del covariances  # has a mean of every class
    w = _mapped(vectors, *lda.first(lda_dim))
    statistics = weighted_covariances(w, classes, weights)
    plda = fit_two_covariance(statistics, section.em_iterations, section.em_min_divergence, notes)
    plda = plda.shrunk(section.shrinkage, section.shrinkage_between)
    return Generative(lda, lda_dim, plda, plda.form(notes))


def _mapped(vectors: Rows, weight: Array, bias: Array) -> Mapped:
    """w of eq. 4, row by row when it is asked for."""
    shape = vectors.shape[0], len(bias)
    return Mapped(shape, lambda rows: projected(vectors[rows], weight, bias))


def _fit_with_offsets(
    vectors: Rows,
    data: TrainingData,
    classes: NDArray[np.integer],
    section: InitSection,
    lda_dim: int,
    notes: list[str],
) -> Generative:
    """The same with the domains' offsets apart from the speakers (offsets.py)."""
    raw = offset_statistics(vectors, data, classes, section.balance)
    around = replace(raw.around, within=raw.around.within + section.lda_group_offset * raw.groups)
    lda = fit_lda(around, section.lda_shrinkage, notes, section.lda_scale)
    del raw, around  # have a mean of every class
    w = _mapped(vectors, *lda.first(lda_dim))
    found = offset_statistics(w, data, classes, section.balance)
    mean = found.around.mean
    # The vectors that these covariances describe are around 0.
    statistics = replace(found.around, mean=np.zeros_like(mean))
    plda = fit_two_covariance(statistics, section.em_iterations, section.em_min_divergence, notes)
    plda = plda.shrunk(section.shrinkage, section.shrinkage_between)
    within = plda.within + section.copy_offset * found.copies
    within = invertible(within, "PLDA within-speaker", notes)
    shared = section.group_offset * found.groups + section.shared_offset * plda.between
    plda = replace(plda, mean=mean, within=within)
    form = offset_form(plda.between, within, shared, mean)
    return Generative(lda, lda_dim, plda, form, shared)
