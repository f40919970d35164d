"""Linear logistic regression for many weightings of the same nodes: `fit_affine` in bulk."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.metrics.logistic import Frame
from dcaplda.eval.metrics.scores import Floats, softplus

MAX_STEPS = 25
BLOCK = 1 << 16
"""Draws times nodes that are worked on at a time, so that they fit the cache."""


class Fits(NamedTuple):
    """Slope in the scores' own unit and loss of each draw, and whether the fit came to its end."""

    slope: Floats
    loss: Floats
    done: NDArray[np.bool_]


@dataclass(frozen=True)
class NodeRegression:
    """The nodes of both classes: logit = slope * unit + intercept, a target's sign being -1."""

    frame: Frame
    units: Floats
    signs: Floats

    @classmethod
    def of(cls, target: Floats, nontarget: Floats, frame: Frame) -> "NodeRegression":
        """From the nodes of the targets and of the nontargets."""
        nodes = np.concatenate([target, nontarget])
        signs = np.repeat([-1.0, 1.0], [target.size, nontarget.size])
        return cls(frame, (nodes - frame.center) / frame.spread, signs)

    def fit(self, weights: Floats, start: tuple[float, float], tolerance: float) -> Fits:
        """The best map for each row of weights (draws, nodes), by Newton's method from one start.

        `start` is (slope, intercept) in the frame. No damping: the start is the fit of all
        trials, and a draw is near. Where it was not, `done` says so.
        """
        rows = max(1, BLOCK // self.units.size)
        found = [
            self._fit(weights[first : first + rows], start, tolerance)
            for first in range(0, weights.shape[0], rows)
        ]
        return Fits(*(np.concatenate(parts) for parts in zip(*found, strict=True)))

    def _fit(self, weights: Floats, start: tuple[float, float], tolerance: float) -> Fits:
        n_rows = weights.shape[0]
        slope, intercept = np.full(n_rows, start[0]), np.full(n_rows, start[1])
        done = np.zeros(n_rows, bool)
        active = np.arange(n_rows)
        chosen = weights
        for _ in range(MAX_STEPS):
            step, gain = self._step(chosen, slope[active], intercept[active])
            # Not a number, or negative: the Hessian was none; such a draw stays where it is.
            good = gain >= 0.0
            ends = good & (gain < tolerance)
            done[active[ends]] = True
            goes = good & ~ends
            active, step = active[goes], step[:, goes]
            if not active.size:
                break
            chosen = chosen if goes.all() else chosen[goes]
            slope[active] -= step[0]
            intercept[active] -= step[1]
        return Fits(slope / self.frame.spread, self._loss(weights, slope, intercept), done)

    def _logits(self, slope: Floats, intercept: Floats) -> Floats:
        logits = np.multiply.outer(slope, self.units)
        logits += intercept[:, None]
        logits *= self.signs
        return logits

    def _step(self, weights: Floats, slope: Floats, intercept: Floats) -> tuple[Floats, Floats]:
        """Newton's step (2, draws) and what it would gain, twice."""
        logits = self._logits(slope, intercept)
        with np.errstate(over="ignore"):
            np.exp(np.negative(logits, out=logits), out=logits)
            logits += 1.0
            error = np.reciprocal(logits, out=logits)  # a trial loses log(1 + exp(logit))
        bend = error - error * error
        bend *= weights
        error *= weights
        error *= self.signs
        g1, g0 = error @ self.units, error.sum(axis=1)
        bent = bend * self.units
        h0, h1, h2 = bend.sum(axis=1), bent.sum(axis=1), bent @ self.units
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            determinant = h2 * h0 - h1 * h1
            determinant = np.where(determinant > 0.0, determinant, np.nan)
            step = np.stack([h0 * g1 - h1 * g0, h2 * g0 - h1 * g1]) / determinant
            return step, step[0] * g1 + step[1] * g0

    def _loss(self, weights: Floats, slope: Floats, intercept: Floats) -> Floats:
        lost = softplus(self._logits(slope, intercept))
        found: Floats = np.einsum("rk,rk->r", weights, lost)
        return found
