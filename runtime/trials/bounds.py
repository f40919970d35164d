"""LLRs no larger than a validation supports: values beyond its bounds become the bounds."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError, UsageError
from dcaplda.runtime.fields import Table, parse_json

FORMAT = "dcaplda-validation"


@dataclass(frozen=True)
class Bounds:
    """The lowest and the highest LLR that may be reported (natural log)."""

    low: float
    high: float
    place: str = ""
    """The validation that they come from."""
    fingerprint: str = ""
    """Of the model that was validated, if the validation knows it."""

    def __post_init__(self) -> None:
        """An LLR of 0, which says nothing, must be possible."""
        if not -math.inf < self.low <= 0.0 <= self.high < math.inf:
            raise UsageError(
                f"bounds {self.low:g} and {self.high:g}: expected one at most 0 and one at least 0"
            )

    @classmethod
    def named(cls, text: str) -> "Bounds":
        """From `low,high`, or from the JSON file of a validation (eval-scores --validation)."""
        parts = text.split(",")
        if len(parts) == 2:
            try:
                return cls(float(parts[0]), float(parts[1]))
            except ValueError:
                pass  # a file may have a comma in its name
        return cls._of_validation(text)

    @classmethod
    def _of_validation(cls, path: str) -> "Bounds":
        try:
            record = parse_json(Path(path).read_bytes())
        except OSError as error:
            raise InputError(
                f"--bound={path}: neither LOW,HIGH nor a file ({error.strerror})"
            ) from None
        except ValueError:
            record = None
        advice = "not the JSON file of a validation (eval-scores --validation)"
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InputError(f"--bound={path}: {advice}")
        told = Table(record, f"--bound={path}", InputError, advice)
        ends, model = told.table("bounds"), told.optional_table("model")
        fingerprint = "" if model is None else model.text("fingerprint", "")
        return cls(ends.number("lower_llr"), ends.number("upper_llr"), path, fingerprint)

    def check_model(self, fingerprint: str) -> None:
        """Refuse the bounds of another model; those that name none are for any."""
        if self.fingerprint and self.fingerprint != fingerprint:
            raise InputError(
                f"--bound={self.place}: was made of another model ({self.fingerprint[:12]}, this "
                f"is {fingerprint[:12]}); validate this one, or give --bound=LOW,HIGH"
            )

    def applied(self, llrs: NDArray[np.float32]) -> tuple[NDArray[np.float32], int, int]:
        """The LLRs within the bounds, and how many were below and above."""
        n_below, n_above = (
            int(np.count_nonzero(beyond)) for beyond in (llrs < self.low, llrs > self.high)
        )
        low, high = self._inner()
        return llrs.clip(low, high), n_below, n_above

    def _inner(self) -> tuple[np.float32, np.float32]:
        """The bounds in float32, rounded towards 0: a written score is never beyond them."""
        low, high = np.float32(self.low), np.float32(self.high)
        if float(low) < self.low:
            low = np.nextafter(low, np.float32(0.0))
        if float(high) > self.high:
            high = np.nextafter(high, np.float32(0.0))
        return low, high
