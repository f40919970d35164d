"""Does an utterance look like what training saw? Warnings where it does not.

`model.json` tells the range of durations, the spread of the side-information vector z (eq. 19)
and of the length of the embeddings before normalization. A bundle without that information
gives no warnings: then nothing is known, which is not the same as "all is well".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import BundleError

Float32 = NDArray[np.float32]


@dataclass(frozen=True)
class Range:
    """Least and greatest usual value."""

    low: float
    high: float

    def outside(self, values: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Which values lie outside."""
        return (values < self.low) | (values > self.high)


@dataclass(frozen=True, eq=False)
class SideInformation:
    """The spread of z in training, in the basis in which a voiceprint holds it."""

    columns: slice
    """Where z, rotated, stands in a voiceprint."""
    mean: NDArray[np.float64]
    precision: NDArray[np.float64]
    limit: float
    """99.9th percentile of the Mahalanobis distance over the training data."""

    def distances(self, voiceprints: Float32) -> NDArray[np.float64]:
        """Mahalanobis distance of each voiceprint's z from the training mean."""
        centred = voiceprints[:, self.columns] - self.mean
        return np.sqrt(np.maximum(((centred @ self.precision) * centred).sum(axis=1), 0.0))


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

    def warnings(
        self, embeddings: Float32, seconds: Float32 | None, voiceprints: Float32, side: str
    ) -> tuple[str, ...]:
        """One line per way in which an utterance is unfamiliar; the worst where there are many.

        Rows of the three arrays belong together; `side` is a word such as `test`.
        """
        found = []
        if self.seconds is not None and seconds is not None:
            bad = seconds[self.seconds.outside(seconds)]
            if len(bad):
                trained = f"trained on {self.seconds.low:.1f}-{self.seconds.high:.1f} s"
                found.append(f"{side}: duration {_worst(bad, self.seconds):.1f} s, {trained}")
        if self.norm is not None:
            norms = np.sqrt((embeddings * embeddings).sum(axis=1))
            bad = norms[self.norm.outside(norms)]
            if len(bad):
                found.append(
                    f"{side}: embedding of length {_worst(bad, self.norm):.2f}, in training "
                    f"99.9% had {self.norm.low:.2f}-{self.norm.high:.2f}"
                )
        if self.side is not None:
            farthest = float(self.side.distances(voiceprints).max())
            if not farthest <= self.side.limit:
                found.append(
                    f"{side}: side-information at distance {farthest:.1f}, in training 99.9% were "
                    f"within {self.side.limit:.1f}"
                )
        return tuple(found)


def _worst(values: NDArray[np.floating], usual: Range) -> float:
    """The value that is farthest outside, as a ratio."""
    ratios = np.maximum(usual.low / values, values / usual.high)
    return float(values[int(ratios.argmax())])


def precision_of(covariance: NDArray[np.floating]) -> NDArray[np.float64]:
    """The inverse for Mahalanobis distances, also where the covariance has none.

    A softmax puts z on a plane; its variance across is rounding noise of float32 (about 1e-13 of
    the rest), which must not become a direction of enormous precision.
    """
    return np.linalg.pinv(np.asarray(covariance, np.float64), rcond=1e-9, hermitian=True)


def read_familiarity(manifest: Mapping[str, Any], place: str) -> Familiarity:
    """Read the key `familiarity` of model.json; what is absent or null is not known."""
    told = manifest.get("familiarity") or {}
    try:
        seconds, norm, side = (told.get(key) for key in ("seconds", "norm", "side_information"))
        return Familiarity(
            seconds=Range(float(seconds["min"]), float(seconds["max"])) if seconds else None,
            norm=Range(float(norm["min"]), float(norm["max"])) if norm else None,
            side=_side(side, int(manifest["voiceprint_dim"])) if side else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BundleError(
            f"{place}: 'familiarity' is missing or wrong ({error!r}); export the model again"
        ) from None


def _side(told: Mapping[str, Any], width: int) -> SideInformation:
    start, stop = (int(edge) for edge in told["columns"])
    mean = np.array(told["mean"], np.float64)
    precision = np.array(told["precision"], np.float64)
    size = stop - start
    if not 0 <= start < stop <= width or mean.shape != (size,) or precision.shape != (size, size):
        raise ValueError("the sizes of side_information do not fit the voiceprints")
    return SideInformation(slice(start, stop), mean, precision, float(told["distance_p999"]))
