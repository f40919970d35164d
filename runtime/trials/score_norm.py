"""Score normalization with a cohort: S-norm and adaptive S-norm (AS-Norm1).

A score s of an enrolment model and a test utterance becomes

    ((s - m_e) / d_e + (s - m_t) / d_t) / 2

where m_e and d_e are mean and standard deviation of the model's scores against the cohort, and
m_t, d_t those of the test utterance's. S-norm takes the whole cohort, AS-Norm1 the N highest
scores of each side (Karam et al. 2011; the paper's section "Comparison with Adaptive S-Norm").
The result is not an LLR: it has to be calibrated before a threshold of eq. 3 means anything.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dcaplda.runtime.errors import InputError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Index = NDArray[np.int64]
# Scores of the rows first to last against the cohort, some columns at a time.
Strips = Callable[[int, int], Iterator[NDArray[np.floating]]]

# Voiceprints and cohort members compared at once: 512 x 4096 scores are 8 MB.
ROWS, COLUMNS = 512, 4096
# A spread below this share of the mean's size is rounding, not variation.
SMALLEST_SPREAD = 1e-6


class Comparer(Protocol):
    """What is asked of a backend here."""

    def compare(self, enroll: ArrayLike, test: ArrayLike, /) -> Float32:
        """LLR of every enrolment voiceprint against every test voiceprint."""


@dataclass(frozen=True)
class CohortStatistics:
    """Mean and standard deviation of each row's scores against the cohort, float64."""

    mean: Float64
    spread: Float64


def check_cohort(size: int, top_n: int | None) -> None:
    """Raise for a cohort that gives no spread, and for more highest scores than it has."""
    if size < 2:
        raise InputError(f"the cohort has {size} voiceprints; expected at least 2")
    if top_n is not None and not 2 <= top_n <= size:
        raise InputError(f"top-n = {top_n}: expected from 2 to the cohort's size, {size}")


def enrolled_statistics(
    backend: Comparer,
    enroll: ArrayLike,
    cohort: ArrayLike,
    top_n: int | None = None,
    *,
    offsets: ArrayLike | None = None,
    ids: Sequence[str] | None = None,
) -> CohortStatistics:
    """Statistics of enrolment models; the cohort stands on the test side.

    `offsets` (M + 1,) cuts the rows into models, whose score is the mean over their rows, as
    in Backend.score_trials. `ids` name models in messages. No more than a strip of scores is
    in memory at a time.
    """
    rows, others = np.asarray(enroll), np.asarray(cohort)
    cuts = np.arange(len(rows) + 1) if offsets is None else np.asarray(offsets)

    def strips(first: int, last: int) -> Iterator[NDArray[np.floating]]:
        members = rows[cuts[first] : cuts[last]]
        starts = cuts[first:last] - cuts[first]
        sizes = np.diff(cuts[first : last + 1]).astype(np.float32)
        for part in _columns(others):
            scores = backend.compare(members, part)
            yield np.divide(np.add.reduceat(scores, starts, axis=0), sizes[:, None])

    blocks = _model_blocks(cuts)
    return _statistics(strips, blocks, len(others), top_n, ids)


def tested_statistics(
    backend: Comparer,
    test: ArrayLike,
    cohort: ArrayLike,
    top_n: int | None = None,
    *,
    ids: Sequence[str] | None = None,
) -> CohortStatistics:
    """Statistics of test utterances; the cohort stands on the enrolment side."""
    rows, others = np.asarray(test), np.asarray(cohort)

    def strips(first: int, last: int) -> Iterator[NDArray[np.floating]]:
        for part in _columns(others):
            yield backend.compare(part, rows[first:last]).T

    edges = [*range(0, len(rows), ROWS), len(rows)]
    return _statistics(strips, edges, len(others), top_n, ids)


def normalize(
    scores: ArrayLike,
    enroll: CohortStatistics,
    test: CohortStatistics,
    enroll_index: ArrayLike,
    test_index: ArrayLike,
) -> Float32:
    """Normalized scores of trials between model enroll_index and utterance test_index."""
    raw = np.asarray(scores, np.float64)
    e, t = np.asarray(enroll_index), np.asarray(test_index)
    by_enroll = (raw - enroll.mean[e]) / enroll.spread[e]
    by_test = (raw - test.mean[t]) / test.spread[t]
    return (0.5 * (by_enroll + by_test)).astype(np.float32)


def _columns(cohort: NDArray[np.generic]) -> Iterator[NDArray[np.generic]]:
    for begin in range(0, len(cohort), COLUMNS):
        yield cohort[begin : begin + COLUMNS]


def _model_blocks(offsets: Index) -> list[int]:
    """Models at which blocks begin, each of about ROWS rows, and the end."""
    edges = [0]
    n_models = len(offsets) - 1
    while edges[-1] < n_models:
        fitting = int(np.searchsorted(offsets, offsets[edges[-1]] + ROWS, side="right")) - 1
        edges.append(max(fitting, edges[-1] + 1))
    return edges


def _statistics(
    strips: Strips, edges: list[int], size: int, top_n: int | None, ids: Sequence[str] | None
) -> CohortStatistics:
    check_cohort(size, top_n)
    means, spreads = [], []
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        gather = _all_moments if top_n is None or top_n == size else _top_moments
        mean, spread = gather(strips(first, last), top_n or size)
        means.append(mean)
        spreads.append(spread)
    result = CohortStatistics(np.concatenate(means), np.concatenate(spreads))
    flat = result.spread <= SMALLEST_SPREAD * np.abs(result.mean)
    if flat.any():
        bad = int(np.argmax(flat))
        name = f"'{ids[bad]}'" if ids is not None else f"row {bad}"
        raise InputError(
            f"score normalization: {name} has the same score against the whole cohort; "
            "give another cohort or a larger --top-n"
        )
    return result


def _all_moments(strips: Iterator[NDArray[np.floating]], size: int) -> tuple[Float64, Float64]:
    """Mean and spread over all strips, by merging moments (Chan et al.): no strip is kept."""
    count, mean, squares = 0, np.zeros(1), np.zeros(1)
    for strip in strips:
        width = strip.shape[1]
        own_mean = strip.mean(axis=1, dtype=np.float64)
        own_squares = ((strip - own_mean[:, None]) ** 2).sum(axis=1)
        step = own_mean - mean
        total = count + width
        squares = squares + own_squares + step**2 * (count * width / total)
        mean = mean + step * (width / total)
        count = total
    assert count == size
    return mean, np.sqrt(squares / count)


def _top_moments(strips: Iterator[NDArray[np.floating]], top_n: int) -> tuple[Float64, Float64]:
    """Mean and spread of each row's highest scores, keeping top_n of them between strips."""
    best: NDArray[np.floating] | None = None
    for strip in strips:
        found = strip if best is None else np.concatenate([best, strip], axis=1)
        if found.shape[1] > top_n:
            found = np.partition(found, found.shape[1] - top_n, axis=1)[:, -top_n:]
        best = found
    assert best is not None
    return best.mean(axis=1, dtype=np.float64), best.std(axis=1, dtype=np.float64)
