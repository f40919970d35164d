"""What trials of training's own places need beside the calibration of all places."""

import numpy as np

from dcaplda.runtime.joint.scorer import mostly_inside
from dcaplda.train.plda.covariances import Array
from dcaplda.train.plda.form import PldaForm
from dcaplda.train.start.calibration import fit_logistic
from dcaplda.train.start.conditions import form_values, trial_weights
from dcaplda.train.start.episodes import Episode

PULL = 0.01
"""Towards nothing: a place is some tens of people, and what they need is partly their own."""


def own_scores(
    episodes: list[Episode],
    same: tuple[PldaForm, PldaForm],
    across: tuple[PldaForm, PldaForm],
    count: int,
    prior: float,
) -> Array:
    """What a side from each of `count` places adds to its score, (count,).

    Found from people whom the scorer has not seen, where the place was recognized; trials between
    two places have the sum of both.
    """
    of_places = [episode for episode in episodes if max(episode.trained) >= 0]
    if not of_places:
        return np.zeros(count)
    found = [_llrs(episode, same if episode.one_place else across, count) for episode in of_places]
    targets = np.concatenate([episode.targets for episode in of_places])
    weights = np.concatenate([trial_weights(episode, prior) for episode in of_places])
    return fit_logistic(
        np.concatenate([by_place for _, by_place in found]),
        np.where(targets, -1.0, 1.0),
        weights / weights.sum(),
        prior,
        np.zeros(count),
        PULL,
        np.concatenate([llrs for llrs, _ in found]),
    )


def _llrs(episode: Episode, forms: tuple[PldaForm, PldaForm], count: int) -> tuple[Array, Array]:
    """LLRs (n,) without own scores, and what one of each place would change in them, (n, count)."""
    scale, shift = (form_values(form, episode.enroll, episode.test) for form in forms)
    by_place = np.zeros((len(scale), count))
    sides = zip(episode.trained, (episode.enroll, episode.test), episode.places, strict=True)
    for number, conditions, (_, known) in sides:
        if number >= 0:
            by_place[:, number] += scale * mostly_inside(conditions, known)
    return scale * episode.scores + shift, by_place
