"""Does an utterance look like what training saw? Warnings where it does not.

`model.json` tells the range of durations, the spread of the side-information vector z (eq. 19)
and of the length of the embeddings before normalization. A bundle without that information
gives no warnings: then nothing is known, which is not the same as "all is well".
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import BundleError
from dcaplda.runtime.fields import Table

Float32 = NDArray[np.float32]

SLACK = 1 + 1e-6
"""Rounding of float32."""
LEAST = 1e-30
"""Nothing that is measured is smaller."""


@dataclass(frozen=True)
class Range:
    """Least and greatest usual value."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether a value lies inside; one at the very edge does, whatever float32 made of it."""
        return self.low <= value * SLACK and value <= self.high * SLACK

    def excess(self, value: float) -> float:
        """How far outside a value is, as a ratio."""
        return max(self.low / value if value else math.inf, value / self.high)


@dataclass(frozen=True, eq=False)
class SideInformation:
    """The spread of z in training, in the basis in which a voiceprint holds it."""

    columns: slice
    """Where z, rotated, stands in a voiceprint."""
    whitening: NDArray[np.float64]
    """W with W W' = the precision: z W has unit variances."""
    centre: NDArray[np.float64]
    """The training mean, whitened."""
    limit: float
    """99.9th percentile of the Mahalanobis distance over the training data."""

    def distance(self, voiceprint: Float32) -> float:
        """Mahalanobis distance of a voiceprint's z from the training mean."""
        difference = voiceprint[self.columns] @ self.whitening - self.centre
        return math.sqrt(difference @ difference)

    def distances(self, voiceprints: Float32) -> NDArray[np.float64]:
        """The same of every row (n, K)."""
        differences = voiceprints[:, self.columns] @ self.whitening - self.centre
        found: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", differences, differences))
        return found


@dataclass(frozen=True, eq=False)
class Familiarity:
    """What training saw, as far as the bundle tells."""

    seconds: Range | None = None
    norm: Range | None = None
    side: SideInformation | None = None

    @property
    def informed(self) -> bool:
        """Whether there is anything to compare with."""
        return not (self.seconds is None and self.norm is None and self.side is None)

    def usual(self, seconds: float | None, norm: float, distance: float) -> bool:
        """Whether there is nothing to say of one utterance: part of every verification."""
        return (
            (self.seconds is None or seconds is None or self.seconds.holds(seconds))
            and (self.norm is None or self.norm.holds(norm))
            and (self.side is None or distance <= self.side.limit)
        )

    def distances(self, voiceprints: Float32) -> list[float]:
        """Distance of each row's side-information from training; zeros if that is not known."""
        side = self.side
        return [0.0 if side is None else side.distance(row) for row in voiceprints]

    def warnings(
        self,
        seconds: Sequence[float] | None,
        norms: Sequence[float],
        distances: Sequence[float],
        side: str,
    ) -> tuple[str, ...]:
        """One line per way in which an utterance is unfamiliar; the worst where there are many.

        `norms` are lengths of embeddings; `side` is a word such as `test`.
        """
        found = []
        if self.seconds is not None and seconds is not None:
            worst = max(seconds, key=self.seconds.excess)
            if not self.seconds.holds(worst):
                trained = f"trained on {self.seconds.low:.1f}-{self.seconds.high:.1f} s"
                found.append(f"{side}: duration {worst:.1f} s, {trained}")
        if self.norm is not None:
            worst = max(norms, key=self.norm.excess)
            if not self.norm.holds(worst):
                found.append(
                    f"{side}: embedding of length {shown_length(worst)}, in training 99.9% had "
                    f"{self.norm.low:.2f}-{self.norm.high:.2f}"
                )
        if self.side is not None:
            worst = max(distances)
            if not worst <= self.side.limit:
                found.append(
                    f"{side}: side-information at distance {worst:.1f}, in training 99.9% were "
                    f"within {self.side.limit:.1f}"
                )
        return tuple(found)


def shown_length(value: float) -> str:
    """A length in a message."""
    return f"{value:.2f}" if 0.01 <= value < 1e5 else f"{value:.3g}"


def precision_of(covariance: NDArray[np.floating]) -> NDArray[np.float64]:
    """The inverse for Mahalanobis distances, also where the covariance has none.

    A softmax puts z on a plane; its variance across is rounding noise of float32 (about 1e-13 of
    the rest), which must not become a direction of enormous precision.
    """
    return np.linalg.pinv(np.asarray(covariance, np.float64), rcond=1e-9, hermitian=True)


def read_familiarity(manifest: Mapping[str, Any], place: str) -> Familiarity:
    """Read the key `familiarity` of model.json; what is absent or null is not known."""
    whole = Table(dict(manifest), place, BundleError, "export the model again")
    told = whole.optional_table("familiarity")
    if told is None:
        return Familiarity()
    side = told.optional_table("side_information")
    width = None if side is None else whole.whole("voiceprint_dim", 1)
    return Familiarity(
        seconds=_read_range(told.optional_table("seconds")),
        norm=_read_range(told.optional_table("norm")),
        side=None if side is None else _read_side(side, width),
    )


def _read_range(told: Table | None) -> Range | None:
    if told is None:
        return None
    high = told.number("max", LEAST)
    return Range(told.number("min", 0.0, high), high)


def read_side(told: Mapping[str, Any]) -> SideInformation:
    """Read the key `side_information` of what training recorded."""
    return _read_side(Table(dict(told), "side_information", BundleError, "train again"), None)


def _read_side(told: Table, width: int | None) -> SideInformation:
    """`width` is that of a voiceprint, if known."""
    edges = told.get("columns", list[int])
    mean = np.array(told.get("mean", list[float]))
    rows = told.get("precision", list[list[float]])
    limit = told.number("distance_p999", 0.0)
    start, stop = edges if len(edges) == 2 else (0, 0)
    fits = 0 <= start < stop and (width is None or stop <= width)
    if not fits or {len(mean), len(rows), *map(len, rows)} != {stop - start}:
        raise told.refused("the sizes of side_information do not fit the voiceprints")
    precision = np.array(rows)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            values, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
            whitening = vectors * np.sqrt(np.maximum(values, 0.0))
            centre = mean @ whitening
    except np.linalg.LinAlgError:
        centre = np.array([np.nan])
    if not np.isfinite(centre).all():
        raise told.refused("the precision of side_information is beyond all measure")
    return SideInformation(slice(start, stop), whitening, centre, limit)
