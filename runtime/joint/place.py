"""What unlabelled utterances of a place tell: the posterior of its offset, more data more trust.

Nobody says who speaks in them, and several utterances of one person say less of the place than so
many of different people. So pairs are looked at first: the difference of two utterances of one
place has no offset in it, and tells whether they are of one speaker whatever the place is.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.joint.scorer import JointScorer, form_scores, quadratic_basis
from dcaplda.runtime.joint.terms import Array
from dcaplda.runtime.joint.trained import TrainedPlace, recognized

SHIFT = 0.6
"""Share of the way from the place's mean embedding to training's that is gone before the length
normalization when the place is known well; the rest is left to the posterior behind it."""
TRUST = 0.5
"""What the pool's mean counts in the posterior: short utterances scatter more than the model of a
usual one says, and a place is never quite one place."""
LEAST_SCATTER = 0.25
"""Of what the model says of people's scatter towards a place; a few voices may show less."""
MOST_PAIRED = 1000
"""Utterances whose pairs are looked at; more tell nothing new of how often people return."""
MOST_THERE = 0.7
"""Share of a pool's utterances that have to sound of a place of training for the pool to be of it:
nine in ten pools of one place have more, of two corpora hardly any."""
ODDS = 3.0
"""Of the place, for an utterance that is scored by a bundle of it: pools are mostly right, and to
take a voice of the place for one of elsewhere costs more than the other way round, until wrong
pools cost more than they may (egs/recordings/RESULTS.md)."""
EASE_REACH = 2.0
"""Standard deviations of a place's ease from the usual that calibration is told of."""
FEWEST_PAIRED = 5
"""Utterances from which on their pairs tell how hard a place is; training has no smaller pools."""


def shared_pairs(scorer: JointScorer, x: Array) -> float:
    """Share of pairs of these utterances (n, R) that are of one speaker, as far as can be told."""
    if len(x) < 2:
        return 0.0
    x = _few(x)
    one_speaker = _one_speaker(scorer, x)
    np.fill_diagonal(one_speaker, False)
    return float(np.count_nonzero(one_speaker)) / (len(x) * (len(x) - 1))


def _few(x: Array) -> Array:
    if len(x) <= MOST_PAIRED:
        return x
    return x[np.random.default_rng(0).choice(len(x), MOST_PAIRED, replace=False)]


def _one_speaker(scorer: JointScorer, x: Array) -> NDArray[np.bool_]:
    """Which pairs of utterances (n, R) seem to be of one speaker; (n, n)."""
    found: NDArray[np.bool_] = difference_scores(scorer.between, x) > scorer.same_score
    return found


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
    basis = quadratic_basis(found.between, found.offset, scorer.offset)
    return replace(found, quadratics=basis)


def posterior(scorer: JointScorer, embeddings: NDArray[np.floating]) -> JointScorer:
    """The same with the former `quadratics`: for those who use the closed form alone.

    The mean of n utterances of p people lies around the offset with variance b / p + 1 / n.
    """
    pool = np.asarray(embeddings, np.float64)
    count = len(pool)
    if count == 0:
        return scorer
    x = scorer.centred(pool)
    people = effective_people(count, shared_pairs(scorer, x))
    placed = _placed(scorer, pool, x, people)
    placed = replace(placed, ease=_ease(placed, pool))
    number = _trained_place(scorer, x, people)
    if number is None:
        return placed
    assert scorer.trained is not None, "a place was recognized"
    # How hard a place is was learnt at places that nobody recognized.
    known = _placed(scorer, pool, x, people, scorer.trained.place(number))
    return replace(known, ease=placed.ease, place_number=number)


def trained_place(scorer: JointScorer, embeddings: NDArray[np.floating]) -> int | None:
    """Number of the place of training that these embeddings (n, D) are of; None: of another."""
    if not len(embeddings):
        return None
    x = scorer.centred(np.asarray(embeddings, np.float64))
    return _trained_place(scorer, x, effective_people(len(x), shared_pairs(scorer, x)))


def _trained_place(scorer: JointScorer, x: Array, people: float) -> int | None:
    """The same of x (n, R): the pool's mean is of the place, and so are most of its utterances.

    The mean of two places in one pool lies as near to either as the mean of a few of its voices.
    """
    number = recognized(scorer.trained, x.mean(axis=0), scorer.between, len(x), people)
    if number is None or scorer.trained is None:
        return None
    mean = scorer.trained.mean[number]
    along = mean / (scorer.between + 1.0)
    here = float(mean @ along)
    if not here > 0:
        return None  # in the very middle of training: nothing sets the place apart
    # Even odds: nobody has said yet that the pool is of there.
    inside = x @ along > _edge(scorer, x, along, here, 1.0)
    return number if inside.mean() >= MOST_THERE else None


