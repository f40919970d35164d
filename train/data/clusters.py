"""Groups of vectors that lie together: k-means with a number of groups that the vectors decide."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

MOST = 20
"""Groups that are looked for."""
PEOPLE_EACH = 20
"""Vectors per group, on average, below which more groups are not tried."""
LEAST_GAIN = 0.04
"""How much further apart, in silhouette, groups must lie than those found in a normal cloud of the
same shape, which has none."""
CLOUDS = 2
STARTS, ITERATIONS = 3, 30
DIMENSIONS = 20
MOST_ASKED = 2000


def clusters(vectors: Array, least: int) -> Labels:
    """Group of each vector, groups of fewer than `least` joined to their nearest; one if none lie
    apart. Equal vectors give equal groups.
    """
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    x = centred @ axes[:DIMENSIONS].T
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal(x.shape) * x.std(axis=0) for _ in range(CLOUDS)]
    best, label = 0.0, np.zeros(len(x), dtype=np.int64)
    for count in range(2, min(MOST, len(x) // PEOPLE_EACH) + 1):
        found = _join_small(x, _k_means(x, count), least)
        if found.max() == 0:
            continue
        by_chance = max(silhouette(cloud, _k_means(cloud, count)) for cloud in clouds)
        value = silhouette(x, found)
        if value > max(best, by_chance + LEAST_GAIN):
            best, label = value, found
    return label


def _k_means(x: Array, count: int) -> Labels:
    best, chosen = np.inf, np.zeros(len(x), dtype=np.int64)
    for start in range(STARTS):
        rng = np.random.default_rng(start)
        centres = _spread_start(x, count, rng)
        for _ in range(ITERATIONS):
            label = _distances(x, centres).argmin(axis=1)
            counts = np.bincount(label, minlength=count)
            sums = np.zeros_like(centres)
            np.add.at(sums, label, x)
            moved = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centres)
            if np.allclose(moved, centres):
                break
            centres = moved
        cost = float(_distances(x, centres).min(axis=1).sum())
        if cost < best:
            best, chosen = cost, label
    return np.unique(chosen, return_inverse=True)[1].astype(np.int64)


def _spread_start(x: Array, count: int, rng: np.random.Generator) -> Array:
    """Centres far from each other (k-means++)."""
    centres = [x[rng.integers(len(x))]]
    for _ in range(count - 1):
        distance = _distances(x, np.array(centres)).min(axis=1)
        total = distance.sum()
        share = distance / total if total > 0 else np.full(len(x), 1.0 / len(x))
        centres.append(x[rng.choice(len(x), p=share)])
    return np.array(centres)


def _distances(x: Array, centres: Array) -> Array:
    """Squared distance of each vector from each centre."""
    squares = (x**2).sum(axis=1)[:, None] - 2.0 * x @ centres.T + (centres**2).sum(axis=1)
    return np.maximum(squares, 0.0)


def _join_small(x: Array, label: Labels, least: int) -> Labels:
    while True:
        counts = np.bincount(label)
        smallest = int(counts.argmin())
        if counts[smallest] >= least or len(counts) == 1:
            return label
        centres = np.stack([x[label == k].mean(axis=0) for k in range(len(counts))])
        distance = _distances(centres[smallest][None], centres)[0]
        distance[smallest] = np.inf
        label = np.where(label == smallest, int(distance.argmin()), label)
        label = np.unique(label, return_inverse=True)[1].astype(np.int64)


def silhouette(x: Array, label: Labels) -> float:
    """Mean over vectors of (b - a) / max(a, b): a the mean distance to the others of its group, b
    the least mean distance to another group; near 1 where groups lie apart, 0 where they touch.
    """
    if len(x) > MOST_ASKED:
        chosen = np.random.default_rng(0).choice(len(x), MOST_ASKED, replace=False)
        x, label = x[chosen], np.unique(label[chosen], return_inverse=True)[1].astype(np.int64)
    count = int(label.max()) + 1
    distance = np.sqrt(_distances(x, x))
    sizes = np.bincount(label, minlength=count)
    member = np.eye(count)[label]
    sums = distance @ member
    own = sizes[label]
    rows = np.arange(len(x))
    a = sums[rows, label] / np.maximum(own - 1, 1)
    means = sums / sizes
    means[rows, label] = np.inf
    b = means.min(axis=1)
    widest = np.maximum(a, b)
    value = np.where((own > 1) & (widest > 0), (b - a) / np.where(widest > 0, widest, 1.0), 0.0)
    return float(value.mean())
