"""The planner against the plain matrix: every list, any shape, any part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dcaplda.runtime.trials import planner, tiles
from dcaplda.runtime.trials.planner import Scorers, TrialList, score_trials


def toy_tile(enroll: np.ndarray, test: np.ndarray) -> np.ndarray:
    """A comparison whose result names both rows exactly: 1000 e + t."""
    return (1000 * enroll[:, :1] + test[:, 0]).astype(np.float32)


def toy_pairs(enroll: np.ndarray, test: np.ndarray) -> np.ndarray:
    return (1000 * enroll[:, 0] + test[:, 0]).astype(np.float32)


TOY = Scorers(tile=toy_tile, pairs=toy_pairs)


def numbered(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.float32)[:, None]


@st.composite
def lists(draw) -> tuple[TrialList, int]:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=40))
    if draw(st.booleans()):
        sizes = [1] * len(sizes)
    n_test = draw(st.integers(1, 60))
    n_trials = draw(st.integers(0, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    models = rng.integers(0, len(sizes), n_trials)
    if draw(st.booleans()):
        models.sort()
    return TrialList(models, rng.integers(0, n_test, n_trials), np.cumsum([0, *sizes])), n_test


@given(lists(), st.integers(1, 3), st.data())
@settings(max_examples=200, deadline=None)
def test_any_list_equals_the_full_matrix(case, threads, data) -> None:
    """Tiny tiles and every balance of dense and sparse, so that all edges are met."""
    trials, n_test = case
    enroll, test = numbered(int(trials.offsets[-1])), numbered(n_test)
    matrix = toy_tile(enroll, test)
    starts, sizes = trials.offsets[:-1], np.diff(trials.offsets)
    means = np.add.reduceat(matrix.astype(np.float64), starts, axis=0) / sizes[:, None]
    expected = means[trials.models, trials.tests]
    count = len(expected)
    begin = data.draw(st.integers(0, count))
    end = data.draw(st.integers(begin, count))
    with pytest.MonkeyPatch.context() as patch:
        for module in (planner, tiles):
            patch.setattr(module, "ROWS", 4)
            patch.setattr(module, "COLUMNS", 8)
        patch.setattr(planner, "STRIP_COLUMNS", 16)
        patch.setattr(planner, "PAIRS_AT_ONCE", 7)
        patch.setattr(planner, "PAIR_COST", data.draw(st.sampled_from([0, 1, 3, 10**9])))
        found = score_trials(TOY, enroll, test, trials, (begin, end), threads)
    np.testing.assert_allclose(found, expected[begin:end], rtol=1e-6)


def test_progress_reaches_the_total() -> None:
    trials = TrialList(np.arange(2000) % 1000, np.arange(2000) % 7, np.arange(1001))
    seen = []
    score_trials(
        TOY, numbered(1000), numbered(7), trials, (0, 2000), 2, lambda d, n: seen.append((d, n))
    )
    assert seen[-1] == (2000, 2000)
    assert seen == sorted(seen)


@pytest.mark.torch
@pytest.mark.parametrize("density", [0.001, 0.02, 0.3])
def test_parts_equal_the_whole_bit_for_bit(small_bundle, density: float) -> None:
    from random_models import DIM

    from dcaplda.export.parity import random_side
    from dcaplda.runtime import Backend

    backend = Backend.load(small_bundle, threads=2)
    enroll = backend.voiceprints(*random_side(DIM, 1300, 1))
    test = backend.voiceprints(*random_side(DIM, 1200, 2))
    rng = np.random.default_rng(0)
    count = int(density * 1300 * 1200)
    first, second = rng.integers(0, 1300, count), rng.integers(0, 1200, count)
    whole = backend.score_trials(enroll, test, first, second)
    np.testing.assert_allclose(whole, backend.compare(enroll, test)[first, second], atol=5e-5)
    edges = np.linspace(0, count, 8).astype(int)
    pairs = zip(edges[:-1], edges[1:], strict=True)
    parts = [backend.score_trials(enroll, test, first, second, part=(a, b)) for a, b in pairs]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    single = Backend.load(small_bundle, threads=1)
    np.testing.assert_array_equal(single.score_trials(enroll, test, first, second), whole)
