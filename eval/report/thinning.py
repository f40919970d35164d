"""Curves as a screen can show them: no point that moves a line by less than half a pixel.

Points are in units of a chart, UNITS along each axis (eval/report/chart.py).
"""

import numpy as np
from numpy.typing import NDArray

from dcaplda.eval.metrics.scores import Floats

UNITS = 2000
"""Length of an axis in whole numbers: a fifth of a pixel on a chart of 400 pixels."""
HALF_PIXEL = 2.5
"""Half a pixel of a chart of 400 pixels, in units."""
MOST_POINTS = 200


def thinned(points: Floats) -> Floats:
    """The fewest of `points` (n, 2) whose polyline stays within half a pixel of all of them.

    Ramer's and Douglas and Peucker's way: keep the point that is farthest from the line between
    the ends, then look at both halves. Where more than MOST_POINTS stay, the tolerance doubles.
    """
    tolerance = HALF_PIXEL
    while True:
        kept = points[_needed(points, tolerance)]
        if len(kept) <= MOST_POINTS:
            return kept
        tolerance *= 2.0


def _needed(points: Floats, tolerance: float) -> NDArray[np.int64]:
    """Numbers of the points to keep; all stretches are halved at a time, which is quick."""
    kept = np.array([0, len(points) - 1])
    while True:
        lengths = np.diff(kept)
        starts, ends = np.repeat(kept[:-1], lengths), np.repeat(kept[1:], lengths)
        distances = _distances(points[:-1], points[starts], points[ends])
        farthest = np.repeat(np.maximum.reduceat(distances, kept[:-1]), lengths)
        candidates = np.flatnonzero((distances == farthest) & (distances > tolerance))
        if not candidates.size:
            return kept
        # Of several that are as far in one stretch the first is kept.
        _, first = np.unique(starts[candidates], return_index=True)
        kept = np.sort(np.concatenate([kept, candidates[first]]))


def _distances(points: Floats, starts: Floats, ends: Floats) -> Floats:
    """Distance of each point (n, 2) from the stretch between its start and its end."""
    (way_x, way_y), (x, y) = (ends - starts).T, (points - starts).T
    length = way_x * way_x + way_y * way_y
    with np.errstate(invalid="ignore", divide="ignore"):
        along = np.clip((x * way_x + y * way_y) / length, 0.0, 1.0)
    along[length == 0.0] = 0.0
    distances: Floats = np.hypot(x - along * way_x, y - along * way_y)
    return distances


def path(points: Floats) -> str:
    """Points as the `d` of an SVG path in whole units, each relative to the one before.

    Where a minus sign parts two numbers no blank does.
    """
    whole = np.rint(points).astype(np.int64)
    steps = np.diff(whole, axis=0)
    steps = steps[np.any(steps != 0, axis=1)]
    text = f"M{_joined(whole[:1])}"
    return f"{text}l{_joined(steps)}" if len(steps) else f"{text}h0"


def _joined(points: np.ndarray) -> str:
    return " ".join(str(number) for number in points.ravel().tolist()).replace(" -", "-")
