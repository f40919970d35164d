"""Four bits for every two values, and four more for every ten: rows to codes, and a scan of all.

The score's inner product is q'x + own(e) with x = factors * e and q = weights * t / factors.
`factors` make all values of q the same size, so that what a code gets wrong in x is what it gets
wrong in the score; a pair has one value that matters much and one that matters little, and shares
its bits between them as they need. What pairs leave over is coded once more, ten values at a time.
What a row adds by itself varies most and enters every score whole, so that it has a ladder of its
own; and so has the length of what all these codes still get wrong, by which the score of that very
row can be more than what they say, |q| times as much: a scan finds the rows with the highest
bounds.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.codes.faiss_lib import one_thread
from dcaplda.runtime.gallery.codes.forms import Forms
from dcaplda.runtime.gallery.codes.ladder import LEVELS, Ladder, ladder_for

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Codes = NDArray[np.uint8]

PAIR, WIDE = 2, 10
"""Values that share a code, first and of what is left over."""
OWN_COPIES, ERROR_COPIES = 4, 3
SPARE = 0.1
"""How much farther than in the training rows own values may reach, and lengths of errors."""


class Items(NamedTuple):
    """What is coded of rows."""

    cross: Float32
    """(n, whole groups of WIDE)."""
    own: Float64


class Coding(NamedTuple):
    """Codes (n, bytes) of rows, and what they leave out."""

    codes: Codes
    beyond: Float64
    """Length of the errors of each row above what its code says of it; at most a hair, mostly."""
    own_error: Float64


class Query(NamedTuple):
    """What a probe brings to a scan."""

    values: Float32
    alone: float
    """What it adds to every score."""
    length: float
    """By which the length of a row's errors is multiplied."""


@dataclass(frozen=True, eq=False)
class Quantizer:
    """Centroids (pairs, 16, 2) and (tens, 16, 10), and two ladders."""

    columns: NDArray[np.int64]
    """The cross columns of a row, in the order in which they are paired."""
    factors: Float64
    """By which they are multiplied."""
    pairs: Float32
    tens: Float32
    balance: Float64
    """Scale in which the length of errors of the cross values is measured."""
    own: Ladder
    errors: Ladder
    usual: float
    """Mean length of errors."""
    spread: float
    """Deviation of those that are shorter, whose scores are above what a scan finds."""

    @property
    def code_count(self) -> int:
        """Codes of a row."""
        return len(self.pairs) + len(self.tens) + self.own.codes + self.errors.codes

    @property
    def code_bytes(self) -> int:
        """Bytes of a row's codes."""
        return (self.code_count + 1) // 2

    def items(self, forms: Forms, rows: Float32) -> Items:
        """What is coded of rows (n, K)."""
        cross = np.zeros((len(rows), PAIR * len(self.pairs)), np.float32)
        used = cross[:, : len(self.factors)]
        np.multiply(rows[:, self.columns], self.factors, out=used, casting="unsafe")
        return Items(cross, rows[:, forms.own] @ forms.weights[0, forms.own])

    def encoded(self, items: Items) -> Coding:
        """Codes of items, and what they leave out."""
        first, stands_for = _nearest(self.pairs, items.cross)
        left = items.cross - stands_for
        second, stands_for = _nearest(self.tens, left)
        length = self.lengths(left - stands_for)
        own = self.own.levels(items.own)
        # Rounded up, so that what is said is a bound.
        errors = self.errors.levels(length + self.errors.grain)
        levels = np.concatenate([first, second, own, errors], axis=1)
        return Coding(
            _packed(levels),
            np.maximum(length - self.errors.values(errors), 0.0),
            items.own - self.own.values(own),
        )

    def lengths(self, wrong: Float32) -> Float64:
        """Lengths of errors (n, cross values)."""
        return np.linalg.norm(wrong * self.balance, axis=1)

    def query(self, forms: Forms, probe: Float32) -> Query:
        """What a probe (K,) brings."""
        side = forms.sides(probe)[0]
        cross = np.zeros(PAIR * len(self.pairs))
        cross[: len(self.factors)] = side[self.columns] / self.factors
        length = float(np.linalg.norm(cross / self.balance))
        made = np.zeros((self.code_count, WIDE), np.float32)
        tens, own = len(self.pairs), len(self.pairs) + len(self.tens)
        made[:tens, :PAIR] = cross.reshape(-1, PAIR)
        made[tens:own] = cross.reshape(-1, WIDE)
        made[own : own + self.own.codes, 0] = 1.0
        made[own + self.own.codes :, 0] = length
        alone = float(side[forms.alone].sum())
        return Query(made.ravel(), alone, length)

    def usual_error(self, query: Query) -> float:
        """Standard deviation, upwards, of what is left of a score without what a scan finds."""
        cross = query.values[: len(self.pairs) * WIDE].reshape(-1, WIDE)[:, :PAIR].ravel()
        return float(np.hypot(np.linalg.norm(cross / self.balance**2), query.length * self.spread))

    @cached_property
    def centroids(self) -> Float32:
        """Of all codes, with what a scan adds up: (codes, 16, 10)."""
        made = np.zeros((self.code_count, LEVELS, WIDE), np.float32)
        tens, own = len(self.pairs), len(self.pairs) + len(self.tens)
        made[:tens, :, :PAIR] = self.pairs
        made[tens:own] = self.tens
        made[own : own + self.own.codes, :, 0] = self.own.steps()
        # As far as a row's errors are longer than a usual row's: what is the same for all is not
        # a matter of ranks.
        made[own + self.own.codes :, :, 0] = self.errors.steps() - self.usual / self.errors.codes
        return made

    def shelf(self, codes: Codes) -> Any:
        """Codes in the order in which they are looked through fast."""
        count = self.code_count
        with one_thread() as faiss:
            plain = faiss.IndexPQ(WIDE * count, count, 4, faiss.METRIC_INNER_PRODUCT)
            faiss.copy_array_to_vector(self.centroids.ravel(), plain.pq.centroids)
            plain.is_trained = True
            faiss.copy_array_to_vector(np.ascontiguousarray(codes).ravel(), plain.codes)
            plain.ntotal = len(codes)
            return faiss.IndexPQFastScan(plain)

    def rounding(self, query: Query) -> float:
        """How far the sum that a scan finds can be from that of the codes.

        A scan has the products of a probe with the 16 centroids of a code as whole numbers of 8
        bits, in steps that are the same for all codes, and adds these up in 16 bits.
        """
        products = np.einsum("mld,md->ml", self.centroids, query.values.reshape(-1, WIDE))
        spans = products.max(axis=1) - products.min(axis=1)
        step = max(float(spans.max()) / 255, float(spans.sum()) / 65535)
        return step * (0.5 * len(spans) + 1.0)


