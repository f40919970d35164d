"""Parts of the training people that are held out in turn: folds of speakers, or whole domains."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.labelled import TrainingData

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """People held out together: their rows, and the rows of all others."""

    name: str
    rows: Rows
    others: Rows


def speaker_folds(data: TrainingData, n_folds: int) -> NDArray[np.int64]:
    """Fold of each identity: every domain's people spread evenly over the folds."""
    people, first = np.unique(data.identity, return_index=True)
    order = np.random.default_rng(0).permutation(len(people))
    order = order[np.argsort(data.domain[first[order]], kind="stable")]
    folds = np.empty(int(people.max()) + 1, dtype=np.int64)
    folds[people[order]] = np.arange(len(people)) % n_folds
    return folds


def speaker_parts(data: TrainingData, n_folds: int) -> list[Part]:
    """K folds by person; degraded copies of a person are in the fold of the original."""
    return _parts(
        speaker_folds(data, n_folds)[data.identity], [f"fold {k}" for k in range(n_folds)]
    )


def domain_parts(data: TrainingData) -> list[Part]:
    """Each group of domains that share people, in turn."""
    groups = data.domain_group
    if groups.max() == 0:
        raise InputError(
            "domains cannot be held out in turn: there is one, or all share people; set "
            "init.calibration_domains = 0 and batch.held_out_domains = false"
        )
    names = [
        "+".join(np.array(data.domain_names)[groups == number].tolist())
        for number in range(groups.max() + 1)
    ]
    return _parts(groups[data.domain], names)


def _parts(label: NDArray[np.integer], names: list[str]) -> list[Part]:
    return [
        Part(name, np.flatnonzero(label == number), np.flatnonzero(label != number))
        for number, name in enumerate(names)
        if np.any(label == number)
    ]
