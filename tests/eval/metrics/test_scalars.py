"""Metrics against written-out definitions, golden files and known limits."""

import math

import numpy as np
import pytest
from eval_data import EXTRACTS, files_of, printed, result_files, split_scores
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.eval.metrics import scalars as metrics
from dcaplda.eval.metrics.ranking import Ranker, rank
from dcaplda.runtime.errors import InputError

# Few distinct values make ties common; three decimals keep scores apart in float64 sums.
VALUES = st.integers(-4, 4).map(float) | st.integers(-30_000, 30_000).map(lambda x: x / 1000)
SCORES = st.lists(VALUES, min_size=1, max_size=40)
PRIORS = st.sampled_from([0.001, 0.01, 0.3, 0.5, 0.9])


def brute_roc(target, nontarget):
    """(miss, false alarm) at every threshold, by counting."""
    thresholds = [*sorted({*target, *nontarget}), math.inf]
    n_target, n_nontarget = len(target), len(nontarget)
    return [
        (sum(t < x for t in target) / n_target, sum(n >= x for n in nontarget) / n_nontarget)
        for x in thresholds
    ]


@pytest.mark.parametrize("results", result_files(), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_figure_of_the_reference_is_reproduced_as_printed(results):
    target, nontarget = split_scores(*files_of(results))
    expected = printed(results)
    found = {"eer": f"{100 * metrics.eer(target, nontarget):.2f}"}
    for prior in (0.01, 0.5):
        for name in ("cllr", "min_cllr_lin", "min_cllr_pav", "dcf", "min_dcf"):
            value = getattr(metrics, name)(target, nontarget, prior)
            found[f"{name}_{prior:g}"] = f"{value:.4f}"
    assert found == expected


@pytest.mark.parametrize("name,trials", [("single", "trials"), ("multi", "trials_multi")])
def test_kaldi_way_gives_what_compute_eer_printed(name, trials):
    folder = EXTRACTS / "kaldi"
    target, nontarget = split_scores(folder / trials, folder / f"scores.{name}")
    shown = f"{100 * metrics.eer(target, nontarget, 'kaldi'):.4g}"
    assert shown == (folder / f"eer.{name}.out").read_text()


def kaldi_loop(target, nontarget):
    """The search that compute-eer describes, one step at a time."""
    target, nontarget = sorted(target), sorted(nontarget)
    position = 0
    while position + 1 < len(target):
        above = int(len(nontarget) * position / len(target))
        if nontarget[max(len(nontarget) - 1 - above, 0)] < target[position]:
            break
        position += 1
    return position / len(target)


@given(SCORES, SCORES)
def test_kaldi_way_equals_the_stepwise_search(target, nontarget):
    assert metrics.eer(target, nontarget, "kaldi") == kaldi_loop(target, nontarget)


@given(SCORES, SCORES)
def test_auc_equals_the_share_of_pairs_in_order(target, nontarget):
    wins = sum((t > n) + 0.5 * (t == n) for t in target for n in nontarget)
    assert metrics.auc(target, nontarget) == pytest.approx(
        wins / (len(target) * len(nontarget)), abs=1e-12
    )


@given(SCORES, SCORES, PRIORS, st.floats(0.1, 20), st.floats(0.1, 20))
def test_min_dcf_equals_the_best_of_all_thresholds(target, nontarget, prior, miss, fa):
    costs = [prior * miss * m + (1 - prior) * fa * f for m, f in brute_roc(target, nontarget)]
    found = metrics.min_dcf(target, nontarget, prior, miss, fa, normalize=False)
    assert found == pytest.approx(min(costs), rel=1e-9, abs=1e-12)
    normalized = metrics.min_dcf(target, nontarget, prior, miss, fa)
    assert normalized == pytest.approx(found / min(prior * miss, (1 - prior) * fa), rel=1e-9)


@given(SCORES, SCORES, PRIORS)
def test_actual_dcf_equals_counting_at_the_bayes_threshold(target, nontarget, prior):
    threshold = math.log(5.0 / 2.0) - math.log(prior / (1 - prior))
    miss = sum(t < threshold for t in target) / len(target)
    fa = sum(n >= threshold for n in nontarget) / len(nontarget)
    expected = prior * 2.0 * miss + (1 - prior) * 5.0 * fa
    found = metrics.dcf(target, nontarget, prior, 2.0, 5.0, normalize=False)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
    assert metrics.dcf(target, nontarget, prior, 2.0, 5.0) == pytest.approx(
        expected / min(prior * 2.0, (1 - prior) * 5.0), rel=1e-12
    )


@given(SCORES, SCORES, PRIORS)
def test_cllr_equals_the_equation(target, nontarget, prior):
    gamma = math.log(prior / (1 - prior))
    loss = prior * sum(math.log1p(math.exp(-(t + gamma))) for t in target) / len(target)
    loss += (1 - prior) * sum(math.log1p(math.exp(n + gamma)) for n in nontarget) / len(nontarget)
    loss /= -prior * math.log(prior) - (1 - prior) * math.log(1 - prior)
    assert metrics.cllr(target, nontarget, prior) == pytest.approx(loss, rel=1e-9, abs=1e-14)


def brute_hull_eer(target, nontarget):
    """EER of the lower convex hull: the largest, over all priors, of the least Bayes error.

    The hull's support in direction (q, 1 - q) is min over thresholds of q miss + (1 - q) fa;
    on the diagonal both rates are equal, so the hull meets it at the maximum over q.
    """
    points = np.array(brute_roc(target, nontarget))
    # The maximum over q of a minimum of lines is a small linear program: check every crossing.
    candidates = [0.0, 1.0]
    for i, (m1, f1) in enumerate(points):
        for m2, f2 in points[i + 1 :]:
            slope = (m1 - f1) - (m2 - f2)
            if slope != 0 and 0 <= (f2 - f1) / slope <= 1:
                candidates.append((f2 - f1) / slope)
    return max(min(q * m + (1 - q) * f for m, f in points) for q in candidates)


@settings(max_examples=60)
@given(
    st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=15),
    st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=15),
)
def test_eer_is_the_worst_case_bayes_error_of_the_hull(target, nontarget):
    assert metrics.eer(target, nontarget) == pytest.approx(
        brute_hull_eer(target, nontarget), abs=1e-12
    )


