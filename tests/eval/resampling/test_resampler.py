"""All draws at once against one draw at a time, formulas written out, and what nodes promise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from dcaplda.eval.metrics.bootstrap import TrialSpeakers, draws
from dcaplda.eval.metrics.measure import Settings, WeightedMeasure
from dcaplda.eval.resampling.hulls import Masses, equal_error_rates
from dcaplda.eval.resampling.resampler import Resampler
from dcaplda.eval.resampling.smooth_nodes import LIMIT, SmoothNodes
from dcaplda.eval.resampling.trial_runs import Runs


def all_pairs(n_speakers, n_each):
    """Speakers of both sides and labels of all pairs of utterances."""
    speaker = np.repeat(np.arange(n_speakers), n_each)
    first, second = np.triu_indices(speaker.size, 1)
    enroll, test = speaker[first], speaker[second]
    return enroll, test, enroll == test


def scores_of(labels, rng, distance, spread, kind):
    scores = np.where(labels, distance, -distance) + rng.normal(0, spread, labels.size)
    places = rng.integers(0, labels.size, 3)
    if kind == "rounded":
        scores = np.round(scores)
    elif kind == "outliers":
        scores[places] *= 1e3
    elif kind == "infinite":
        scores[places] = np.where(labels[places], np.inf, -np.inf)
    elif kind == "misplaced":
        scores[places] = np.where(labels[places], -np.inf, np.inf)
    elif kind == "equal":
        scores[:] = 0.5
    elif kind == "reversed":
        scores = -scores
    return scores


KINDS = ["plain", "rounded", "outliers", "infinite", "misplaced", "equal", "reversed"]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(3, 9),
    st.integers(2, 7),
    st.sampled_from([0.0, 0.5, 2.0, 6.0]),
    st.sampled_from([0.5, 2.0, 5.0]),
    st.sampled_from(KINDS),
    st.sampled_from(["rocch", "kaldi"]),
    st.integers(0, 10**6),
)
def test_all_at_once_is_one_by_one(n_speakers, n_each, distance, spread, kind, eer, seed):
    """Every metric of every draw within 1e-9 of the readable version, infinities included."""
    rng = np.random.default_rng(seed)
    enroll, test, labels = all_pairs(n_speakers, n_each)
    scores = scores_of(labels, rng, distance, spread, kind)
    speakers = TrialSpeakers.of(enroll, test, labels)
    how = Settings((0.5, 0.01), 2.0, 3.0, normalize_dcf=bool(seed % 2), eer_method=eer)
    counts = draws(speakers, 20, seed)
    target, nontarget = scores[labels], scores[~labels]
    found = Resampler(target, nontarget, speakers, how).rows(counts)
    plain = WeightedMeasure(target, nontarget, how)
    wanted = np.array([plain(*speakers.weights(drawn)) for drawn in counts])
    # Where a threshold separates a draw, the minimum is 0 and the readable fit stops with up to
    # 1e-3 of it left. That shows in the share of a Cllr which is itself next to nothing, too.
    tiny = np.isfinite(wanted) & (wanted < 1e-3)
    for column, name in enumerate(how.names):
        if name.startswith("min_cllr_lin"):
            apart = wanted[:, column + 1] == 0
            assert (found[apart, column] <= wanted[apart, column] + 1e-9).all()
            assert (wanted[apart, column] < 1e-3).all()
            assert how.names[column + 1].startswith("min_cllr_pav")
            assert how.names[column + 2].startswith("calibration_loss")
            np.testing.assert_allclose(
                found[apart, column + 2], wanted[apart, column + 2], atol=5e-3
            )
            found[apart, column] = wanted[apart, column]
            found[apart, column + 2] = wanted[apart, column + 2]
    for column, name in enumerate(how.names):
        if name.startswith("calibration_loss"):
            cllr = how.names.index(name.replace("calibration_loss", "cllr"))
            skipped = tiny[:, cllr]
            np.testing.assert_allclose(found[skipped, column], wanted[skipped, column], atol=1e-6)
            found[skipped, column] = wanted[skipped, column]
    np.testing.assert_allclose(found, wanted, atol=1e-9, rtol=1e-9)


def test_large_sets_are_interpolated_and_still_equal():
    """Thousands of trials have fewer nodes than trials; within 1e-11 of the sums over trials."""
    rng = np.random.default_rng(0)
    enroll, test, labels = all_pairs(30, 8)
    effect = rng.normal(0, 1, 30)
    scores = np.where(labels, 4.0, -4.0) + effect[enroll] + effect[test]
    scores += rng.normal(0, 3, labels.size)
    speakers = TrialSpeakers.of(enroll, test, labels)
    counts = draws(speakers, 12, 1)
    resampler = Resampler(scores[labels], scores[~labels], speakers, Settings())
    n_nodes = sum(cls.smooth.nodes.size for cls in resampler.classes)
    assert n_nodes < 0.05 * labels.size and resampler.widest > 0.0
    found = resampler.rows(counts)
    wanted = [resampler.plain(*speakers.weights(drawn)) for drawn in counts]
    np.testing.assert_allclose(found, wanted, atol=1e-11)


@pytest.mark.parametrize("threads", [1, 3])
def test_batches_hold_every_draw_once(threads):
    enroll, test, labels = all_pairs(5, 3)
    speakers = TrialSpeakers.of(enroll, test, labels)
    scores = np.random.default_rng(2).normal(labels * 3.0, 1.0)
    resampler = Resampler(scores[labels], scores[~labels], speakers, Settings())
    counts = draws(speakers, 601, 0)
    batches = list(resampler.batches(counts, threads))
    assert len(batches) >= threads
    assert np.array_equal(np.concatenate(batches), counts)
    rows = np.concatenate([resampler.rows(batch) for batch in batches])
    np.testing.assert_allclose(rows[400], resampler.rows(counts[400:401])[0], atol=1e-12)


@given(st.integers(0, 10**6), st.floats(0.2, 5.0), st.floats(-8.0, 8.0))
@settings(max_examples=40, deadline=None)
def test_nodes_sum_a_loss_as_the_trials_do(seed, slope, shift):
    """Mean of log(1 + exp(a s + b)) at the steepest slope that is allowed: within 1e-10."""
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.normal(rng.normal(), 4.0, 3000))
    weights = rng.integers(0, 5, scores.size).astype(float)
    smooth = SmoothNodes.of(scores, LIMIT / slope)
    assert 0.0 < smooth.half_width * slope <= LIMIT
    at_nodes = np.zeros(smooth.nodes.size)
    for piece in smooth.pieces:
        at_nodes[piece.nodes] += weights[piece.trials] @ smooth.basis(piece)
    exact = weights @ np.logaddexp(0.0, slope * scores + shift) / weights.sum()
    found = at_nodes @ np.logaddexp(0.0, slope * smooth.nodes + shift) / weights.sum()
    assert found == pytest.approx(exact, abs=1e-10, rel=1e-10)


def test_few_scores_are_their_own_nodes():
    scores = np.array([-np.inf, -3.0, -3.0, 0.5, 7.0])
    smooth = SmoothNodes.of(scores, 1.0)
    assert smooth.half_width == 0.0
    assert smooth.nodes.tolist() == [-3.0, 0.5, 7.0]
    assert sum(piece.trials.stop - piece.trials.start for piece in smooth.pieces) == 5


def test_runs_join_what_no_weights_can_tell_apart():
    target, nontarget = (
        np.array([1.0, 2.0, 4.0, 5.0, 5.0]),
        np.array([0.0, 0.5, 3.0, 4.0, 6.0, 7.0]),
    )
    runs = Runs.of(target, nontarget)
    # nn | tt | n | tie | tt | nn
    assert runs.nontarget.tolist() == [0, 0, 2, 3, 5, 5]
    assert runs.target.tolist() == [1, 1, 3, 4, 4]
    assert runs.n_runs == 6


def test_pools_of_rows_are_those_of_each_row_alone():
    rng = np.random.default_rng(3)
    masses = Masses(*rng.integers(0, 4, (2, 6, 40)).astype(float))
    pools = masses.pool()
    for row in range(6):
        total = masses.target[row] + masses.nontarget[row]
        there = total > 0
        share = masses.target[row][there] / total[there]
        levels = isotonic_regression(share, weights=total[there]).x
        expected = np.repeat(levels, total[there].astype(int))
        size = pools.target[row] + pools.nontarget[row]
        kept = size > 0
        found = np.repeat(pools.target[row][kept] / size[kept], size[kept].astype(int))
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_rates_meet_where_a_line_by_hand_does():
    # Two corners: from miss 0, false alarm 1 over (0.2, 0.5) to (1, 0).
    miss, false_alarm = np.array([[0.0, 0.2, 1.0]]), np.array([[1.0, 0.5, 0.0]])
    # Between: 0.2 + x 0.8 = 0.5 - x 0.5 at x = 0.3 / 1.3.
    assert equal_error_rates(miss, false_alarm) == pytest.approx([0.2 + 0.8 * 0.3 / 1.3])
