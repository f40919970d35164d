"""Newton's method for the two parameters of linear logistic regression, on millions of trials."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dcaplda.eval.metrics.scores import Floats, dot

# Scores pass through the cache in pieces of this many, so that memory stays at the input's size.
CHUNK = 1 << 13
MAX_STEPS = 100
MAX_HALVINGS = 50
# Scores farther out than this many spreads are pulled in: their squares must stay finite, and
# one so far on the right side costs nothing while one on the wrong side already rules alpha.
LARGEST_REACH = 1e50


def pieces(scores: Floats, weights: Floats | None) -> Iterator[tuple[Floats, Floats | None]]:
    """Cut scores, and weights if there are any, into pieces that fit the cache."""
    for start in range(0, scores.size, CHUNK):
        piece = slice(start, start + CHUNK)
        yield scores[piece], None if weights is None else weights[piece]


@dataclass(frozen=True)
class ScoreClass:
    """One class of the regression: finite scores and their weights."""

    scores: Floats
    weights: Floats | None
    unit: float
    """Factor of every trial's weight, so that a whole class weighs its prior."""
    sign: float
    """-1 for targets, whose loss falls as the logit grows; +1 for nontargets."""

    @property
    def mass(self) -> float:
        """Weight of the whole class in the loss."""
        total = self.scores.size if self.weights is None else float(self.weights.sum())
        return self.unit * total

    def reduced(self, most: int, low: float, high: float) -> "ScoreClass":
        """About `most` of the trials, clipped to [low, high], with the weight of all."""
        step = max(1, self.scores.size // most)
        weights = None if self.weights is None else self.weights[::step]
        thin = ScoreClass(self.scores[::step].clip(low, high), weights, self.unit, self.sign)
        unit = self.unit * self.mass / thin.mass if thin.mass > 0.0 else 0.0
        return replace(thin, unit=unit)


class Frame(NamedTuple):
    """Center and spread of the scores, for well-conditioned sums; spread 0: all are equal."""

    center: float
    spread: float


def frame_of(classes: list[ScoreClass]) -> tuple[Frame, float]:
    """Median and half the quartile distance of a sample; the farthest score in such units."""
    sample = np.concatenate([cls.scores[:: max(1, cls.scores.size // 20_000)] for cls in classes])
    low, center, high = (float(x) for x in np.quantile(sample, [0.25, 0.5, 0.75]))
    lowest = min(float(cls.scores.min()) for cls in classes)
    highest = max(float(cls.scores.max()) for cls in classes)
    # Halves first: the difference of two huge scores must not overflow.
    spread = high / 2 - low / 2 if high > low else highest / 2 - lowest / 2
    reach = max(highest - center, center - lowest) / spread if spread > 0.0 else 0.0
    return Frame(center, spread), reach


class Moments(NamedTuple):
    """Loss, gradient and Hessian of the cross-entropy in (slope, intercept)."""

    loss: float
    gradient: Floats
    hessian: Floats


def moments(classes: list[ScoreClass], slope: float, intercept: float, frame: Frame) -> Moments:
    """Sums over all trials at logit = slope * (score - center) / spread + intercept."""
    loss = g0 = g1 = h0 = h1 = h2 = 0.0
    for cls in classes:
        for scores, weights in pieces(cls.scores, cls.weights):
            unit = (scores - frame.center) / frame.spread
            logit = (slope * unit + intercept) * cls.sign  # a trial loses log(1 + exp(logit))
            small = np.exp(-np.abs(logit))
            tail = small / (1.0 + small)
            error = np.where(logit >= 0, 1.0 - tail, tail)
            bend = tail / (1.0 + small)
            value = np.maximum(logit, 0.0) + np.log1p(small)
            if weights is not None:
                error, bend, value = error * weights, bend * weights, value * weights
            loss += cls.unit * float(value.sum())
            g0 += cls.unit * cls.sign * float(error.sum())
            g1 += cls.unit * cls.sign * dot(error, unit)
            bent = bend * unit
            h0 += cls.unit * float(bend.sum())
            h1 += cls.unit * float(bent.sum())
            h2 += cls.unit * dot(bent, unit)
    return Moments(loss, np.array([g1, g0]), np.array([[h2, h1], [h1, h0]]))


class Solution(NamedTuple):
    """Where Newton's method stopped, in the frame's units."""

    slope: float
    intercept: float
    loss: float


def newton(
    classes: list[ScoreClass], start: tuple[float, float], frame: Frame, tolerance: float
) -> Solution:
    """Damped Newton steps until the next would gain less than `tolerance`.

    The loss is convex, so a step that is short enough always lowers it. Where a threshold
    separates the classes the loss falls by a factor e per step and the tolerance ends it.
    """
    point = np.array(start)
    moved = 0.0
    here = moments(classes, float(point[0]), float(point[1]), frame)
    for _ in range(MAX_STEPS):
        if not np.linalg.det(here.hessian) > 0.0:
            # Rounding: what still counts lies in a spot far from the center. Look from there, once.
            spot = here.hessian[0, 1] / here.hessian[1, 1] if here.hessian[1, 1] > 0.0 else 0.0
            if moved or not spot:
                break  # flat to machine precision
            moved = float(spot)
            frame = frame._replace(center=frame.center + moved * frame.spread)
            point[1] += moved * point[0]
            here = moments(classes, float(point[0]), float(point[1]), frame)
            continue
        step = np.linalg.solve(here.hessian, here.gradient)
        if float(here.gradient @ step) < tolerance:
            break
        for _ in range(MAX_HALVINGS):
            trial = point - step
            there = moments(classes, float(trial[0]), float(trial[1]), frame)
            if there.loss <= here.loss - 1e-4 * float(here.gradient @ step):
                break
            step = step / 2.0
        else:
            break  # rounding hides any further progress
        point, here = trial, there
    return Solution(float(point[0]), float(point[1] - moved * point[0]), here.loss)


def _window(frame: Frame, reach: float) -> tuple[float, float]:
    return frame.center - reach * frame.spread, frame.center + reach * frame.spread


def solve(
    classes: list[ScoreClass],
    frame: Frame,
    reach: float,
    starts: list[tuple[float, float]],
    tolerance: float,
) -> Solution:
    """The best solution from all `starts`, and from a rough one where that pays.

    Many trials: a thousandth of them brings the start within a step or two of the end.
    Far outliers: they rule the curvature at slope 0, and clipping them shows the way out.
    """
    if reach > LARGEST_REACH:
        low, high = _window(frame, LARGEST_REACH)
        classes = [replace(cls, scores=cls.scores.clip(low, high)) for cls in classes]
    n_trials = sum(cls.scores.size for cls in classes)
    if n_trials > 400_000 or reach > 1e3:
        rough = [cls.reduced(50_000, *_window(frame, 100.0)) for cls in classes]
        if all(cls.mass > 0.0 for cls in rough):
            found = newton(rough, starts[0], frame, 1e6 * tolerance)
            near = (found.slope, found.intercept)
            starts = [near] if reach <= 1e3 else [near, *starts]
    solutions = [newton(classes, start, frame, tolerance) for start in starts]
    return min(solutions, key=lambda solution: solution.loss)
