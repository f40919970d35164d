"""What is usual of a place's ease, so that calibration is told what differs from it."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from dcaplda.runtime.joint.layout import PLACE_AT
from dcaplda.runtime.joint.place import EASE_REACH
from dcaplda.train.plda.covariances import Array
from dcaplda.train.start.episodes import Episode, Known

EASE_AT, KNOWN_AT = PLACE_AT


def usual_ease(episodes: Iterable[Episode]) -> tuple[float, float]:
    """Mean ease of the places of which enough was heard, and how far others may lie from it."""
    found = [ease for e in episodes for ease, _ in e.places if ease != 0.0]
    return (float(np.mean(found)), EASE_REACH * float(np.std(found))) if found else (0.0, 0.0)


def told_ease(episode: Episode, usual: float, reach: float) -> Episode:
    """An episode whose conditions have the ease over the usual, in place of the ease itself."""
    enroll, test = (
        _told(conditions, place, usual, reach)
        for conditions, place in zip((episode.enroll, episode.test), episode.places, strict=True)
    )
    return replace(episode, enroll=enroll, test=test)


def _told(conditions: Array, place: Known, usual: float, reach: float) -> Array:
    ease, known = place
    if ease == 0.0:  # too little was heard to tell
        return conditions
    made = conditions.copy()
    # A side of several utterances is told the mean of those of the place and of the others, 0.
    made[:, EASE_AT] = np.clip(ease - usual, -reach, reach) * conditions[:, KNOWN_AT] / known
    return made
