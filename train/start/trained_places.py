"""What training knows of its own places, for pools that turn out to be of one of them."""

from dataclasses import replace

import numpy as np

from dcaplda.runtime.joint.place import SHIFT, TRUST
from dcaplda.runtime.joint.scorer import JointScorer
from dcaplda.runtime.joint.trained import TrainedPlaces
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.picked import row_chunks
from dcaplda.train.plda.covariances import Array


def trained_places(scorer: JointScorer, data: TrainingData) -> TrainedPlaces:
    """The posterior of every domain's offset from all of its utterances; people count the same."""
    found = [
        _place(scorer, data, np.flatnonzero(data.domain == domain))
        for domain in range(len(data.domain_names))
    ]
    shift, centre, mean, left = (np.stack(values) for values in zip(*found, strict=True))
    return TrainedPlaces(shift, centre, mean, left, own=np.zeros(len(found)))


def _place(
    scorer: JointScorer, data: TrainingData, rows: np.ndarray
) -> tuple[Array, Array, Array, Array]:
    _, person, counts = np.unique(data.identity[rows], return_inverse=True, return_counts=True)
    weights = 1.0 / (len(counts) * counts[person])
    evidence = TRUST / (scorer.between / len(counts) + 1.0 / len(rows))
    left = 1.0 / (1.0 / scorer.offset + evidence)
    gain = evidence * left
    mean = np.zeros(data.embeddings.shape[1])
    for chunk in row_chunks(len(rows)):
        mean += weights[chunk] @ np.asarray(data.embeddings[rows[chunk]], np.float64)
    shift = SHIFT * float(np.mean(gain)) * (mean - scorer.embedding_mean)
    moved = replace(scorer, bias=scorer.bias - scorer.weight @ shift)
    centres = []
    for one in (moved, scorer):
        x = np.zeros(len(gain))
        for chunk in row_chunks(len(rows)):
            x += weights[chunk] @ one.centred(data.embeddings[rows[chunk]])
        centres.append(gain * x)
    return shift, centres[0], centres[1], left
