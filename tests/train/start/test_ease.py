"""Ease over the usual: what calibration is told of how hard a place is."""

import numpy as np
import pytest

from dcaplda.train.start.ease import EASE_AT, KNOWN_AT, told_ease, usual_ease
from dcaplda.train.start.episodes import Episode

pytestmark = pytest.mark.torch


def episode(*places: tuple[float, float], share: float = 1.0) -> Episode:
    """Conditions as episodes have them; `share` of each side's utterances sound of the place."""
    sides = []
    for ease, known in places:
        conditions = np.full((3, 6), 0.5)
        conditions[:, EASE_AT], conditions[:, KNOWN_AT] = share * ease, share * known
        sides.append(conditions)
    both = np.array([True, True, False])
    return Episode(np.zeros(3), both, sides[0], sides[1], 1.0, places=(places[0], places[1]))


def test_usual_is_the_mean_of_the_places_that_were_heard() -> None:
    heard = [episode((1.0, 0.3), (3.0, 0.5)), episode((0.0, 0.0), (8.0, 0.2))]
    usual, reach = usual_ease(heard)
    assert usual == pytest.approx(4.0)
    assert reach == pytest.approx(2.0 * np.std([1.0, 3.0, 8.0]))


def test_where_nothing_was_heard_nothing_is_usual() -> None:
    assert usual_ease([episode((0.0, 0.0), (0.0, 0.1))]) == (0.0, 0.0)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_sides_are_told_the_difference_by_their_share(share: float) -> None:
    found = told_ease(episode((5.0, 0.4), (-9.0, 0.8), share=share), 3.0, 4.0)
    np.testing.assert_allclose(found.enroll[:, EASE_AT], share * 2.0, atol=1e-12)
    np.testing.assert_allclose(found.test[:, EASE_AT], share * -4.0, atol=1e-12)  # its reach
    np.testing.assert_allclose(found.test[:, KNOWN_AT], share * 0.8)
    np.testing.assert_array_equal(found.enroll[:, :3], 0.5)


def test_of_a_place_that_was_hardly_heard_nothing_is_told() -> None:
    found = told_ease(episode((0.0, 0.0), (0.0, 0.2)), 3.0, 4.0)
    assert not found.enroll[:, EASE_AT].any() and not found.test[:, EASE_AT].any()
