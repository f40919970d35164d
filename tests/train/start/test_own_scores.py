"""Scores of training's own places: a logistic regression over the episodes that knew them."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dcaplda.train.plda.form import PldaForm
from dcaplda.train.start.episodes import Episode
from dcaplda.train.start.own_scores import PULL, own_scores

pytestmark = pytest.mark.torch
PRIOR, KNOWN, SHIFT = 0.1, 0.8, 1.5
CONDITIONS = 2


def constant(value: float) -> PldaForm:
    zeros = np.zeros((CONDITIONS, CONDITIONS))
    return PldaForm(zeros, zeros, np.zeros(CONDITIONS), value)


SAME = constant(0.5), constant(-1.0)
ACROSS = constant(0.7), constant(0.3)


def episode(
    rng: np.random.Generator, places: tuple[int, int], shift: float = 0.0, inside: float = KNOWN
) -> Episode:
    """Calibrated LLRs as raw scores that lack `shift`, turned round by SAME or ACROSS."""
    n = 400
    targets = np.arange(n) < n // 2
    llrs = rng.normal(np.where(targets, 2.0, -2.0), 2.0)
    scale, constant_shift = (f.offset for f in (SAME if places[0] == places[1] else ACROSS))
    told = np.zeros((n, CONDITIONS))
    told[:, -1] = inside
    return Episode(
        scores=(llrs - constant_shift) / scale - shift,
        targets=targets,
        enroll=told,
        test=told,
        weight=rng.uniform(0.5, 2.0),
        one_place=places[0] == places[1],
        places=((0.0, KNOWN), (0.0, KNOWN)),
        trained=places,
    )


@pytest.fixture
def drawn(rng) -> list[Episode]:
    pairs = [(0, 0), (2, 2), (0, 2), (-1, -1), (2, 0), (0, -1)]
    needs = {0: SHIFT, 2: -0.5, -1: 0.0}
    return [episode(rng, pair, needs[pair[0]] + needs[pair[1]]) for pair in pairs * 3]


def test_each_place_gets_what_its_trials_lack(drawn) -> None:
    found = own_scores(drawn, SAME, ACROSS, 4, PRIOR)
    # Of 6,000 trials, and pulled towards nothing.
    assert 0.6 * SHIFT < found[0] < SHIFT and -0.5 < found[2] < -0.25
    np.testing.assert_array_equal(found[[1, 3]], 0.0)  # nobody heard of them


def test_it_is_the_minimum_of_the_written_out_loss(drawn) -> None:
    """Against scipy's minimizer of the same function, 1e-4."""
    known = [e for e in drawn if max(e.trained) >= 0]
    rows = []
    for e in known:
        scale, shift = (f.offset for f in (SAME if e.one_place else ACROSS))
        for score, target in zip(e.scores, e.targets, strict=True):
            counts = [scale * (e.trained.count(k)) for k in range(3)]
            half = (PRIOR if target else 1 - PRIOR) / (len(e.scores) / 2)
            rows.append((scale * score + shift, 1 if target else -1, e.weight * half, *counts))
    llr, sign, weight, *counts = np.array(rows).T
    columns, weight = np.array(counts).T, weight / weight.sum()
    unit = np.sqrt(np.average(columns**2, axis=0, weights=weight))
    unit[unit == 0] = 1.0

    def loss(x: np.ndarray) -> float:
        z = llr + columns @ x + np.log(PRIOR / (1 - PRIOR))
        return weight @ np.logaddexp(0.0, -sign * z) + 0.5 * PULL * ((x * unit) ** 2).sum()

    expected = minimize(loss, np.zeros(3), options={"gtol": 1e-9}).x
    np.testing.assert_allclose(own_scores(drawn, SAME, ACROSS, 3, PRIOR), expected, atol=1e-4)


def test_utterances_that_do_not_sound_of_there_teach_nothing(rng) -> None:
    far = [episode(rng, (1, 1), 3.0, inside=0.0) for _ in range(3)]
    np.testing.assert_array_equal(own_scores(far, SAME, ACROSS, 2, PRIOR), 0.0)


def test_without_episodes_of_known_places_nothing_is_added(rng) -> None:
    strangers = [episode(rng, (-1, -1))]
    np.testing.assert_array_equal(own_scores(strangers, SAME, ACROSS, 3, PRIOR), np.zeros(3))
