"""Trials as they will be met: people and places that LDA and PLDA have not seen, any numbers.

Each episode holds out some people, or a whole group of domains, picks one of their domains as the
place, lets 0 to 200 utterances of other people of that place be heard, and compares means of one to
ten utterances with means of one to four. What calibrates on these has seen offsets estimated as
they will be, and now and then from utterances of quite another place (WRONG) or of people of whom
none returns (ONCE).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.joint.place import posterior
from dcaplda.runtime.joint.scorer import JointScorer, form_scores, mostly_inside, side_terms
from dcaplda.runtime.joint.terms import Array
from dcaplda.train.data.folds import Part
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.start.shared_out import shared_out

Rows = NDArray[np.int64]
Known = tuple[float, float]
"""What is known of a place: its ease, and how well it is known."""

ENROLLED = (1, 1, 2, 3, 3, 5, 10)
TESTED = (1, 1, 1, 2, 4)
HEARD = (0, 0, 0, 5, 10, 30, 30, 100, 200)
"""Of the numbers in these lists one is drawn."""
KNOWN_PLACE = 0.5
"""Share of episodes of people held out (of a place that training knows) with utterances heard."""
WRONG = 0.1
"""Share of pools that are of another place than the trials: somebody's mistake."""
ONCE = 0.25
"""Share of pools in which nobody speaks twice: that looks like a hard place and is none."""
FEWER = (5, 4, 3, 2, 1)
"""Utterances enrolled where two people have too few for more beside a test of several."""
SINGLES_EACH, SEVERAL_EACH = 8, 4
"""Sides drawn of each speaker."""
MOST_PEOPLE = 100
"""People of an episode, those of the pool among them."""
MOST_TRIALS = 100
"""Of either kind in an episode: more would only repeat the same few people."""


@dataclass(frozen=True)
class Episode:
    """Trials of one place: scores and what calibration is told of either side."""

    scores: Array
    targets: NDArray[np.bool_]
    enroll: Array
    """Conditions of each trial's enrolment, (n, F)."""
    test: Array
    weight: float
    one_place: bool = True
    unseen: bool = False
    """Whether the place was held out with its people."""
    heard: int = 0
    """Utterances heard of it."""
    places: tuple[Known, Known] = ((0.0, 0.0), (0.0, 0.0))
    """Ease and knowledge of either side's place."""
    trained: tuple[int, int] = (-1, -1)
    """Number of the place of training that either side is of, if its pool told; else -1."""
    recording: bool = False
    """Whether both sides are of one recording (recordings.py)."""


@dataclass(frozen=True)
class Plan:
    """How many utterances of either side and of either place."""

    n_enroll: int
    n_test: int
    heard: tuple[int, int]


@dataclass(frozen=True)
class Source:
    """What episodes are drawn from: the data and each utterance's duration features, and how."""

    data: TrainingData
    features: Array
    apart: bool = False
    """Whether several utterances of a side are all of different sessions."""


def episodes_of_part(
    source: Source,
    part: Part,
    held_out: JointScorer,
    whole: bool,
    weight: float,
    rounds: int,
    rng: np.random.Generator,
) -> Iterator[Episode]:
    """Episodes of the people of a part; `whole`: their domains are held out too.

    `weight` is that of each domain.
    """
    data = source.data
    domains = np.unique(data.domain[part.rows])
    places = [(d, d) for d in domains]
    group = data.domain_group
    crossing = [(a, b) for a in domains for b in domains if a != b and group[a] == group[b]]
    for number in range(rounds):
        for pairs in (places, crossing):
            for enroll_place, test_place in pairs:
                found = _episode(
                    source,
                    part,
                    held_out,
                    whole,
                    (enroll_place, test_place),
                    number,
                    rng,
                    weight * len(places) / (rounds * len(pairs)),
                )
                if found is not None:
                    yield found


def draw_plan(rng: np.random.Generator, single: bool, whole: bool) -> Plan:
    """Numbers of one episode."""
    n_enroll, n_test = (int(rng.choice(ENROLLED)), int(rng.choice(TESTED)))
    if single:
        n_enroll = n_test = 1
    heard = int(rng.choice(HEARD)), int(rng.choice(HEARD))
    if not whole and rng.random() >= KNOWN_PLACE:
        heard = 0, 0
    return Plan(n_enroll, n_test, heard)