@given(SCORES, SCORES, PRIORS)
def test_minima_are_ordered_and_bounded(target, nontarget, prior):
    pav = metrics.min_cllr_pav(target, nontarget, prior)
    lin = metrics.min_cllr_lin(target, nontarget, prior)
    assert 0.0 <= pav <= 1.0 + 1e-12
    assert lin <= metrics.cllr(target, nontarget, prior) + 1e-9
    assert lin <= 1.0 + 1e-9
    # A falling affine map is not monotone rising, so PAV bounds only the rising ones.
    if metrics.auc(target, nontarget) > 0.5 and metrics.fit_affine(target, nontarget, prior)[0] > 0:
        assert pav <= lin + 1e-9


@given(SCORES, SCORES, PRIORS)
def test_order_metrics_ignore_any_rising_map(target, nontarget, prior):
    levels = np.unique([*target, *nontarget])
    moved = [np.searchsorted(levels, scores).astype(float) ** 3 for scores in (target, nontarget)]
    for name in ("min_cllr_pav", "min_dcf"):
        metric = getattr(metrics, name)
        assert metric(*moved, prior) == pytest.approx(metric(target, nontarget, prior), abs=1e-12)
    assert metrics.eer(*moved) == pytest.approx(metrics.eer(target, nontarget), abs=1e-12)
    assert metrics.auc(*moved) == pytest.approx(metrics.auc(target, nontarget), abs=1e-12)


def test_pav_minimum_is_reached_by_a_written_out_pool_adjacent_violators():
    rng = np.random.default_rng(3)
    target, nontarget = rng.normal(1, 1, 60), rng.normal(0, 1, 300)
    pools = [[1.0, 0.0] if label else [0.0, 1.0] for label in _labels(target, nontarget)]
    merged: list[list[float]] = []
    for pool in pools:
        merged.append(list(pool))
        while len(merged) > 1 and _share(merged[-2]) >= _share(merged[-1]):
            last = merged.pop()
            merged[-1] = [a + b for a, b in zip(merged[-1], last, strict=True)]
    for prior in (0.5, 0.01):
        loss = 0.0
        for n_target, n_nontarget in merged:
            odds = prior * n_target / 60, (1 - prior) * n_nontarget / 300
            q = odds[0] / sum(odds)
            loss -= prior * n_target / 60 * math.log(q) if n_target else 0.0
            loss -= (1 - prior) * n_nontarget / 300 * math.log1p(-q) if n_nontarget else 0.0
        loss /= -prior * math.log(prior) - (1 - prior) * math.log(1 - prior)
        assert metrics.min_cllr_pav(target, nontarget, prior) == pytest.approx(loss, rel=1e-10)


def _labels(target, nontarget):
    order = np.argsort(np.concatenate([target, nontarget]))
    return order < target.size


def _share(pool):
    return pool[0] / sum(pool)


def test_gaussian_scores_reach_their_closed_forms():
    # LLRs of N(+-d^2/2, d^2) are calibrated, with EER = AUC tail of the normal law.
    rng = np.random.default_rng(0)
    d = 3.0
    target = rng.normal(d * d / 2, d, 400_000)
    nontarget = rng.normal(-d * d / 2, d, 400_000)
    normal = lambda x: 0.5 * math.erfc(-x / math.sqrt(2))  # noqa: E731
    # Tolerances: four standard errors of the estimates with 400,000 trials.
    assert metrics.eer(target, nontarget) == pytest.approx(normal(-d / 2), abs=1.5e-3)
    assert metrics.auc(target, nontarget) == pytest.approx(normal(d / math.sqrt(2)), abs=1e-3)
    for prior in (0.5, 0.01):
        actual = metrics.cllr(target, nontarget, prior)
        assert actual == pytest.approx(metrics.min_cllr_lin(target, nontarget, prior), rel=2e-3)
        assert actual == pytest.approx(metrics.min_cllr_pav(target, nontarget, prior), rel=5e-3)