def train_quantizer(forms: Forms, rows: Float32) -> Quantizer:
    """Centroids for rows like these (n, K)."""
    rows = rows.astype(np.float64)
    # How large a column is on the probe's side is seen on the same rows: probes are voiceprints.
    as_probe = _size(rows[:, forms.order[forms.cross]] * forms.weights[0, forms.cross])
    order = _paired(as_probe * _size(rows[:, forms.cross] - rows[:, forms.cross].mean(axis=0)))
    columns, factors = forms.cross[order], as_probe[order]
    width = -(-len(factors) // WIDE) * WIDE
    cross = np.zeros((len(rows), width), np.float32)
    cross[:, : len(factors)] = rows[:, columns] * factors
    pairs = _learned(cross, width // PAIR)
    left = cross - _nearest(pairs, cross)[1]
    tens = _learned(left, width // WIDE)
    wrong = left - _nearest(tens, left)[1]
    sizes = np.sqrt(np.mean(wrong.astype(np.float64) ** 2, axis=0))
    balance = 1.0 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
    lengths = np.linalg.norm(wrong * balance, axis=1)
    shorter = lengths[lengths <= lengths.mean()] - lengths.mean()
    own = rows[:, forms.own] @ forms.weights[0, forms.own]
    return Quantizer(
        columns,
        factors,
        pairs,
        tens,
        balance,
        ladder_for(own, SPARE, OWN_COPIES),
        ladder_for(lengths, SPARE, ERROR_COPIES),
        float(lengths.mean()),
        float(np.sqrt(np.mean(shorter**2))),
    )


def _learned(values: Float32, groups: int) -> Float32:
    """16 centroids for each of some groups of columns: (groups, 16, columns of a group)."""
    with one_thread() as faiss:
        learner = faiss.ProductQuantizer(values.shape[1], groups, 4)
        learner.cp.min_points_per_centroid = 1  # else faiss talks on standard error
        learner.train(values)
        found = faiss.vector_to_array(learner.centroids)
    return found.reshape(groups, LEVELS, values.shape[1] // groups)


def _nearest(centroids: Float32, values: Float32) -> tuple[Codes, Float32]:
    """The nearest centroid of each group of columns (n, groups), and what they stand for."""
    groups, _, width = centroids.shape
    with one_thread() as faiss:
        made = faiss.ProductQuantizer(groups * width, groups, 4)
        faiss.copy_array_to_vector(centroids.ravel(), made.centroids)
        packed = made.compute_codes(values)
        stands_for = made.decode(packed)
    halves = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(values), -1)
    return halves[:, :groups], stands_for


def _packed(levels: Codes) -> Codes:
    """Levels (n, codes), two to a byte."""
    if levels.shape[1] % 2:
        levels = np.concatenate([levels, np.zeros_like(levels[:, :1])], axis=1)
    return levels[:, ::2] | levels[:, 1::2] << np.uint8(4)


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
