"""The bootstrap over speakers against models whose true variance is known."""

import numpy as np
import pytest

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.bootstrap import TrialSpeakers, intervals, replicates
from dcaplda.eval.metrics.measure import Settings, WeightedMeasure, measure
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


def test_labels_that_contradict_the_speakers_are_refused():
    with pytest.raises(InputError, match="trial 2 is a target trial"):
        TrialSpeakers.of(np.array([1, 1]), np.array([2, 3]), np.array([False, True]))


def test_one_speaker_has_no_interval():
    with pytest.raises(InputError, match="at least two speakers"):
        TrialSpeakers.of(np.array([1, 1]), np.array([1, 1]), np.array([True, True]))