def _placed(
    scorer: JointScorer, pool: Array, x: Array, people: float, prior: TrainedPlace | None = None
) -> JointScorer:
    """The scorer for the place of a pool (n, D), x without the place; `prior`: what is known."""
    evidence = TRUST / (scorer.between / people + 1.0 / len(pool))
    before = scorer.offset if prior is None else prior.left
    left = 1.0 / (1.0 / before + evidence)
    known = float(np.mean(1.0 - left / scorer.offset))
    if prior is None:
        shift = SHIFT * known * (pool.mean(axis=0) - scorer.embedding_mean)
    else:
        shift = prior.shift
    moved = replace(scorer, bias=scorer.bias - scorer.weight @ shift)
    centre = evidence * left * moved.centred(pool).mean(axis=0)
    if prior is not None:
        centre += left / prior.left * prior.centre
    gate, edge = _gate(scorer, x, known, None if prior is None else prior.mean)
    return replace(
        moved,
        centre=scorer.centre + centre,
        offset=left,
        known=known,
        heard=people,
        gate=gate,
        edge=edge,
        own=0.0 if prior is None else float(prior.own),
        parent_bias=scorer.bias,
        parent_centre=scorer.centre,
    )


def _ease(placed: JointScorer, pool: Array) -> float:
    """`ease` of a scorer of the place that the pool (n, D) is of.

    The target trials of a place decide which threshold it needs, and people who return are target
    trials that nobody labelled. All utterances count as of the place.
    """
    if len(pool) < FEWEST_PAIRED:
        return 0.0
    x = replace(placed, gate=None).projected(_few(pool))
    scores = form_scores(placed.terms(), x, x)
    np.fill_diagonal(scores, -np.inf)
    found = float(np.quantile(scores.max(axis=1), 0.75)) - placed.usual_ease
    return float(np.clip(found, -placed.reach_ease, placed.reach_ease))


def _gate(scorer: JointScorer, x: Array, known: float, mean: Array | None) -> tuple[Array, float]:
    """Direction of w, and the value along it from which on an utterance is taken for the place's.

    Utterances lie along the place's mean m, weighed by the scatter of people, at
    t = x' m / (b + 1). Those of the place are around m' m / (b + 1) if m is known from training.
    The pool's own mean has its voices in it: then around what people of the pool who differ show
    of one another.
    """
    scatter = scorer.between + 1.0
    along = (x.mean(axis=0) if mean is None else mean) / scatter
    few = _few(x)
    strangers = ~_one_speaker(scorer, few)
    np.fill_diagonal(strangers, False)
    if mean is not None:
        here = float(mean @ along)
    elif strangers.any():
        products = (few / scatter) @ few.T
        here = max(float(products[strangers].mean()), 0.0)
    else:
        here = known * float(x.mean(axis=0) @ along)
    if not here > 0:
        return np.zeros_like(along), -1.0  # nothing sets the place apart
    edge = _edge(scorer, x, along, here, ODDS)
    return scorer.turn.T @ along, edge + float(scorer.centre @ along)


def _edge(scorer: JointScorer, x: Array, along: Array, here: float, odds: float) -> float:
    """Where on that line an utterance is as likely of the place, by these odds, as of any other.

    Those of the place are around `here`, those of any other around 0 and scatter more.
    """
    of_people = float(along**2 @ (scorer.between + 1.0))
    of_places = of_people + float(along**2 @ scorer.offset)
    spread = max(LEAST_SCATTER * of_people, float((x @ along).var()))
    return _crossing(here, min(spread, of_places), of_places, odds)


def _crossing(here: float, spread: float, elsewhere: float, odds: float) -> float:
    """Below `here`, where `odds` times the density N(here, spread) is that of N(0, elsewhere)."""
    slope = here / spread
    bend = 0.5 * (1.0 / elsewhere - 1.0 / spread)
    level = -0.5 * here * slope + 0.5 * math.log(elsewhere / spread) + math.log(odds)
    root = math.sqrt(slope * slope - 4.0 * bend * level)
    return 2.0 * level / (-slope - root)
