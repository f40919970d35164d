"""The bootstrap over speakers against models whose true variance is known."""

import numpy as np
import pytest

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.bootstrap import TrialSpeakers, draws, intervals, replicates
from dcaplda.eval.metrics.measure import Settings, WeightedMeasure, limits, measure
from dcaplda.eval.resampling.resampler import Resampler
from dcaplda.runtime.errors import InputError


def all_pairs(n_speakers, n_each=1):
    """Speakers of every pair a < b (nontargets) and of n_each trials per speaker (targets)."""
    first, second = np.triu_indices(n_speakers, 1)
    own = np.repeat(np.arange(n_speakers), n_each)
    return TrialSpeakers(own, first, second, n_speakers)


def nontarget_mean_variance(scores, speakers, n_replicates, seed):
    def mean(target_weights, nontarget_weights):
        return [float(np.average(scores, weights=nontarget_weights))]

    return replicates(mean, speakers, n_replicates, seed).var()


def test_variance_of_a_mean_over_pairs_is_the_true_one():
    """s_ab = u_a + u_b + e_ab: the truth is 4 var(u) / S + 2 var(e) / (S (S - 1))."""
    n_speakers, sd_speaker, sd_trial = 40, 1.0, 1.0
    speakers = all_pairs(n_speakers)
    rng = np.random.default_rng(0)
    truth = 4 * sd_speaker**2 / n_speakers
    truth += 2 * sd_trial**2 / (n_speakers * (n_speakers - 1))
    estimates, means = [], []
    for seed in range(60):
        u = rng.normal(0, sd_speaker, n_speakers)
        e = rng.normal(0, sd_trial, speakers.nontarget_enroll.size)
        scores = u[speakers.nontarget_enroll] + u[speakers.nontarget_test] + e
        means.append(scores.mean())
        estimates.append(nontarget_mean_variance(scores, speakers, 200, seed))
    # The mean of 60 variance estimates with 39 degrees of freedom has a relative standard
    # error of sqrt(2 / 39 / 60) = 3 %; 10 % is more than three of those.
    assert np.mean(estimates) == pytest.approx(truth, rel=0.10)
    # The simulation itself has that variance (relative standard error 18 %) ...
    assert np.var(means) == pytest.approx(truth, rel=0.6)
    # ... and trials taken as independent would miss it by far.
    independent = (2 * sd_speaker**2 + sd_trial**2) / speakers.nontarget_enroll.size
    assert independent < 0.05 * truth


def test_trial_noise_counts_about_three_times():
    """With no speaker effect the docstring promises three times the true variance."""
    n_speakers = 40
    speakers = all_pairs(n_speakers)
    rng = np.random.default_rng(1)
    n_pairs = speakers.nontarget_enroll.size
    estimates = [
        nontarget_mean_variance(rng.normal(0, 1, n_pairs), speakers, 200, seed)
        for seed in range(40)
    ]
    assert np.mean(estimates) == pytest.approx(3.0 / n_pairs, rel=0.15)