def _episode(
    source: Source,
    part: Part,
    held_out: JointScorer,
    whole: bool,
    places: tuple[int, int],
    number: int,
    rng: np.random.Generator,
    weight: float,
) -> Episode | None:
    data = source.data
    plan = draw_plan(rng, number % 2 == 0, whole)
    one_place = places[0] == places[1]
    trial_rows, pools = [], []
    here = part.rows[np.isin(data.domain[part.rows], places)]
    people = rng.permutation(np.unique(data.identity[here]))[:MOST_PEOPLE]
    listeners = people[: len(people) // 2]
    for place, heard in zip(places, plan.heard, strict=True):
        rows = part.rows[data.domain[part.rows] == place]
        rows = rows[np.isin(data.identity[rows], people)]
        others = part.others[data.domain[part.others] == place]
        if whole and any(plan.heard):
            in_pool = np.isin(data.identity[rows], listeners)
            others, rows = rows[in_pool], rows[~in_pool]
        trial_rows.append(rows)
        if heard and rng.random() < WRONG:
            others = _another_place(data, part, place, rng)
        others = rng.permutation(others)
        if rng.random() < ONCE:
            others = others[np.sort(np.unique(data.identity[others], return_index=True)[1])]
        pools.append(others[:heard])
    scorers = [posterior(held_out, data.embeddings[pool]) for pool in pools]
    if one_place:
        scorers[1] = scorers[0]
    enroll, test = _both_sides(source, (trial_rows[0], trial_rows[1]), plan, rng)
    if min(len(enroll), len(test)) < 2:
        return None
    plan = replace(plan, n_enroll=enroll.shape[1], n_test=test.shape[1])
    kind = trial_kinds(data, enroll, test)
    targets = np.argwhere(kind == 1)
    nontargets = np.argwhere(kind == 0)
    if len(targets) < 2 or len(nontargets) < 2:
        return None
    targets, nontargets = (
        few if len(few) <= MOST_TRIALS else few[rng.choice(len(few), MOST_TRIALS, replace=False)]
        for few in (targets, nontargets)
    )
    trials = targets, nontargets
    found = scored(source, plan, scorers, (enroll, test), trials, one_place, weight)
    # Places of those who trained the scorer, by their numbers in all data.
    numbers = np.unique(data.domain[part.others])
    enrolled, tested = (
        place if scorer.place_number is not None and numbers[scorer.place_number] == place else -1
        for scorer, place in zip(scorers, places, strict=True)
    )
    return replace(found, unseen=whole, trained=(enrolled, tested))


def scored(
    source: Source,
    plan: Plan,
    scorers: list[JointScorer],
    sides: tuple[Rows, Rows],
    trials: tuple[Rows, Rows],
    one_place: bool,
    weight: float,
) -> Episode:
    """The episode of these sides; targets and nontargets are pairs of their numbers, (n, 2)."""
    data, (enroll, test), (targets, nontargets) = source.data, sides, trials
    spreads = [scorers[0].spread(plan.n_enroll), scorers[1].spread(plan.n_test)]
    means, conditions = [], []
    for scorer, side in zip(scorers, (enroll, test), strict=True):
        vectors = data.embeddings[side.ravel()]
        means.append(_side_means(scorer.projected(vectors), side))
        place = _side_means(scorer.place_conditions(vectors), side)
        told = [
            source.features[side].mean(axis=1),
            _side_means(scorer.lengths(vectors), side),
            place[:, 0],
            np.full(len(side), np.log(side.shape[1])),
            place[:, 1],
        ]
        conditions.append(np.column_stack(told))
    scores = _scores(scorers, means, conditions, (spreads[0], spreads[1]), one_place)
    chosen = np.concatenate([targets, nontargets])
    return Episode(
        scores[chosen[:, 0], chosen[:, 1]],
        np.arange(len(chosen)) < len(targets),
        conditions[0][chosen[:, 0]],
        conditions[1][chosen[:, 1]],
        weight,
        one_place,
        heard=plan.heard[0],
        places=((scorers[0].ease, scorers[0].known), (scorers[1].ease, scorers[1].known)),
    )


def _another_place(data: TrainingData, part: Part, place: int, rng: np.random.Generator) -> Rows:
    """Utterances of a place of other people, which somebody took for this one; none if none is."""
    groups = data.domain_group[data.domain[part.others]]
    elsewhere = part.others[groups != data.domain_group[place]]
    if not len(elsewhere):
        return elsewhere
    domain = rng.choice(np.unique(data.domain[elsewhere]))
    return elsewhere[data.domain[elsewhere] == domain]


def _scores(
    scorers: list[JointScorer],
    means: list[Array],
    conditions: list[Array],
    spreads: tuple[float, float],
    one_place: bool,
) -> Array:
    """Every enrolment with every test, each by what it sounds like: of its place or of another."""
    inside = [
        mostly_inside(told, scorer.known) for scorer, told in zip(scorers, conditions, strict=True)
    ]
    scores = np.zeros((len(means[0]), len(means[1])))
    for here in (True, False):
        for there in (True, False):
            i, j = np.flatnonzero(inside[0] == here), np.flatnonzero(inside[1] == there)
            if len(i) and len(j):
                sides = (scorers[0], here), (scorers[1], there)
                terms = side_terms(sides, spreads, one_place)
                scores[np.ix_(i, j)] = form_scores(terms, means[0][i], means[1][j])
    return scores


def _side_means(values: Array, side: Rows) -> Array:
    """Of the utterances of each side, (n * count, F) -> (n, F)."""
    found: Array = values.reshape(*side.shape, -1).mean(axis=1)
    return found


def _both_sides(
    source: Source, rows: tuple[Rows, Rows], plan: Plan, rng: np.random.Generator
) -> tuple[Rows, Rows]:
    """Enrolments and tests of as many utterances as the plan says, or of fewer if need be."""
    data = source.data
    n, m = (
        min(wanted, most_each(data, own, source.apart))
        for wanted, own in zip((plan.n_enroll, plan.n_test), rows, strict=True)
    )
    if m > 1:
        for fewer in dict.fromkeys((n, *(k for k in FEWER if k < n))):
            enroll, test = shared_out(data, rows, (fewer, m), SEVERAL_EACH, rng, source.apart)
            if len(np.unique(data.identity[enroll[:, 0]])) > 1:
                return enroll, test
    return _sides(data, rows[0], n, rng, source.apart), _sides(data, rows[1], m, rng, source.apart)


def most_each(data: TrainingData, rows: Rows, apart: bool) -> int:
    """How many utterances two speakers at least can enrol and still have a session to be met in.

    `apart`: each of another session.
    """
    pairs = np.stack([data.speaker[rows], data.session[rows]])
    of_session, counts = np.unique(pairs, axis=1, return_counts=True)
    speakers, begins = np.unique(of_session[0], return_index=True)
    if len(speakers) < 2:
        return 1
    counts = np.ones_like(counts) if apart else counts
    kept = np.add.reduceat(counts, begins) - np.minimum.reduceat(counts, begins)
    return max(1, int(np.sort(kept)[-2]))


def _sides(
    data: TrainingData, rows: Rows, count: int, rng: np.random.Generator, apart: bool = False
) -> Rows:
    """Sets of `count` utterances of one speaker each; (n, count).

    Several are of as many sessions as the speaker has, but for one that is left for the other side:
    who has five sessions could else never be met again after an enrolment of five utterances.
    `apart`: each is of another session, and who has too few is left out.
    """
    found = []
    speakers = data.speaker[rows]
    order = np.argsort(speakers, kind="stable")
    ends = np.flatnonzero(np.diff(speakers[order])) + 1
    for own in np.split(rows[order], ends):
        own = own[np.argsort(data.session[own], kind="stable")]
        begins = np.unique(data.session[own], return_index=True)[1]
        if len(own) < count or (apart and 1 < count >= len(begins)):
            continue
        draws = SINGLES_EACH if count == 1 else SEVERAL_EACH
        left = 0 if count == 1 or apart else 1
        found.append(own[_session_orders(begins, len(own), left, draws, rng)[:, :count]])
    return np.concatenate(found) if found else np.empty((0, count), np.int64)


def _session_orders(
    begins: Rows, size: int, left: int, draws: int, rng: np.random.Generator
) -> Rows:
    """Orders of a speaker's rows, whose sessions begin at `begins`; (draws, size).

    One row of each session comes first, then their others; `left` sessions come behind all of them:
    only a lack of utterances takes one.
    """
    sizes = np.diff([*begins, size])
    turn = rng.random((draws, size))
    first = turn == np.repeat(np.minimum.reduceat(turn, begins, axis=1), sizes, axis=1)
    if not left:
        return np.argsort(turn - first, axis=1)
    rank = np.repeat(rng.random((draws, len(begins))).argsort(axis=1), sizes, axis=1)
    keys = np.where(rank >= left, turn - first, turn + 1 + rank)
    return np.argsort(keys, axis=1)


def trial_kinds(data: TrainingData, enroll: Rows, test: Rows) -> NDArray[np.int8]:
    """1 target, 0 nontarget, 2 neither (a session on both sides); (E, T)."""
    same = data.identity[enroll[:, 0]][:, None] == data.identity[test[:, 0]][None, :]
    kind = same.astype(np.int8)
    # Two people of one session never meet either (data.allow_shared_sessions).
    for of_enroll in data.session[enroll].T:
        for of_test in data.session[test].T:
            kind[of_enroll[:, None] == of_test[None, :]] = 2
    return kind
