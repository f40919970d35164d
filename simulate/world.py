"""A world of speakers and recordings whose every probability is known.

It follows the paper's section "Theoretical perspective on conditions". In latent coordinates,
whose axes nobody sees, an utterance i of recording r of speaker s is

    u_i = mean(g_s) + y_s + shift(eta_r) + e_r + n_i

    y_s ~ N(0, between)                 who speaks
    g_s   one of a few values           rough qualities: gender, mother tongue
    eta_r one of a few values           condition of the recording
    e_r ~ N(0, session(eta_r))          session noise, shared by all chunks of a recording
    n_i ~ N(0, chunk(eta_r) / seconds)  noise that falls with duration

All covariances are diagonal here, each condition with its own: its scale is their size, its
direction the axes on which they are large. The embedding is x_i = mixing u_i + origin, so for
anybody who does not know `mixing` the covariances are full and differ in direction. That the
axes are common to all conditions is what keeps the exact LLR computable (oracle.py).
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dcaplda.simulate.config import DomainSection, WorldConfig

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Streams of random numbers: a change in one kind of draw leaves the others as they were.
_PARAMETERS = 0


@dataclass(frozen=True)
class Domain:
    """What can happen in a domain, and how probably.

    K conditions: their probabilities, shifts (K, D), session variances (K, D) and chunk
    variances at one second (K, D). G qualities: their probabilities and means (G, D).
    """

    name: str
    condition_names: list[str]
    condition_weights: Array
    shifts: Array
    session: Array
    chunk: Array
    quality_names: list[str]
    quality_weights: Array
    quality_means: Array


@dataclass(frozen=True)
class World:
    """The space, the spread of speakers, and all domains."""

    mixing: Array
    origin: Array
    between: Array
    domains: dict[str, Domain]

    @property
    def dim(self) -> int:
        """Values of an embedding."""
        return len(self.origin)

    @cached_property
    def _unmixing(self) -> Array:
        inverse: Array = np.linalg.inv(self.mixing).astype(np.float64)
        return inverse

    def embeddings(self, latent: Array) -> Array:
        """x = mixing u + origin, row by row."""
        return latent @ self.mixing.T + self.origin

    def latent(self, embeddings: Array) -> Array:
        """The u behind each x."""
        return (np.asarray(embeddings, np.float64) - self.origin) @ self._unmixing.T


def build_world(config: WorldConfig, seed: int) -> World:
    """Draw the parameters of a world: the same for the same configuration and seed."""
    space = config.space
    dim = space.dim
    factors = {name: _stream(seed, f"factor:{name}") for name in config.factors}
    directions = {f"factor:{name}": rng.standard_normal(dim) for name, rng in factors.items()}
    for name, quality in config.qualities.items():
        titles = [f"quality:{name}:{value}" for value in quality.values]
        directions |= _directions(seed, f"quality:{name}", titles, dim, quality.rank)
    titles = [f"offset:{name}" for name in config.domains]
    directions |= _directions(seed, "offset", titles, dim, space.offset_rank)
    is_speaker = np.arange(dim) < space.speaker_axes
    between = np.zeros(dim)
    between[is_speaker] = np.geomspace(space.speaker_first, space.speaker_last, space.speaker_axes)
    log_scales: dict[str, Array] = {}
    for name, factor in config.factors.items():
        count = round(factor.axes * dim)
        chosen = factors[name].permutation(dim) < count
        log_scales[name] = factor.scale * chosen.astype(np.float64)
    domains = {
        name: _build_domain(config, name, section, directions, log_scales, is_speaker)
        for name, section in config.domains.items()
    }
    rng = np.random.default_rng([seed, _PARAMETERS])
    return World(_mixing(rng, dim), rng.standard_normal(dim), between, domains)


def _stream(seed: int, name: str) -> np.random.Generator:
    """Random numbers of one name: adding another domain or factor does not move them."""
    return np.random.default_rng([seed, _PARAMETERS, *name.encode()])


def _directions(seed: int, family: str, titles: list[str], dim: int, rank: int) -> dict[str, Array]:
    """A vector of about unit variance per axis for each title, all in a subspace of `rank`."""
    if rank == 0 or rank >= dim:
        return {title: _stream(seed, title).standard_normal(dim) for title in titles}
    basis = _stream(seed, f"basis:{family}").standard_normal((rank, dim)) / math.sqrt(rank)
    return {title: _stream(seed, title).standard_normal(rank) @ basis for title in titles}


def _mixing(rng: np.random.Generator, dim: int) -> Array:
    """A random matrix of condition number e: two rotations around a mild stretch."""
    left, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    right, _ = np.linalg.qr(rng.standard_normal((dim, dim)))
    return left @ np.diag(np.exp(np.linspace(-0.5, 0.5, dim))) @ right.T


def _build_domain(
    config: WorldConfig,
    name: str,
    section: DomainSection,
    directions: dict[str, Array],
    log_scales: dict[str, Array],
    is_speaker: NDArray[np.bool_],
) -> Domain:
    dim = config.space.dim
    base = section.offset * directions[f"offset:{name}"]
    shifts, session, chunk, labels = [], [], [], []
    for kind in section.conditions:
        values = {factor: value for factor, value in kind.items() if factor != "p"}
        shift, log_session, log_chunk = base.copy(), np.zeros(dim), 0.0
        for factor, value in values.items():
            shift += value * config.factors[factor].shift * directions[f"factor:{factor}"]
            log_session += value * log_scales[factor]
            log_chunk += value * config.factors[factor].chunk
        shifts.append(shift)
        session.append(np.exp(log_session))
        chunk.append(np.full(dim, config.space.chunk_seconds * math.exp(log_chunk)))
        labels.append(",".join(f"{f}={value:g}" for f, value in values.items()) or "plain")
    weights = np.array([kind["p"] for kind in section.conditions])
    quality_names, quality_weights, means = _qualities(config, section, directions, is_speaker)
    return Domain(
        name=name,
        condition_names=labels,
        condition_weights=weights / weights.sum(),
        shifts=np.stack(shifts),
        session=np.stack(session),
        chunk=np.stack(chunk),
        quality_names=quality_names,
        quality_weights=quality_weights,
        quality_means=means,
    )


def _qualities(
    config: WorldConfig,
    section: DomainSection,
    directions: dict[str, Array],
    is_speaker: NDArray[np.bool_],
) -> tuple[list[str], Array, Array]:
    """All combinations of qualities that the domain has: names, probabilities, means."""
    levels = []
    for quality, about in config.qualities.items():
        alike = dict.fromkeys(about.values, 1.0 / len(about.values))
        chances = section.qualities.get(quality, alike)
        levels.append([(quality, value, p) for value, p in chances.items() if p > 0])
    labels, weights, means = [], [], []
    for combination in itertools.product(*levels):
        mean = np.zeros(config.space.dim)
        for quality, value, _ in combination:
            size = config.qualities[quality].size
            mean += size * is_speaker * directions[f"quality:{quality}:{value}"]
        labels.append(",".join(value for _, value, _ in combination) or "any")
        weights.append(math.prod(p for _, _, p in combination))
        means.append(mean)
    return labels, np.array(weights) / sum(weights), np.stack(means)
