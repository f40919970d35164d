"""What unlabelled utterances of a place tell: the posterior of its offset, more data more trust.

Nobody says who speaks in them, and several utterances of one person say less of the place than so
many of different people. So pairs are looked at first: the difference of two utterances of one
place has no offset in it, and tells whether they are of one speaker whatever the place is.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.joint.scorer import JointScorer, quadratic_basis
from dcaplda.runtime.joint.terms import Array

SHIFT = 0.6
"""Share of the way from the place's mean embedding to training's that is gone before the length
normalization when the place is known well; the rest is left to the posterior behind it."""
TRUST = 0.5
"""What the pool's mean counts in the posterior: short utterances scatter more than the model of a
usual one says, and a place is never quite one place."""
MOST_PAIRED = 1000
"""Utterances whose pairs are looked at; more tell nothing new of how often people return."""


def shared_pairs(scorer: JointScorer, x: Array) -> float:
    """Share of pairs of these utterances (n, R) that are of one speaker, as far as can be told."""
    count = len(x)
    if count < 2:
        return 0.0
    if count > MOST_PAIRED:
        x = x[np.random.default_rng(0).choice(count, MOST_PAIRED, replace=False)]
    one_speaker = difference_scores(scorer.between, x) > scorer.same_score
    np.fill_diagonal(one_speaker, False)
    return float(np.count_nonzero(one_speaker)) / (len(x) * (len(x) - 1))


def difference_scores(between: Array, x: Array) -> Array:
    """LLR of one speaker from the difference of each two utterances (n, R); (n, n).

    The difference has variance 2 of one speaker and 2 (b + 1) of two, and no offset.
    """
    squares = 0.25 * (1.0 / (between + 1.0) - 1.0)
    constant = 0.5 * float(np.log(between + 1.0).sum())
    own = x**2 @ squares
    scores: Array = own[:, None] + own[None, :] - 2.0 * (x * squares) @ x.T + constant
    return scores


def effective_people(count: int, shared: float) -> float:
    """How many people, each heard once, scatter as much: n if nobody returns, 1 if all are one."""
    return 1.0 / (1.0 / count + (1.0 - 1.0 / count) * shared)


def adapted(scorer: JointScorer, embeddings: NDArray[np.floating]) -> JointScorer:
    """The scorer for the place of these embeddings (n, D); of none, the scorer itself."""
    if len(embeddings) == 0:
        return scorer
    found = posterior(scorer, embeddings)
    return replace(found, quadratics=quadratic_basis(found.between, found.offset))


def posterior(scorer: JointScorer, embeddings: NDArray[np.floating]) -> JointScorer:
    """The same with the former `quadratics`: for those who use the closed form alone.

    The mean of n utterances of p people lies around the offset with variance b / p + 1 / n.
    """
    pool = np.asarray(embeddings, np.float64)
    count = len(pool)
    if count == 0:
        return scorer
    people = effective_people(count, shared_pairs(scorer, scorer.centred(pool)))
    evidence = TRUST / (scorer.between / people + 1.0 / count)
    left = 1.0 / (1.0 / scorer.offset + evidence)
    known = float(np.mean(evidence * left))
    shift = SHIFT * known * (pool.mean(axis=0) - scorer.embedding_mean)
    moved = replace(scorer, bias=scorer.bias - scorer.weight @ shift)
    found = moved.centred(pool).mean(axis=0)
    return replace(
        moved,
        centre=scorer.centre + evidence * left * found,
        offset=left,
        known=known,
        heard=people,
    )
