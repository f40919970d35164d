"""Two-covariance PLDA with an offset that both sides of a trial share.

w = o + y + e: y of a speaker, e of a sample, and o of a domain. Both samples of a trial come from
one domain, so they share o whether or not they share y. In a domain that training has not seen
o is large and unknown; a model without it takes the shared offset for a shared speaker and is
too sure. The log-likelihood ratio is again a second-order form (eq. 9), so that nothing after it
changes.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.plda.covariances import (
    Array,
    Covariances,
    Mapped,
    Rows,
    class_sums,
    weighted_covariances,
)
from dcaplda.train.plda.form import PldaForm


@dataclass(frozen=True)
class OffsetStatistics:
    """Covariances around the domains' means, and those means' own spread."""

    around: Covariances
    """Between and within covariance of vectors from which the domain's mean is taken; `mean` is
    that of all groups of domains, each counted once."""
    groups: Array
    """Covariance of the means of the groups of domains that share people."""
    copies: Array
    """Covariance of the means of domains around the mean of their group."""


def offset_form(between: Array, within: Array, shared: Array, mean: Array) -> PldaForm:
    """LLR of 'same speaker' with cov(w1, w2) = shared + between against shared alone.

    With u = (w1 + w2) / sqrt 2 and v = (w1 - w2) / sqrt 2 independent, the two hypotheses give
    u the covariances 2 shared + 2 between + within and 2 shared + between + within, and v
    within and between + within. shared = 0 gives eq. 10-13.
    """
    same_sum = 2.0 * (shared + between) + within
    other_sum = 2.0 * shared + between + within
    of_sum = np.linalg.inv(same_sum) - np.linalg.inv(other_sum)
    of_difference = np.linalg.inv(within) - np.linalg.inv(between + within)
    cross = 0.25 * (of_difference - of_sum)
    auto = -0.25 * (of_difference + of_sum)
    through = (cross + auto) @ mean
    determinants = [_log_determinant(m) for m in (same_sum, within, other_sum, between + within)]
    offset = 0.5 * (determinants[2] + determinants[3] - determinants[0] - determinants[1])
    return PldaForm(
        0.5 * (cross + cross.T),
        0.5 * (auto + auto.T),
        -2.0 * through,
        float(offset + 2.0 * mean @ through),
    )


def _log_determinant(matrix: Array) -> float:
    return float(np.linalg.slogdet(matrix)[1])


def class_weights(
    data: TrainingData, classes: NDArray[np.integer], balance: str
) -> NDArray[np.float64]:
    """Weight of each class: the mean of its samples' weights as speakers of their domains."""
    weights = data.speaker_weights(balance)[data.speaker]
    means: NDArray[np.float64] = np.bincount(classes, weights) / np.bincount(classes)
    return means


def offset_statistics(
    vectors: Rows, data: TrainingData, classes: NDArray[np.integer], balance: str
) -> OffsetStatistics:
    """Statistics of `vectors`, which belong to the rows of `data`; float64."""
    weights = data.speaker_weights(balance)[data.speaker]
    n_domains, groups = len(data.domain_names), data.domain_group
    mass = np.bincount(data.domain, weights, n_domains)
    shape = len(weights), vectors.shape[1]
    weighted = Mapped(shape, lambda r: vectors[r].astype(np.float64) * weights[r, None])
    domain_means = class_sums(weighted, data.domain, n_domains) / mass[:, None]
    n_groups = int(groups.max()) + 1
    group_means = class_sums(domain_means, groups, n_groups) / np.bincount(groups)[:, None]
    spread = domain_means - group_means[groups]
    copies = spread.T @ spread / max(n_domains - n_groups, 1)
    apart = group_means - group_means.mean(axis=0)
    groups_covariance = apart.T @ apart / max(n_groups - 1, 1)
    centred = Mapped(shape, lambda r: vectors[r] - domain_means[data.domain[r]])
    around = weighted_covariances(centred, classes, class_weights(data, classes, balance))
    around = replace(around, mean=group_means.mean(axis=0))
    return OffsetStatistics(around, groups_covariance, copies)
