"""What the draws make of one class of trials: weights by run, by node and of fixed values.

The weight of a trial is the product of its speakers' counts. A piece of the trials is weighted for
all draws and summed up while it is in the cache.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dcaplda.eval.metrics.scores import Floats
from dcaplda.eval.resampling.smooth_nodes import Piece, SmoothNodes
from dcaplda.eval.resampling.trial_runs import Places

MOST_KEPT = 500_000
"""Trials up to which what pieces are multiplied with is kept between batches of draws."""


class Sums(NamedTuple):
    """Of each draw (first axis): weight in each run that the class has, at each node, in all, and
    the weighted sums of the fixed values."""

    runs: Floats
    nodes: Floats
    fixed: Floats
    total: Floats


@dataclass(frozen=True)
class ClassSums:
    """One class of trials, sorted by score."""

    speakers: list[Places]
    """Speaker numbers of each trial: one array for targets, two for nontargets."""
    smooth: SmoothNodes
    fixed: Floats
    """(trials, values) whose weighted sums are wanted, such as losses at fixed LLRs."""
    runs: Places
    """Run of each trial among those that the class has, from 0."""

    def of(self, drawn: Floats) -> Sums:
        """The sums for counts (speakers, draws)."""
        n_draws = drawn.shape[1]
        in_runs = np.zeros((int(self.runs[-1]) + 1, n_draws))
        nodes = np.zeros((n_draws, self.smooth.nodes.size))
        fixed = np.zeros((n_draws, self.fixed.shape[1]))
        kept = self._kept
        for number, piece in enumerate(self.smooth.pieces):
            weights = np.take(drawn, self.speakers[0][piece.trials], axis=0)
            for side in self.speakers[1:]:
                weights *= np.take(drawn, side[piece.trials], axis=0)
            factors, membership = kept[number] if kept else self._factors(piece)
            sums = weights.T @ factors
            n_nodes = piece.nodes.stop - piece.nodes.start
            nodes[:, piece.nodes] += sums[:, :n_nodes]
            fixed += sums[:, n_nodes:]
            runs = slice(self.runs[piece.trials.start], self.runs[piece.trials.stop - 1] + 1)
            in_runs[runs] += membership @ weights
        return Sums(in_runs.T, nodes, fixed, in_runs.sum(axis=0))

    @cached_property
    def _kept(self) -> list[tuple[Floats, Any]]:
        if self.runs.size > MOST_KEPT:
            return []
        return [self._factors(piece) for piece in self.smooth.pieces]

    def _factors(self, piece: Piece) -> tuple[Floats, Any]:
        """What a piece's weights are multiplied with: values at nodes and fixed ones; its runs."""
        from scipy.sparse import csr_array

        factors = np.hstack([self.smooth.basis(piece), self.fixed[piece.trials]])
        runs = self.runs[piece.trials]
        first, last = int(runs[0]), int(runs[-1])
        edges = np.searchsorted(runs, np.arange(first, last + 2))
        shape = (last + 1 - first, runs.size)
        return factors, csr_array((np.ones(runs.size), np.arange(runs.size), edges), shape=shape)
