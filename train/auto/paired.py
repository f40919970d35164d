"""Whether one way to train is better than another on people held out, and how sure that is.

Both have scored the same trials, so that what is hard about these is not in the difference.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.train.auto.parts import Array, DomainTrials, Scored
from dcaplda.train.data.labelled import TrainingData

LEAST_GROUPS = 3
"""Groups of domains that share nobody from which on their differences tell an error."""


@dataclass(frozen=True)
class Difference:
    """By how much the held-out Cllr at 0.5 falls, and the standard error of that."""

    better: float
    error: float

    @property
    def beyond(self) -> bool:
        """Whether it is better by more than the error."""
        return self.better > self.error

    def words(self) -> str:
        """For a sentence."""
        way = "better" if self.better >= 0 else "worse"
        return f"{abs(self.better):.3f} +- {self.error:.3f} {way}"


def held_out_cllr(scored: Scored, data: TrainingData) -> float:
    """Mean over groups of domains, people and whole domains held out counting the same in each."""
    blocks = _blocks(scored)
    values = [float(np.mean(t) + np.mean(n)) / 2 for t, n in (_costs(own) for own in blocks)]
    return float(_weights(scored, data) @ np.array(values))


def compare(rule: Scored, other: Scored, data: TrainingData) -> Difference:
    """How much better `other` is; both have the same trials, with the people of each.

    The error is the larger of two: of the mean over groups of domains, from how the groups differ
    (where there are three), and the jackknife over people, who are in many trials each.
    """
    weights = _weights(rule, data)
    people = int(data.identity.max()) + 1
    values = np.zeros(len(weights))
    influence = np.zeros(people)
    there = np.zeros(people, dtype=bool)
    for number, (one, two) in enumerate(zip(_blocks(rule), _blocks(other), strict=True)):
        gains = [a - b for a, b in zip(_costs(one), _costs(two), strict=True)]
        assert one.people is not None, "trials that are compared know their people"
        target_of, pair_of = one.people
        values[number] = 0.5 * (gains[0].mean() + gains[1].mean())
        without = 0.5 * (
            _means_without(gains[0], target_of[:, None], people)
            + _means_without(gains[1], pair_of, people)
        )
        present = np.union1d(target_of, pair_of)
        there[present] = True
        influence[present] += weights[number] * (values[number] - without[present])
    better = float(weights @ values)
    n = int(there.sum())
    own = influence[there]
    jackknife = float(np.sqrt((n - 1) / n * np.sum((own - own.mean()) ** 2)))
    return Difference(better, max(jackknife, _error_of_groups(rule, values, data)))


def _blocks(scored: Scored) -> list[DomainTrials]:
    return [own for _, trials in scored for own in trials]


def _costs(own: DomainTrials) -> tuple[Array, Array]:
    """What each target and each nontarget trial costs, in bits; Cllr is the mean of their means."""
    targets, nontargets = (
        np.logaddexp(0.0, x) / np.log(2.0) for x in (-own.targets, own.nontargets)
    )
    return targets, nontargets


def _means_without(gains: Array, people: NDArray[np.integer], count: int) -> Array:
    """Mean of the trials that a person is not in, for each; 0 where none are left."""
    sums, sizes = np.zeros(count), np.zeros(count)
    for column in people.T:
        sums += np.bincount(column, weights=gains, minlength=count)
        sizes += np.bincount(column, minlength=count)
    left = gains.size - sizes
    means: Array = np.where(left > 0, (gains.sum() - sums) / np.maximum(left, 1.0), 0.0)
    return means


def _places(scored: Scored, data: TrainingData) -> list[tuple[int, str]]:
    """Group of domains and kind of turn of each block."""
    group = dict(zip(data.domain_names, data.domain_group.tolist(), strict=True))
    return [(group[own.domain], turn.kind) for turn, trials in scored for own in trials]


def _weights(scored: Scored, data: TrainingData) -> Array:
    """Groups count the same; in a group the kinds of turns do, and in these their blocks."""
    places = _places(scored, data)
    groups = {group for group, _ in places}
    kinds = {group: len({k for g, k in places if g == group}) for group in groups}
    return np.array([1.0 / len(groups) / kinds[place[0]] / places.count(place) for place in places])


def _error_of_groups(scored: Scored, values: Array, data: TrainingData) -> float:
    """Standard error of the mean over groups; 0 where they are too few to tell."""
    homes = np.array([group for group, _ in _places(scored, data)])
    groups = np.unique(homes)
    if len(groups) < LEAST_GROUPS:
        return 0.0
    weighted = _weights(scored, data) * values * len(groups)
    means = [weighted[homes == group].sum() for group in groups]
    return float(np.std(means, ddof=1) / np.sqrt(len(groups)))