def test_targets_of_a_speaker_stand_and_fall_together():
    """Ten equal target trials per speaker: the miss rate has the variance of S coins."""
    n_speakers, n_each, share = 200, 10, 0.3
    rng = np.random.default_rng(2)
    missed = rng.random(n_speakers) < share
    target = np.where(np.repeat(missed, n_each), -5.0, 5.0)
    speakers = all_pairs(n_speakers, n_each)
    nontarget = np.full(speakers.nontarget_enroll.size, -9.0)
    settings = Settings(priors=(0.5,))
    weighted = WeightedMeasure(target, nontarget, settings)
    # At prior 0.5 the normalized DCF is the miss rate, there being no false alarm.
    place = settings.names.index("dcf_0.5")
    rows = replicates(weighted, speakers, 300, 0)[:, place]
    truth = missed.mean() * (1 - missed.mean()) / n_speakers
    assert rows.var() == pytest.approx(truth, rel=0.3)  # 300 replicates: standard error 8 %
    assert rows.mean() == pytest.approx(missed.mean(), abs=0.02)


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Cllr of calibrated Gaussian LLRs with speaker effects; 90 % intervals, 60 data sets."""
    rng = np.random.default_rng(3)
    n_speakers = 30
    speakers = all_pairs(n_speakers, 6)

    def draw(n):
        own, first, second = np.repeat(np.arange(n), 6), *np.triu_indices(n, 1)
        u, v = rng.normal(0, 1, n), rng.normal(0, 0.7, n)
        target = 3.0 + u[own] + rng.normal(0, 1.5, own.size)
        nontarget = -3.0 + v[first] + v[second] + rng.normal(0, 1.5, first.size)
        return target, nontarget

    truth = np.mean([metrics.cllr(*draw(400), 0.5) for _ in range(5)])
    covered = 0
    for seed in range(60):
        target, nontarget = draw(n_speakers)

        def cllr(target_weights, nontarget_weights, scores=(target, nontarget)):
            weights = {"target_weights": target_weights, "nontarget_weights": nontarget_weights}
            return [metrics.cllr(*scores, 0.5, **weights)]

        low, high = intervals(replicates(cllr, speakers, 120, seed), 0.9)[0]
        covered += low <= truth <= high
    # Binomial(60, 0.9) lies in 46..60 with probability 0.998; percentile intervals of thirty
    # speakers are a little short.
    assert covered >= 46


def test_weights_are_products_of_the_two_sides():
    speakers = TrialSpeakers.of(
        np.array([5, 5, 7, 7]), np.array([5, 7, 9, 7]), np.array([True, False, False, True])
    )
    assert speakers.n_speakers == 3
    target, nontarget = speakers.weights(np.array([2, 3, 1]))
    assert target.tolist() == [2.0, 3.0]
    assert nontarget.tolist() == [6.0, 3.0]


def test_unit_weights_give_the_plain_metrics():
    rng = np.random.default_rng(4)
    target, nontarget = rng.normal(2, 2, 90), rng.normal(-1, 2, 400)
    target[0], nontarget[0] = np.inf, -np.inf
    for settings in (Settings(), Settings((0.2,), 2.0, 5.0, normalize_dcf=False)):
        plain = measure(target, nontarget, settings).values
        weighted = WeightedMeasure(target, nontarget, settings)(np.ones(90), np.ones(400))
        assert weighted == pytest.approx(list(plain.values()), rel=1e-7)


def test_same_seed_same_replicates():
    rng = np.random.default_rng(5)
    speakers = all_pairs(8, 3)
    scores = rng.normal(1, 1, 24), rng.normal(-1, 1, speakers.nontarget_enroll.size)
    weighted = WeightedMeasure(*scores, Settings())
    first, again, other = (replicates(weighted, speakers, 5, seed) for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_draws_without_a_class_are_drawn_again():
    # Targets of one speaker in ten only: a third of all draws has no target at all.
    speakers = TrialSpeakers(np.array([0, 0]), np.array([1, 2, 3]), np.array([4, 5, 6]), 10)
    weighted = WeightedMeasure(np.array([1.0, 2.0]), np.array([0.0, -1.0, 1.5]), Settings())
    rows = replicates(weighted, speakers, 50, 0)
    assert rows.shape == (50, len(Settings().names))
    assert np.isfinite(rows).all()


def test_infinite_replicates_have_intervals():
    values = np.array([[1.0], [2.0], [np.inf], [np.inf]])
    assert intervals(values, 0.5) == [(1.0, np.inf)]


def test_intervals_are_moved_by_the_bias_and_stay_within_limits():
    """Replicates 0..99 of a value 60: the bias is 49.5 - 60, percentiles are 9 and 89."""
    values = np.arange(100.0)[:, None]
    assert intervals(values, 0.8) == [(9.0, 89.0)]
    assert intervals(values, 0.8, [60.0]) == [(19.5, 99.5)]
    assert intervals(values, 0.8, [60.0], [(0.0, 95.0)]) == [(19.5, 95.0)]
    assert intervals(values, 0.8, [0.0], [(0.0, 95.0)]) == [(0.0, 39.5)]
    values[0] = np.inf  # no bias is known
    assert intervals(values, 0.8, [60.0]) == [(10.0, 90.0)]


def small_set(rng, seed, n_speakers=10):
    """Metrics and replicates of a set of all pairs of five utterances of each speaker."""
    own = np.repeat(np.arange(n_speakers), 5)
    first, second = (own[side] for side in np.triu_indices(own.size, 1))
    labels = first == second
    u, v = rng.normal(0, 1, n_speakers), rng.normal(0, 0.7, n_speakers)
    scores = np.where(labels, 3.0 + 1.3 * u[first], -3.0 + v[first] + v[second])
    scores += rng.normal(0, 1.7, labels.size)
    speakers = TrialSpeakers.of(first, second, labels)
    target, nontarget = scores[labels], scores[~labels]
    resampler = Resampler(target, nontarget, speakers, Settings())
    values = list(measure(target, nontarget, Settings()).values.values())
    return values, resampler.rows(draws(speakers, 200, seed))


def mean_of_sets(rng, seed):
    """Metrics and replicates of the mean of twelve such sets."""
    values, rows = zip(*(small_set(rng, 100 * seed + k) for k in range(12)), strict=True)
    return np.mean(values, axis=0), np.mean(rows, axis=0)


def test_a_mean_of_small_sets_lies_in_its_own_interval():
    """Draws repeat people, which lowers minima: plain percentiles leave the mean min DCF out."""
    values, rows = mean_of_sets(np.random.default_rng(8), 0)
    place = Settings().names.index("min_dcf_0.01")
    assert intervals(rows)[place][1] < values[place]
    for value, (low, high) in zip(values, intervals(rows, measured=values), strict=True):
        assert low < value < high


@pytest.mark.slow
def test_moved_intervals_cover_what_as_many_others_would_give():
    """The figures of the module's docstring: 60 means of 12 sets, standard error 5 %."""
    rng = np.random.default_rng(7)
    found = [mean_of_sets(rng, seed) for seed in range(60)]
    truth = np.mean([values for values, _ in found], axis=0)
    names = Settings().names

    def coverage(spans):
        inside = [
            [low <= t <= high for (low, high), t in zip(s, truth, strict=True)] for s in spans
        ]
        return dict(zip(names, np.mean(inside, axis=0), strict=True))

    moved = coverage([intervals(rows, measured=values) for values, rows in found])
    plain = coverage([intervals(rows) for _, rows in found])
    assert moved["min_dcf_0.01"] == pytest.approx(0.85, abs=0.1)
    assert plain["min_dcf_0.01"] == pytest.approx(0.38, abs=0.15)
    assert min(moved.values()) > 0.75


def test_limits_are_those_of_the_definitions():
    found = {name: limits(name) for name in Settings().names}
    assert found["eer"] == (0.0, 100.0)
    assert found["auc"] == found["calibration_loss_0.01"] == (0.0, 1.0)
    assert found["cllr_0.5"] == found["min_dcf_0.01"] == (0.0, np.inf)


def test_labels_that_contradict_the_speakers_are_refused():
    with pytest.raises(InputError, match="trial 2 is a target trial"):
        TrialSpeakers.of(np.array([1, 1]), np.array([2, 3]), np.array([False, True]))


def test_one_speaker_has_no_interval():
    with pytest.raises(InputError, match="at least two speakers"):
        TrialSpeakers.of(np.array([1, 1]), np.array([1, 1]), np.array([True, True]))
