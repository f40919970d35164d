"""Which values of a voiceprint are always 1.

Every model puts a 1 beside each part of a voiceprint; a comparison of many takes it for granted
that it is multiplied by ones, one of pairs leaves them out. So rows without these ones, which
somebody scaled, added up or took from elsewhere, would have two LLRs.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.bundle.manifest import ModelInfo

# Utterances that have nothing in common, to see what is the same in all voiceprints.
_UTTERANCES = 3


def find_ones(
    info: ModelInfo, run: Callable[[Mapping[str, NDArray[Any]]], NDArray[np.float32]]
) -> NDArray[np.int64]:
    """Columns that are 1 whatever goes in; `run` makes voiceprints of a graph's inputs."""
    # Not from numpy.random, which takes longer to import than all of this.
    angles = np.arange(1, _UTTERANCES * info.embedding_dim + 1, dtype=np.float64) ** 2
    embeddings = np.sin(angles).astype(np.float32).reshape(_UTTERANCES, info.embedding_dim)
    numbers = np.arange(2, 2 + _UTTERANCES, dtype=np.float32)
    inputs = {"embeddings": embeddings, "durations": numbers}
    made = run({**inputs, **{name: numbers for name in info.voiceprint_inputs}})
    return np.flatnonzero((made == 1.0).all(axis=0))
