"""From voiceprints in blocks to names: the best matches of a probe, and whether one is it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime import values
from dcaplda.runtime.bundle.manifest import SEARCH
from dcaplda.runtime.decision import check_costs, check_prior
from dcaplda.runtime.gallery.blocks import Block
from dcaplda.runtime.gallery.top_matches import place_lookup, search_blocks
from dcaplda.runtime.several import refuse_both

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend


Tile = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.float32]]
"""Probes (T, K) and rows (N, K) to LLRs (T, N)."""


class Match(NamedTuple):
    """A speaker that a search found."""

    speaker: str
    llr: float


class Matches(list[Match]):
    """Speakers that a search found, best first."""

    def __init__(
        self,
        matches: Sequence[Match] = (),
        exact: bool = True,
        missed: float = 0.0,
        proved: int | None = None,
    ) -> None:
        super().__init__(matches)
        self.exact = exact
        """Whether it is proved that nobody else belongs among them."""
        self.missed = missed
        """Where not: how many are expected to be left out, by what codes usually get wrong."""
        self.proved = len(self) if proved is None else proved
        """How many, from the first on, are proved to be the best, in this order."""


@dataclass(frozen=True)
class Ranking:
    """What one probe is most like, best first."""

    matches: list[Match]
    posterior: float | None
    """Probability that it is the first match, against all other speakers and nobody; None if
    no prior was given."""
    posterior_error: float = 0.0
    """How far off it may be, where not everybody was compared (index='codes')."""
    exact: bool = True
    """Whether nobody who was not compared can be among the matches."""
    missed: float = 0.0
    """How many who belong there are expected to have been left out, where that is not proved."""
    proved: int | None = None
    """How many of the matches, from the first on, are proved; None: all."""

    def as_matches(self) -> Matches:
        """Without the probability."""
        return Matches(self.matches, self.exact, self.missed, self.proved)


def rank(
    backend: "Backend",
    blocks: Sequence[Block],
    probes: NDArray[np.float32],
    top_k: int,
    prior: float | None = None,
) -> list[Ranking]:
    """The top_k speakers for each probe (n, K), exactly.

    With a `prior` that the probe is one of the speakers, shared equally among them, also the
    probability of the best one.
    """
    check_search(top_k, prior)
    tile = graph_tile(backend, len(probes))
    for block in blocks if backend.joint is not None else ():
        refuse_both(backend, block.rows[: block.used], probes)
    found = search_blocks(tile, blocks, probes, top_k, backend.threads, prior is not None)
    count = sum(len(block.numbers) for block in blocks)
    ids = place_lookup(blocks)
    rankings = []
    for number, (places, llrs) in enumerate(zip(found.places, found.llrs, strict=True)):
        matches = [Match(*pair) for pair in zip(ids(places), llrs.tolist(), strict=True)]
        probability = None
        if prior is not None:
            probability = 0.0
            if found.mean_likelihood_ratio is not None:
                mean = float(found.mean_likelihood_ratio[number])
                probability = best_posterior(matches[0].llr, mean, count, prior)
        rankings.append(Ranking(matches, probability))
    return rankings


def check_search(top_k: int, prior: float | None) -> None:
    """Raise unless these can be asked for."""
    values.whole(top_k, "top_k", 1)
    if prior is not None:
        check_prior(prior)


def graph_tile(backend: "Backend", n_probes: int) -> Tile:
    """LLRs of probes with rows of a gallery, by the graph that does it fastest."""
    if n_probes == 1 and SEARCH in backend.info.further_graphs:
        return backend.search_tile
    # A comparison prepares its enrolment side, which is cheap for the few probes and not for
    # the gallery; where the model does not tell the sides apart, they change places.
    symmetric = not backend.info.voiceprint_inputs
    return backend.tile if symmetric else lambda left, right: backend.tile(right, left).T


def best_posterior(llr: float, mean_likelihood_ratio: float, count: int, prior: float) -> float:
    """Bayes: each of N speakers weighs prior / N * exp(LLR), nobody weighs 1 - prior."""
    best = math.log(prior) - math.log(count) + llr
    everything = np.logaddexp(math.log(prior) + mean_likelihood_ratio, math.log1p(-prior))
    return min(math.exp(best - float(everything)), 1.0)


def needed_posterior(cost_miss: float, cost_fa: float) -> float:
    """From which probability on naming the best speaker costs less than naming nobody.

    Naming it costs cost_fa if it is somebody else, naming nobody costs cost_miss if it is it.
    """
    cost_miss, cost_fa = check_costs(cost_miss, cost_fa)
    return cost_fa / (cost_fa + cost_miss)
