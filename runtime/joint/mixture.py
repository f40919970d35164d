"""Is a pool of utterances of one place, or of several put together by mistake?

The pool is cut in two where it parts best, and the halves' centres are compared with those of pools
that are drawn from the model: one place, as many people, the same scatter, cut by the same rule.
People part a pool too (women from men, say), so only centres that lie farther apart than people
alone bring them tell of two places.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.joint.place import effective_people, shared_pairs
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.runtime.joint.terms import Array

FEWEST = 20
"""Below so many utterances one place and two look alike."""
MOST = 200
"""More utterances are thinned out: a cut of so many shows what there is."""
SMALLEST = 0.1
"""A side with a smaller share of the pool is a few odd utterances, not a place."""
DRAWS = 100
ROUNDS = 50
"""Pools of one place that are drawn, and steps that two means get."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Cut:
    """A pool cut in two."""

    apart: float
    """Distance of the centres, in standard deviations of what the people and utterances on either
    side explain; 0 if nothing parts."""
    distance: float
    """The same in standard deviations of the difference of two places that training met."""
    shares: tuple[float, float]
    """Of the utterances, on the larger and the smaller side."""


@dataclass(frozen=True)
class Mixture:
    """The pool's cut beside those of pools of one place."""

    cut: Cut
    ratio: float
    """How much farther apart its centres lie than those of one place do on average."""
    chance: float
    """Share of pools of one place whose centres lie at least as far apart."""


def find_mixture(scorer: JointScorer, x: Array, seed: int = 0) -> Mixture | None:
    """The cut of a pool (n, R) beside chance; None if it is too small to tell."""
    if len(x) < FEWEST:
        return None
    rng = np.random.default_rng(seed)
    if len(x) > MOST:
        x = x[rng.choice(len(x), MOST, replace=False)]
    people = max(2, round(effective_people(len(x), shared_pairs(scorer, x))))
    found, scatter = best_cut(scorer, x), relative_scatter(scorer, x)
    drawn = [_one_place(scorer, len(x), people, rng) for _ in range(DRAWS)]
    usual = float(np.mean([relative_scatter(scorer, pool) for pool in drawn]))
    # The distance grows with the scatter, so pools of the model are brought to that of this one.
    scale = np.sqrt(scatter / usual)
    by_chance = scale * np.array([best_cut(scorer, pool).apart for pool in drawn])
    ratio = found.apart / max(float(by_chance.mean()), 1e-9)
    return Mixture(found, ratio, float(np.mean(by_chance >= found.apart)))


def best_cut(scorer: JointScorer, x: Array) -> Cut:
    """Two means on axes of unit variance, started across the main axis of the pool.

    The difference of two means of p and q people with n and m utterances has the variance
    b (1 / p + 1 / q) + 1 / n + 1 / m in one place, and 2 o more between two.
    """
    side = two_means(x / np.sqrt(scorer.between + 1.0))
    smaller = min(np.mean(side), np.mean(~side))
    if smaller < SMALLEST:
        return Cut(0.0, 0.0, (1.0, 0.0))
    halves = x[side], x[~side]
    explained = np.zeros_like(scorer.between)
    for half in halves:
        people = effective_people(len(half), shared_pairs(scorer, half))
        explained += scorer.between / people + 1.0 / len(half)
    squares = (halves[0].mean(axis=0) - halves[1].mean(axis=0)) ** 2
    return Cut(
        apart=float(np.sqrt(np.mean(squares / explained))),
        distance=float(np.sqrt(np.mean(squares / (2.0 * scorer.prior_offset)))),
        shares=(1.0 - float(smaller), float(smaller)),
    )


def two_means(z: Array) -> Mask:
    """Which rows (n, R) are on the one side of the cut with two centres."""
    centred = z - z.mean(axis=0)
    side: Mask = np.linalg.svd(centred, full_matrices=False)[0][:, 0] > 0
    for _ in range(ROUNDS):
        if side.all() or not side.any():
            break
        one, other = centred[side].mean(axis=0), centred[~side].mean(axis=0)
        nearer: Mask = (centred - 0.5 * (one + other)) @ (one - other) > 0
        if (nearer == side).all():
            break
        side = nearer
    return side


def relative_scatter(scorer: JointScorer, x: Array) -> float:
    """Variance of a pool around its mean over that of people heard once, mean over the axes."""
    return float(np.mean(x.var(axis=0) / (scorer.between + 1.0)))


def _one_place(scorer: JointScorer, count: int, people: int, rng: np.random.Generator) -> Array:
    """A pool of one place as the model has it: people who speak as often as one another."""
    rank = len(scorer.between)
    voices = rng.standard_normal((people, rank)) * np.sqrt(scorer.between)
    return voices[np.arange(count) % people] + rng.standard_normal((count, rank))