def test_a_gap_far_from_the_center_of_the_scores_is_used():
    """A threshold between 0.002 and 0.003 separates; the fit must not stop at 9e-5."""
    assert metrics.min_cllr_lin([0.002, -1.0, -1.0], [0.003], 0.1) < 1e-9


@given(SCORES, SCORES, st.randoms(use_true_random=False))
def test_whole_weights_equal_repeated_trials(target, nontarget, random):
    counts = [np.array([random.randint(0, 3) for _ in scores]) for scores in (target, nontarget)]
    for count in counts:
        count[0] += 1
    repeated = [np.repeat(s, c) for s, c in zip((target, nontarget), counts, strict=True)]
    weighted = Ranker.of(np.array(target), np.array(nontarget)).rank(
        *(count.astype(float) for count in counts)
    )
    assert weighted.auc() == pytest.approx(metrics.auc(*repeated), abs=1e-12)
    assert weighted.pool().equal_error_rate() == pytest.approx(metrics.eer(*repeated), abs=1e-12)
    assert metrics.ranked_min_dcf(weighted, 0.1) == pytest.approx(
        metrics.min_dcf(*repeated, 0.1), abs=1e-12
    )
    names = ("target_weights", "nontarget_weights")
    weights = dict(zip(names, counts, strict=True))
    for name in ("cllr", "dcf", "min_cllr_lin"):
        metric = getattr(metrics, name)
        assert metric(target, nontarget, 0.1, **weights) == pytest.approx(
            metric(*repeated, 0.1), rel=1e-6, abs=1e-9
        )


def test_infinite_scores_count_as_their_limit():
    rng = np.random.default_rng(1)
    target, nontarget = rng.normal(1, 1, 50), rng.normal(-1, 1, 80)
    right = np.append(target, np.inf), np.append(nontarget, -np.inf)
    large = np.append(target, 1e6), np.append(nontarget, -1e6)
    for name in ("cllr", "min_cllr_lin", "min_cllr_pav", "dcf", "min_dcf"):
        metric = getattr(metrics, name)
        assert metric(*right, 0.1) == pytest.approx(metric(*large, 0.1), rel=1e-9)
    wrong = np.append(target, -np.inf), np.append(nontarget, np.inf)
    assert metrics.cllr(*wrong, 0.1) == math.inf
    limit = metrics.min_cllr_lin(*wrong, 0.1)
    near = metrics.min_cllr_lin(np.append(target, -1e9), np.append(nontarget, 1e9), 0.1)
    assert limit == pytest.approx(near, rel=1e-6)
    assert metrics.eer(*wrong) == metrics.eer(np.append(target, -99), np.append(nontarget, 99))
    assert metrics.calibration_loss(math.inf, 0.5) == 1.0


def test_scores_that_are_all_infinite_still_have_metrics():
    target, nontarget = np.full(3, np.inf), np.full(4, -np.inf)
    assert metrics.eer(target, nontarget) == 0.0
    assert metrics.min_cllr_lin(target, nontarget, 0.01) == pytest.approx(0.0, abs=1e-12)
    assert metrics.min_cllr_lin(nontarget, target, 0.01) <= 1.0
    assert metrics.min_cllr_lin(target, np.zeros(4), 0.01) == pytest.approx(0.0, abs=1e-12)


def test_calibration_loss_is_the_share_above_the_minimum():
    assert metrics.calibration_loss(0.5, 0.4) == pytest.approx(0.2)
    assert metrics.calibration_loss(0.0, 0.0) == 0.0


@pytest.mark.parametrize(
    "call,words",
    [
        (lambda: metrics.eer([], [1.0]), "no target trials"),
        (lambda: metrics.cllr([1.0], [], 0.5), "no nontarget trials"),
        (lambda: metrics.auc([1.0, np.nan], [1.0]), "1 of 2 target scores are NaN"),
        (lambda: metrics.cllr([1.0], [0.0], 0.0), "prior of a target trial is 0"),
        (lambda: metrics.min_dcf([1.0], [0.0], 1.5), "prior of a target trial is 1.5"),
        (lambda: metrics.dcf([1.0], [0.0], math.nan), "prior of a target trial is nan"),
        (lambda: metrics.dcf([1.0], [0.0], 0.5, -1.0), "cost of a miss is -1"),
        (lambda: metrics.min_dcf([1.0], [0.0], 0.5, 1.0, 0.0), "cost of a false acceptance is 0"),
        (lambda: metrics.eer([1.0], [0.0], "magic"), "EER method 'magic' is unknown"),
        (lambda: metrics.cllr([1.0], [0.0], 0.5, target_weights=[1, 2]), "2 weights for 1"),
        (lambda: metrics.cllr([1.0], [0.0], 0.5, target_weights=[0]), "not all 0"),
    ],
)
def test_bad_input_is_one_clear_line(call, words):
    with pytest.raises(InputError) as caught:
        call()
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_memory_is_bounded_by_the_targets():
    rng = np.random.default_rng(0)
    ranking = rank(rng.normal(2, 1, 10), rng.normal(0, 1, 100_000))
    assert ranking.target.size == 21
    assert ranking.nontarget.sum() == 100_000
