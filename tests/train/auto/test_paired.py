"""The paired difference of held-out Cllr and its standard error, against written-out formulas."""

import numpy as np
import pytest
from training_world import copies, draw

from dcaplda.eval.metrics.scalars import cllr
from dcaplda.train.auto.paired import Difference, compare, held_out_cllr
from dcaplda.train.auto.parts import DomainTrials, part_trials, turns_of
from dcaplda.train.recipe.sections import HeldOutSection

pytestmark = pytest.mark.torch


def scored(data, section, seed, noise=0.0, of=0):
    """LLRs that know who is who, with noise; the same `seed` is the same noise."""
    found = []
    for number, turn in enumerate(turns_of(data, section)):

        def llrs(rows, number=number):
            rng = np.random.default_rng([seed, number, len(rows)])
            who = data.identity[rows]
            llr = np.where(who[:, None] == who[None, :], 2.0, -2.0)
            llr = llr + 1.5 * rng.standard_normal(llr.shape)
            more = np.random.default_rng([of, number, len(rows)])
            return llr + noise * more.standard_normal(llr.shape)

        found.append((turn, part_trials(data, turn.part.rows, llrs, named=True)))
    return found


def weighted_gain(data, rule, other, without=None):
    """Groups count the same, in these the kinds of turns, in these the blocks of trials."""
    group = dict(zip(data.domain_names, data.domain_group, strict=True))
    gains: dict = {}
    for (turn, ones), (_, twos) in zip(rule, other, strict=True):
        for one, two in zip(ones, twos, strict=True):
            target_of, pair_of = one.people
            t = np.ones(len(target_of), bool) if without is None else target_of != without
            n = np.ones(len(pair_of), bool) if without is None else (pair_of != without).all(1)
            gain = cllr(one.targets[t], one.nontargets[n], 0.5)
            gain -= cllr(two.targets[t], two.nontargets[n], 0.5)
            gains.setdefault(group[one.domain], {}).setdefault(turn.kind, []).append(gain)
    of_groups = [
        np.mean([np.mean(own) for own in kinds.values()]) for _, kinds in sorted(gains.items())
    ]
    return np.mean(of_groups), np.array(of_groups)


def jackknife(data, rule, other):
    people = np.unique(data.identity)
    left = np.array([weighted_gain(data, rule, other, person)[0] for person in people])
    n = len(people)
    return np.sqrt((n - 1) / n * np.sum((left - left.mean()) ** 2))


@pytest.fixture(scope="module")
def data():
    return copies(draw(0, domains=4, speakers=6), np.zeros(24)).data()


def test_difference_and_error_are_the_written_out_ones(data):
    section = HeldOutSection(people=2, domains=4)
    rule, other = scored(data, section, 1, noise=1.0), scored(data, section, 1)
    found = compare(rule, other, data)
    gain, of_groups = weighted_gain(data, rule, other)
    assert len(of_groups) == 4
    assert found.better == pytest.approx(gain, rel=1e-12)
    of_people = jackknife(data, rule, other)
    groups = np.std(of_groups, ddof=1) / np.sqrt(4)
    assert found.error == pytest.approx(max(of_people, groups), rel=1e-9)
    assert found.beyond and found.better > 0
    assert held_out_cllr(rule, data) - held_out_cllr(other, data) == pytest.approx(found.better)


def test_with_one_group_the_error_is_the_jackknife_over_people():
    data = draw(0, domains=1, speakers=10).data()
    section = HeldOutSection(people=2)
    rule, other = scored(data, section, 1, noise=0.3), scored(data, section, 1, 0.3, of=5)
    found = compare(rule, other, data)
    assert found.error == pytest.approx(jackknife(data, rule, other), rel=1e-9)
    assert found.error > 0


def test_the_same_scores_are_no_better(data):
    section = HeldOutSection(people=2)
    one = scored(data, section, 1)
    assert compare(one, one, data) == Difference(0.0, 0.0)
    assert not Difference(0.0, 0.0).beyond


def test_noise_is_seldom_beyond_its_error():
    """Two systems that differ by noise alone: one standard error is passed by chance in a sixth."""
    data = draw(0, domains=3, speakers=8).data()
    section = HeldOutSection(people=2, domains=3)
    pairs = [
        [scored(data, section, 99, 0.5, of=number) for number in (2 * k, 2 * k + 1)]
        for k in range(40)
    ]
    found = [compare(one, other, data) for one, other in pairs]
    # 40 draws of probability 1/6 or less (the larger of two errors counts): 6.7 +- 2.4.
    assert 0 < sum(one.beyond for one in found) <= 13
    assert sum(one.better > 2 * one.error for one in found) <= 5


def test_words_say_which_way():
    assert Difference(0.0124, 0.02).words() == "0.012 +- 0.020 better"
    assert Difference(-0.5, 0.02).words() == "0.500 +- 0.020 worse"


def test_a_part_names_the_people_of_its_trials(data):
    rows = np.flatnonzero(data.identity < 12)

    def numbers(chosen):
        return chosen[:, None] * 1e6 + chosen[None, :]

    for own in part_trials(data, rows, numbers, named=True):
        assert isinstance(own, DomainTrials)
        one, other = (x.astype(int) for x in np.divmod(own.nontargets, 1e6))
        pairs = np.stack([data.identity[one], data.identity[other]], axis=1)
        assert (own.people[1] == pairs).all()
        one, other = (x.astype(int) for x in np.divmod(own.targets, 1e6))
        assert (own.people[0] == data.identity[one]).all()
        assert (own.people[0] == data.identity[other]).all()
