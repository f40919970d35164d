"""What is done to the vectors of a batch so that training meets more than its data show.

Each is off unless the recipe asks for it: a domain lies elsewhere (offset) or is stretched
(scale), an utterance is cut short (noise, and fewer seconds), side-information is missing.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.batches import Batch
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.picked import Vectors, mean_vector, row_chunks
from dcaplda.train.recipe.sections import BatchSection

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Disturbance:
    """Changes to the samples of one batch; None leaves that alone."""

    offsets: Float32 | None = None
    """Added to all vectors of each block, (blocks, D)."""
    scales: Float32 | None = None
    """Multiplies the distance of all vectors of a block from the centre, (blocks, D)."""
    noise: Float32 | None = None
    """Added to each vector, (n, D)."""
    seconds: Float32 | None = None
    """What is left of each utterance, (n,)."""
    side_kept: Float32 | None = None
    """1 where an utterance keeps its side-information, 0 where z is zero; (n,)."""


class Disturber:
    """Draws disturbances for batches of given data."""

    def __init__(self, data: TrainingData, section: BatchSection) -> None:
        self.section = section
        self.seconds = data.seconds.astype(np.float32)
        self.centre = mean_vector(data.embeddings).astype(np.float32)
        self.spread = _spread(data.embeddings, self.centre)
        self.within = _within_factor(data) if section.short_noise else None
        if section.short_noise and np.isnan(self.seconds).any():
            raise InputError("batch.short_noise needs the durations of all training utterances")

    @property
    def idle(self) -> bool:
        """Whether nothing is disturbed."""
        section = self.section
        asked = section.offset_noise, section.scale_noise, section.short_noise, section.side_dropout
        return not any(asked)

    def draw(self, batch: Batch, rng: np.random.Generator) -> Disturbance | None:
        """A disturbance for this batch."""
        if self.idle:
            return None
        section, found = self.section, Disturbance()
        shape = len(batch.blocks), len(self.centre)
        if section.offset_noise:
            noise = rng.standard_normal(shape, dtype=np.float32)
            found = replace(found, offsets=noise * np.float32(section.offset_noise) * self.spread)
        if section.scale_noise:
            noise = rng.standard_normal(shape, dtype=np.float32)
            found = replace(found, scales=np.exp(np.float32(section.scale_noise) * noise))
        if section.short_noise:
            found = replace(found, **self._cut(batch, rng))
        if section.side_dropout:
            kept = rng.random(len(batch.rows)) >= section.side_dropout
            found = replace(found, side_kept=kept.astype(np.float32))
        return found

    def _cut(self, batch: Batch, rng: np.random.Generator) -> dict[str, Float32]:
        """Every other utterance cut to a random length, down to the shortest of the data.

        The mean of frames of s seconds has a variance that falls as 1/s, so cutting s to t adds
        c (1/t - 1/s) of the within-speaker covariance, c being `short_noise`.
        """
        assert self.within is not None
        whole = self.seconds[batch.rows]
        least = np.minimum(self.seconds.min(), whole)
        drawn = least * (whole / least) ** rng.random(len(whole), dtype=np.float32)
        left = np.where(rng.random(len(whole)) < 0.5, drawn, whole).astype(np.float32)
        size = np.sqrt(np.float32(self.section.short_noise) * (1.0 / left - 1.0 / whole))
        white = rng.standard_normal((len(whole), len(self.centre)), dtype=np.float32)
        return {"noise": size[:, None] * (white @ self.within), "seconds": left}

    def apply(
        self, drawn: Disturbance, batch: Batch, embeddings: Tensor, seconds: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Vectors and seconds of the batch's rows, disturbed."""
        sizes = torch.tensor([block.size for block in batch.blocks])

        def per_row(values: Float32) -> Tensor:
            return torch.from_numpy(values).repeat_interleave(sizes, dim=0).to(embeddings)

        if drawn.noise is not None:
            embeddings = embeddings + torch.from_numpy(drawn.noise).to(embeddings)
        if drawn.scales is not None:
            centre = torch.from_numpy(self.centre).to(embeddings)
            embeddings = centre + (embeddings - centre) * per_row(drawn.scales)
        if drawn.offsets is not None:
            embeddings = embeddings + per_row(drawn.offsets)
        if drawn.seconds is not None:
            seconds = torch.from_numpy(drawn.seconds).to(seconds)
        return embeddings, seconds


def _spread(x: Vectors, centre: Float32) -> Float32:
    """Standard deviation of each value."""
    squares = np.zeros(x.shape[1])
    for rows in row_chunks(len(x)):
        squares += ((x[rows] - centre).astype(np.float64) ** 2).sum(axis=0)
    return np.sqrt(squares / len(x)).astype(np.float32)


def _within_factor(data: TrainingData) -> Float32:
    """F with F'F = the covariance of vectors around their speakers' means."""
    counts = np.bincount(data.speaker).astype(np.float64)
    x = data.embeddings
    sums = np.zeros((len(counts), x.shape[1]))
    for rows in row_chunks(len(x)):
        np.add.at(sums, data.speaker[rows], x[rows])
    means, covariance = sums / counts[:, None], np.zeros((x.shape[1], x.shape[1]))
    for rows in row_chunks(len(x)):
        rest = x[rows] - means[data.speaker[rows]]
        covariance += rest.T @ rest
    covariance /= max(len(x) - len(counts), 1)
    values, vectors = np.linalg.eigh(covariance)
    return (np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T).astype(np.float32)
