"""Speakers of many recordings: clusters of each, linked where they are of one person."""

from collections.abc import Sequence

import numpy as np

from dcaplda.runtime.backend import Backend
from dcaplda.runtime.clustering.linkage import Labels, average_link, by_the_book
from dcaplda.runtime.clustering.recording import Float32


def linked(backend: Backend, voiceprints: Float32, speakers: Labels, threshold: float) -> Labels:
    """The person of each speaker; `speakers` numbers the speaker of each utterance (n, K) from 0.

    Recordings are different places, so utterances are compared as the bundle itself has them. Of a
    joint model all utterances of a speaker are taken together, of others the mean LLR of the pairs.
    """
    count = int(speakers.max()) + 1
    if backend.joint is not None:
        joint = backend.joint
        sides = joint.merged(joint.sides(voiceprints), speakers, count)
        return by_the_book(joint, sides, threshold)
    return average_link(_mean_llrs(backend, voiceprints, speakers, count), threshold)


def _mean_llrs(backend: Backend, voiceprints: Float32, speakers: Labels, count: int) -> Float32:
    """Mean LLR of the utterances of every two speakers; (count, count)."""
    sizes = np.bincount(speakers, minlength=count)
    sums = np.zeros((count, count))
    for rows, columns, block in backend.compare_blocks(voiceprints, voiceprints):
        np.add.at(sums, (speakers[rows][:, None], speakers[columns][None, :]), block)
    means: Float32 = (sums / np.outer(sizes, sizes)).astype(np.float32)
    return means


def joined_labels(of_recordings: Sequence[Labels]) -> Labels:
    """Speakers of recordings one after the other, numbered through."""
    start, found = 0, []
    for labels in of_recordings:
        found.append(labels + start)
        start += int(labels.max()) + 1
    return np.concatenate(found)
