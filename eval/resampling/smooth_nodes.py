"""Sums of a smooth function over many trials, from its values at a few nodes.

A sum over trials of f(s_i), weighted by w_i, has to be known for many f (each step of a fit) and
many weightings (each draw). Cut the score axis into panels and interpolate f in each by a
polynomial through p Chebyshev nodes x_k:

    sum_i w_i f(s_i)  =  sum_k v_k f(x_k),     v_k = sum_i w_i l_k(s_i)

with the Lagrange polynomials l_k. The node weights v_k are linear in w and do not depend on f.

How good that is: the loss f(s) = log(1 + exp(a s + b)) is analytic but for points where a s + b
is +-i pi, or farther from the real axis. On a panel of half-width h the error falls as rho^-p with
rho = pi/(a h) + sqrt((pi/(a h))^2 + 1): 5e-12 at a h = 1 and p = 14. Steeper fits are for somebody
else (`LIMIT`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dcaplda.eval.metrics.scores import Floats

N_NODES = 14
"""Nodes of a panel (p above)."""
LIMIT = 1.0
"""Largest slope times half-width (a h above) at which sums are taken for exact."""
USUAL = 0.5
"""Slope times half-width for which panels are made: most draws are less than twice as steep."""
MOST_TRIALS = 1024
"""Trials of a piece: its weights, times a hundred draws, fit the cache."""

_ANGLES = (2.0 * np.arange(N_NODES) + 1.0) * np.pi / (2.0 * N_NODES)
_CHEBYSHEV = np.cos(_ANGLES)
_BARYCENTRIC = np.where(np.arange(N_NODES) % 2, -1.0, 1.0) * np.sin(_ANGLES)


class Piece(NamedTuple):
    """Consecutive trials, and the consecutive nodes that stand for them."""

    trials: slice
    nodes: slice
    exact: bool
    """Whether the nodes are the trials' own scores."""


@dataclass(frozen=True)
class SmoothNodes:
    """The nodes of sorted scores, and the pieces that the trials are cut into.

    Infinite scores have no node: they are to lose nothing.
    """

    scores: Floats
    nodes: Floats
    pieces: list[Piece]
    half_width: float
    """Of the widest panel that is interpolated; 0: every node is a score, all sums are exact."""

    @classmethod
    def of(cls, scores: Floats, half_width: float) -> "SmoothNodes":
        """Cut into panels of at most this half-width; where scores are few they are the nodes."""
        nodes: list[Floats] = []
        pieces = []
        n_nodes, widest = 0, 0.0
        for panel in _panels(scores, half_width):
            found = np.unique(scores[panel])
            found = found[np.isfinite(found)]
            exact = found.size <= N_NODES
            if not exact:
                half = 0.5 * (found[-1] - found[0])
                widest = max(widest, float(half))
                found = 0.5 * (found[0] + found[-1]) + half * _CHEBYSHEV
            chosen = slice(n_nodes, n_nodes + found.size)
            for start in range(panel.start, panel.stop, MOST_TRIALS):
                trials = slice(start, min(start + MOST_TRIALS, panel.stop))
                pieces.append(Piece(trials, chosen, exact))
            nodes.append(found)
            n_nodes += found.size
        return cls(scores, np.concatenate(nodes), pieces, widest)

    def basis(self, piece: Piece) -> Floats:
        """(trials, nodes) of a piece: the Lagrange polynomials at the trials' scores."""
        scores, nodes = self.scores[piece.trials, None], self.nodes[None, piece.nodes]
        equal = scores == nodes
        if piece.exact:
            return equal.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = _BARYCENTRIC / (scores - nodes)
            found: Floats = terms / terms.sum(axis=1, keepdims=True)
        met = equal.any(axis=1)
        found[met] = equal[met]
        return found


def _panels(scores: Floats, half_width: float) -> Iterator[slice]:
    """Runs of sorted scores that lie in the same panel of a grid."""
    number = scores.copy()  # an infinite score is a panel of its own
    finite = np.isfinite(scores)
    number[finite] = np.floor(scores[finite] / (2.0 * half_width))
    edges = [0, *(np.flatnonzero(number[1:] != number[:-1]) + 1).tolist(), scores.size]
    for start, stop in zip(edges[:-1], edges[1:], strict=True):
        yield slice(start, stop)
