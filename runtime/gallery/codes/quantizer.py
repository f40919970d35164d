"""Four bits for every two values: rows to codes, and all codes looked through for a probe.

The score's inner product is q'x with x = [factors * e, own(e)] and q = [weights * t / factors, 1].
`factors` make all values of q the same size, so that what a code gets wrong in x is what it gets
wrong in the score; a pair has one value that matters much and one that matters little, and shares
its bits between them as they need. What a row adds by itself varies most and enters every score
whole, so that it has codes of its own: a rung of a ladder, and where between two rungs. A scan
rounds all products alike, by the widest: so the rung stands in several codes, each of which
brings a part of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.codes.faiss_lib import one_thread
from dcaplda.runtime.gallery.codes.forms import Forms

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

LEVELS = 16
PAIR = 2
RUNG_CODES = 8
"""Codes that share the rung."""
OWN_PAIRS = RUNG_CODES + 1
SPARE = 0.1
"""How much farther than the training rows' own values the ladder reaches, on each side."""


@dataclass(frozen=True, eq=False)
class Quantizer:
    """Centroids (M, 16, 2) of each pair of values."""

    columns: NDArray[np.int64]
    """The cross columns of a row, in the order in which they are paired."""
    factors: Float64
    """By which they are multiplied."""
    bottom: float
    step: float
    """The ladder of own values: bottom + step * 0, 1, ... 15."""
    centroids: Float32

    @property
    def code_bytes(self) -> int:
        """Bytes of a row's code."""
        return (len(self.centroids) * 4 + 7) // 8

    def items(self, forms: Forms, rows: Float32) -> Float32:
        """What is coded of rows (n, K): (n, 2 M)."""
        made = np.zeros((len(rows), PAIR * len(self.centroids)), np.float32)
        count = len(self.factors)
        np.multiply(rows[:, self.columns], self.factors, out=made[:, :count], casting="unsafe")
        own = rows[:, forms.own] @ forms.weights[0, forms.own]
        rung = np.clip(np.rint((own - self.bottom) / self.step), 0, LEVELS - 1)
        reached = self.bottom + self.step * rung
        made[:, -PAIR * OWN_PAIRS :: PAIR] = (reached / RUNG_CODES)[:, None]
        made[:, -PAIR] = own - reached
        return made

    def query(self, forms: Forms, probe: Float32) -> tuple[Float32, float]:
        """What a probe (K,) brings, (2 M,), and what it adds to every score."""
        side = forms.sides(probe)[0]
        made = np.zeros(PAIR * len(self.centroids), np.float32)
        made[: len(self.factors)] = side[self.columns] / self.factors
        made[-PAIR * OWN_PAIRS :: PAIR] = 1.0
        return made, float(side[forms.alone].sum())

    def encoded(self, items: Float32) -> tuple[NDArray[np.uint8], Float32]:
        """Codes (n, bytes) of items, and what the codes stand for."""
        with one_thread() as faiss:
            made = self._faiss(faiss)
            codes = made.compute_codes(items)
            return codes, made.decode(codes)

    def shelf(self, codes: NDArray[np.uint8]) -> Any:
        """Codes in the order in which they are looked through fast."""
        with one_thread() as faiss:
            plain = faiss.IndexPQ(
                PAIR * len(self.centroids), len(self.centroids), 4, faiss.METRIC_INNER_PRODUCT
            )
            faiss.copy_array_to_vector(self.centroids.ravel(), plain.pq.centroids)
            plain.is_trained = True
            faiss.copy_array_to_vector(np.ascontiguousarray(codes).ravel(), plain.codes)
            plain.ntotal = len(codes)
            return faiss.IndexPQFastScan(plain)

    def rounding(self, query: Float32) -> float:
        """How far the sum that a scan finds can be from that of the codes.

        A scan has the products of a probe with the 16 centroids of a pair as whole numbers of 8
        bits, in steps that are the same for all pairs, and adds these up in 16 bits.
        """
        products = np.einsum("mld,md->ml", self.centroids, query.reshape(-1, PAIR))
        spans = products.max(axis=1) - products.min(axis=1)
        step = max(float(spans.max()) / 255, float(spans.sum()) / 65535)
        return step * (0.5 * len(spans) + 1.0)

    def _faiss(self, faiss: Any) -> Any:
        made = faiss.ProductQuantizer(PAIR * len(self.centroids), len(self.centroids), 4)
        faiss.copy_array_to_vector(self.centroids.ravel(), made.centroids)
        return made


def train_quantizer(forms: Forms, rows: Float32) -> Quantizer:
    """Centroids for rows like these (n, K)."""
    rows = rows.astype(np.float64)
    # How large a column is on the probe's side is seen on the same rows: probes are voiceprints.
    as_probe = _size(rows[:, forms.order[forms.cross]] * forms.weights[0, forms.cross])
    order = _paired(as_probe * _size(rows[:, forms.cross] - rows[:, forms.cross].mean(axis=0)))
    columns, factors = forms.cross[order], as_probe[order]
    own = rows[:, forms.own] @ forms.weights[0, forms.own]
    low, high = float(own.min()), float(own.max())
    reach = max(high - low, 1e-6) * SPARE
    bottom, step = low - reach, (high - low + 2 * reach) / (LEVELS - 1)
    pairs = -(-len(factors) // PAIR) + OWN_PAIRS
    empty = np.zeros((pairs, LEVELS, PAIR), np.float32)
    made = Quantizer(columns, factors, bottom, step, empty)
    items = made.items(forms, rows.astype(np.float32))
    with one_thread() as faiss:
        learner = faiss.ProductQuantizer(items.shape[1], pairs, 4)
        learner.cp.min_points_per_centroid = 1  # else faiss talks on standard error
        learner.train(items)
        empty[:] = faiss.vector_to_array(learner.centroids).reshape(empty.shape)
    empty[-OWN_PAIRS:] = 0.0
    empty[-OWN_PAIRS:-1, :, 0] = (bottom + step * np.arange(LEVELS)) / RUNG_CODES
    empty[-1, :, 0] = step * ((np.arange(LEVELS) + 0.5) / LEVELS - 0.5)
    return made


def _paired(sizes: Float64) -> NDArray[np.int64]:
    """The largest beside the smallest, the second beside the second smallest, and so on."""
    falling = np.argsort(-sizes)
    order = np.empty(len(sizes), np.int64)
    half = -(-len(sizes) // 2)
    order[::2], order[1::2] = falling[:half], falling[half:][::-1]
    return order


def _size(columns: Float64) -> Float64:
    """Root mean square of each column; 1 of one that is nothing but zeros."""
    found = np.sqrt(np.mean(columns**2, axis=0))
    return np.where(found > 0, found, 1.0)
