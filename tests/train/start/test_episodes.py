"""Episodes: who is heard, who is compared, and what calibration is told of it."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from training_world import copies, draw

from dcaplda.train.data.folds import Part, domain_parts, speaker_parts
from dcaplda.train.data.labelled import TrainingData, assemble
from dcaplda.train.start import episodes
from dcaplda.train.start.episodes import Episode, Source, draw_plan, episodes_of_part

pytestmark = pytest.mark.torch
ROUNDS = 8


@dataclass
class Watched:
    """Stands for a scorer: every embedding it meets starts with the number of its row."""

    known: float = 0.0
    ease: float = 0.0
    place_number: int | None = None
    pool: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    seen: list[np.ndarray] = field(default_factory=list)

    def projected(self, embeddings: np.ndarray) -> np.ndarray:
        self.seen.append(embeddings[:, 0].astype(np.int64))
        return embeddings

    def lengths(self, embeddings: np.ndarray) -> np.ndarray:
        return embeddings[:, :2] + self.known

    def place_conditions(self, embeddings: np.ndarray) -> np.ndarray:
        return np.tile([self.ease, self.known], (len(embeddings), 1))

    def spread(self, count: float) -> float:
        return 1.0 / count


@dataclass
class Drawn:
    """An episode, and its trials as rows of the data: (k, n) and (k, m)."""

    episode: Episode
    pools: list[np.ndarray]
    enroll: np.ndarray
    test: np.ndarray
    form: str


def numbered(data: TrainingData) -> Source:
    data.embeddings[:, 0] = np.arange(len(data.ids))
    return Source(data, np.log(data.seconds.astype(np.float64))[:, None])


def drawn(
    monkeypatch, source: Source, part: Part, whole: bool, seed: int = 0, place: int | None = None
) -> list[Drawn]:
    """Episodes whose scores are the numbers of the two sides; pools are taken for `place`."""
    log: list[Any] = []

    def adapted(scorer: Watched, embeddings: np.ndarray) -> Watched:
        pool = embeddings[:, 0].astype(np.int64)
        known = len(pool) / (len(pool) + 10.0)
        made = Watched(known, -2.0 * known, place if len(pool) else None, pool)
        log.append(made)
        return made

    def form_scores(terms: str, enroll: np.ndarray, test: np.ndarray) -> np.ndarray:
        log.append(terms)
        return np.arange(len(enroll) * len(test)).reshape(len(enroll), len(test))

    def side_terms(sides: Any, spreads: Any, same_place: bool) -> str:
        return "one place" if same_place else "two places"

    monkeypatch.setattr(episodes, "posterior", adapted)
    monkeypatch.setattr(episodes, "side_terms", side_terms)
    monkeypatch.setattr(episodes, "WRONG", 0.0)
    monkeypatch.setattr(episodes, "form_scores", form_scores)
    rng = np.random.default_rng(seed)
    found = []
    for episode in episodes_of_part(source, part, Watched(), whole, 1.0, ROUNDS, rng):
        *_, first, second, form = log
        seen = first.seen + second.seen
        n, m = (round(float(np.exp(c[0, -2]))) for c in (episode.enroll, episode.test))
        sides = seen[0].reshape(-1, n), seen[1].reshape(-1, m)
        i, j = np.divmod(episode.scores.astype(np.int64), len(sides[1]))
        pools = [first.pool] if form == "one place" else [first.pool, second.pool]
        found.append(Drawn(episode, pools, sides[0][i], sides[1][j], form))
    return found


@pytest.fixture(scope="module")
def source() -> Source:
    """Three domains, the first with a degraded copy: four places, one pair with the same people."""
    return numbered(copies(draw(4, speakers=10, sessions=4), np.ones(24)).data())


def parts(data: TrainingData) -> list[tuple[Part, bool]]:
    held = [(part, False) for part in speaker_parts(data, 2)]
    return held + [(part, True) for part in domain_parts(data)]


@pytest.fixture(scope="module")
def every(source) -> list[tuple[Part, bool, Drawn]]:
    with pytest.MonkeyPatch.context() as patch:
        found = [
            (part, whole, one)
            for part, whole in parts(source.data)
            for one in drawn(patch, source, part, whole)
        ]
    assert len(found) > 30
    assert {one.form for *_, one in found} == {"one place", "two places"}
    assert any(pool.size for *_, one in found for pool in one.pools)
    assert max(one.enroll.shape[1] for *_, one in found) >= 3
    return found


def test_a_place_is_trained_only_if_the_trials_are_of_the_one_that_was_recognized(
    source, monkeypatch
) -> None:
    """A pool that is taken for another place, and a place held out, teach nothing of any."""
    data = source.data
    for part, whole in parts(data):
        names = np.unique(data.domain[part.others])
        for one in drawn(monkeypatch, source, part, whole, place=1):
            recognized = [bool(len(pool)) for pool in (one.pools * 2)[:2]]
            sides = [int(data.domain[rows[0, 0]]) for rows in (one.enroll, one.test)]
            expected = tuple(
                side if heard and side == names[1] else -1
                for side, heard in zip(sides, recognized, strict=True)
            )
            assert one.episode.trained == expected
            assert not whole or expected == (-1, -1)


def test_all_people_of_a_trial_are_held_out(every) -> None:
    for part, _, one in every:
        assert np.isin(one.enroll, part.rows).all() and np.isin(one.test, part.rows).all()


def test_nobody_of_the_pool_is_in_a_trial(every, source) -> None:
    identity = source.data.identity
    for _, _, one in every:
        for pool in one.pools:
            assert not np.isin(identity[one.enroll], identity[pool]).any()
            assert not np.isin(identity[one.test], identity[pool]).any()


def test_the_pool_is_of_the_place_and_held_out_with_it(every, source) -> None:
    """Of a place held out whole, its own people are heard; else those that training knows."""
    domain = source.data.domain
    for part, whole, one in every:
        for pool, side in zip(one.pools, (one.enroll, one.test), strict=False):
            assert (domain[pool] == domain[side[0, 0]]).all()
            assert np.isin(pool, part.rows if whole else part.others).all()
            assert len(np.unique(pool)) == len(pool)


def shared_sessions(data: TrainingData, one: Drawn) -> np.ndarray:
    """Trials with a session on both sides."""
    left, right = data.session[one.enroll], data.session[one.test]
    return (left[:, :, None] == right[:, None, :]).any(axis=(1, 2))


def test_sides_are_of_one_speaker_and_targets_of_two_sessions(every, source) -> None:
    data = source.data
    for _, _, one in every:
        for side in (one.enroll, one.test):
            assert (data.speaker[side] == data.speaker[side[:, :1]]).all()
            assert (np.diff(np.sort(side, axis=1), axis=1) > 0).all()
        same = data.identity[one.enroll[:, 0]] == data.identity[one.test[:, 0]]
        np.testing.assert_array_equal(same, one.episode.targets)
        assert same.any() and not same.all()
        assert not shared_sessions(data, one).any()


def sessions_of(source: Source, side: np.ndarray) -> np.ndarray:
    sorted_sessions = np.sort(source.data.session[side], axis=1)
    return 1 + (np.diff(sorted_sessions, axis=1) > 0).sum(axis=1)


def test_several_utterances_are_of_all_sessions_but_one(every, source) -> None:
    """Each speaker has four sessions of two utterances: five are of three, and ten become six."""
    for _, _, one in every:
        if one.test.shape[1] == 1:
            assert (sessions_of(source, one.enroll) == min(one.enroll.shape[1], 3)).all()
    assert {one.enroll.shape[1] for *_, one in every} >= {1, 2, 3, 5, 6}
    assert {one.test.shape[1] for *_, one in every} == {1, 2, 4}


def test_tests_of_several_meet_enrolments_of_several(every, source) -> None:
    """Four sessions of two utterances: of six enrolled and four tested, four are enrolled."""
    both = {(one.enroll.shape[1], one.test.shape[1]) for *_, one in every}
    assert {(2, 2), (3, 2), (3, 4), (4, 4)} & both
    assert max(n + m for n, m in both if m > 1) <= 8
    of_test = [sessions_of(source, one.test) for *_, one in every if one.test.shape[1] == 2]
    assert {1, 2} == set(np.concatenate(of_test)), "of one session, and of as many as there are"


def test_apart_each_utterance_is_of_another_session_and_one_is_left(monkeypatch, source) -> None:
    apart = replace(source, apart=True)
    found = [
        one
        for part, whole in parts(source.data)
        for one in drawn(monkeypatch, apart, part, whole, seed=1)
    ]
    for one in found:
        for side in (one.enroll, one.test):
            assert (sessions_of(source, side) == side.shape[1]).all()
    assert {one.enroll.shape[1] for one in found} == {1, 2, 3}


@pytest.mark.parametrize(("apart", "most"), [(False, 4), (True, 2)])
def test_as_many_are_drawn_as_two_people_can_enrol_and_be_met(apart: bool, most: int) -> None:
    """Speakers 0, 1 and 2 have four, three and two sessions of two utterances."""
    data = draw(1, speakers=3, sessions=4).data()
    sessions = [np.unique(data.session[data.speaker == k]) for k in range(3)]
    few = [*sessions[0], *sessions[1][:3], *sessions[2][:2]]
    rows = np.flatnonzero(np.isin(data.session, few))
    assert episodes.most_each(data, rows, apart) == most
    alone = rows[data.speaker[rows] == 0]
    assert episodes.most_each(data, alone, apart) == 1, "nobody else to be met"
    found = episodes._sides(data, rows, most, np.random.default_rng(0), apart)
    assert set(data.speaker[found].ravel()) == ({0, 1} if apart else {0, 1, 2})


def test_only_a_lack_of_utterances_takes_the_session_that_is_left() -> None:
    """Sessions of 3, 1 and 2 rows: one row of each of two first, then theirs, then the third."""
    begins, size = np.array([0, 3, 4]), 6
    session = np.array([0, 0, 0, 1, 2, 2])
    orders = episodes._session_orders(begins, size, 1, 200, np.random.default_rng(0))
    assert (np.sort(orders, axis=1) == np.arange(size)).all()
    for order in session[orders]:
        chosen = set(order[:2])
        assert len(chosen) == 2
        of_chosen = sum(np.count_nonzero(session == s) for s in chosen)
        assert set(order[:of_chosen]) == chosen
    assert len({tuple(sorted(set(order[:2]))) for order in session[orders]}) == 3


def test_places_are_one_or_two_with_the_same_people(every, source) -> None:
    domain, group = source.data.domain, source.data.domain_group
    for _, _, one in every:
        places = [np.unique(domain[side]) for side in (one.enroll, one.test)]
        assert [len(place) for place in places] == [1, 1]
        assert (places[0] == places[1]) == (one.form == "one place") == one.episode.one_place
        assert group[places[0]] == group[places[1]]


def test_calibration_is_told_durations_numbers_and_knowledge(every, source) -> None:
    """Mean duration feature, mean lengths at the place, its ease, log of the number, knowledge."""
    for _, _, one in every:
        known = [len(pool) / (len(pool) + 10.0) for pool in one.pools]
        told = one.episode.enroll, one.episode.test
        for side, conditions, place in zip(
            (one.enroll, one.test), told, (known[0], known[-1]), strict=True
        ):
            durations = source.features[side].mean(axis=1)[:, 0]
            np.testing.assert_allclose(conditions[:, 0], durations, atol=1e-12)
            lengths = source.data.embeddings[side][..., :2].astype(np.float64).mean(axis=1)
            np.testing.assert_allclose(conditions[:, 1:3], lengths + place, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(conditions[:, 3], -2.0 * place, atol=1e-12)
            np.testing.assert_allclose(conditions[:, 4], np.log(side.shape[1]), atol=1e-12)
            np.testing.assert_allclose(conditions[:, 5], place, atol=1e-12)
        assert one.episode.places == ((-2 * known[0], known[0]), (-2 * known[-1], known[-1]))


def test_in_some_pools_nobody_speaks_twice(every, source) -> None:
    people = source.data.identity
    pools = [pool for _, _, one in every for pool in one.pools if len(pool) >= 5]
    alone = [len(np.unique(people[pool])) == len(pool) for pool in pools]
    assert 0 < sum(alone) < len(alone)


def test_half_of_the_rounds_are_of_single_utterances() -> None:
    rng = np.random.default_rng(0)
    plans = [draw_plan(rng, number % 2 == 0, True) for number in range(200)]
    assert all(plan.n_enroll == plan.n_test == 1 for plan in plans[::2])
    assert {plan.n_enroll for plan in plans[1::2]} == {1, 2, 3, 5, 10}
    assert {plan.n_test for plan in plans[1::2]} == {1, 2, 4}
    silent = [draw_plan(rng, False, False).heard == (0, 0) for _ in range(400)]
    assert 0.3 < np.mean(silent) < 0.7


def test_the_same_seed_draws_the_same_episodes(monkeypatch, source) -> None:
    part, whole = parts(source.data)[-1]
    one, other = (drawn(monkeypatch, source, part, whole, seed=3) for _ in range(2))
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.episode.scores, b.episode.scores)
        np.testing.assert_array_equal(a.episode.enroll, b.episode.enroll)


def test_two_people_of_one_session_never_meet(monkeypatch) -> None:
    """Both sides of a call, as data.allow_shared_sessions promises."""
    sample = draw(6, speakers=12)
    people = sorted(set(sample.speaker.values()))
    partner = dict(zip(people[1::2], people[::2], strict=True))
    for name, session in sample.session.items():
        speaker = sample.speaker[name]
        sample.session[name] = session.replace(speaker, partner.get(speaker, speaker))
    data = assemble(sample.ids, sample.vectors, sample.labels(), allow_shared_sessions=True)
    source, met = numbered(data), 0
    for part in speaker_parts(data, 2):
        for one in drawn(monkeypatch, source, part, False):
            met += int((~one.episode.targets).sum())
            assert not shared_sessions(data, one).any()
    assert met > 100
