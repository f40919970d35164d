"""What a joint model expects of new places, on LLRs whose calibration is known."""

import numpy as np
import pytest

from dcaplda.train.plda.form import PldaForm
from dcaplda.train.start.conditions import MOST_ASKED, expected_loss
from dcaplda.train.start.episodes import Episode

pytestmark = pytest.mark.torch


def constant(value: float) -> PldaForm:
    return PldaForm(np.zeros((3, 3)), np.zeros((3, 3)), np.zeros(3), value)


def episode(rng, heard: int, stretch: float) -> Episode:
    """Gaussian LLRs of mean +-2 and variance 4 are calibrated; times `stretch` they are not."""
    targets = np.repeat([True, False], 2000)
    llrs = np.where(targets, 2.0, -2.0) + 2.0 * rng.standard_normal(len(targets))
    none = np.zeros((len(targets), 3))
    return Episode(stretch * llrs, targets, none, none, 1.0, unseen=True, heard=heard)


def test_the_share_lost_is_that_of_the_stretch_and_none_without_it(rng) -> None:
    found = expected_loss(
        [episode(rng, 0, 4.0), episode(rng, 30, 1.0)], (constant(1.0), constant(0.0))
    )
    assert found is not None
    # Of calibrated LLRs Cllr is that of the best affine map, but for chance.
    assert found["after"] < 0.01
    assert found["before"] > 0.3


def test_the_calibration_is_applied_first(rng) -> None:
    stretched = [episode(rng, 0, 4.0), episode(rng, 30, 4.0)]
    found = expected_loss(stretched, (constant(0.25), constant(0.0)))
    assert found is not None and max(found.values()) < 0.01


def test_pools_of_a_few_utterances_count_for_neither_but_by_themselves(rng) -> None:
    pairs = [episode(rng, 0, 1.0), episode(rng, 5, 4.0)]
    forms = constant(1.0), constant(0.0)
    assert expected_loss(pairs, forms) is None
    found = expected_loss([*pairs, episode(rng, 30, 1.0)], forms)
    assert found is not None and max(found["before"], found["after"]) < 0.01
    assert found["few"] > 0.3
    without = expected_loss([pairs[0], episode(rng, 30, 1.0)], forms)
    assert without is not None and "few" not in without


def test_many_episodes_are_asked_at_even_distances(rng) -> None:
    """A stretch in every second one shows in about half, however many there are."""
    plain, stretched, heard = episode(rng, 0, 1.0), episode(rng, 0, 4.0), episode(rng, 30, 1.0)
    forms = constant(1.0), constant(0.0)
    alone = expected_loss([stretched, heard], forms)
    found = expected_loss([plain, stretched] * (MOST_ASKED + 1) + [heard], forms)
    assert alone is not None and found is not None
    assert found["before"] == pytest.approx(0.5 * alone["before"], rel=0.1)
