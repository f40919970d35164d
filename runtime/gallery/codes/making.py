"""Makes the codes of a file of rows, some at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.gallery.codes.bounds import Bounds, Survey
from dcaplda.runtime.gallery.codes.forms import Forms, check_forms, read_forms
from dcaplda.runtime.gallery.codes.quantizer import Quantizer, train_quantizer
from dcaplda.runtime.gallery.stored.rows_file import RowsFile

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

TRAINING_ROWS = 40_000
CHECKED_ROWS = 64
ROWS_AT_ONCE = 16_384


@dataclass(frozen=True, eq=False)
class Codes:
    """Codes (rows, bytes) of a file of rows, how they were made, and what they got wrong."""

    token: str
    """Of the file of rows."""
    quantizer: Quantizer
    bounds: Bounds
    codes: NDArray[np.uint8]

    @property
    def conditions(self) -> int:
        """Values of a row that calibration looks at."""
        return self.bounds.low.shape[1]


class Stopped(Exception):
    """The codes are not wanted any more."""


def make_codes(
    backend: "Backend", found: RowsFile, stopped: Callable[[], bool] = lambda: False
) -> Codes:
    """Codes of all rows of a file; `stopped` is asked now and then, and raises Stopped."""
    forms = read_forms(backend)
    rng = np.random.default_rng(0)
    count = min(TRAINING_ROWS, len(found.rows))
    chosen = np.sort(rng.choice(len(found.rows), count, replace=False))
    sample = _whole(found.rows[chosen], backend.ones)
    check_forms(backend, forms, sample[:CHECKED_ROWS])
    quantizer = train_quantizer(forms, sample)
    survey = Survey(forms, sample)
    codes = np.zeros((len(found.rows), quantizer.code_bytes), np.uint8)
    for begin, rows in _parts(found):
        if stopped():
            raise Stopped
        kept = (rows[:, backend.ones] == 1.0).all(axis=1)  # the others were erased
        if kept.any():
            _encode(forms, quantizer, survey, rows[kept], codes[begin : begin + len(rows)], kept)
    return Codes(found.header.token, quantizer, survey.bounds(), codes)


def _encode(
    forms: Forms,
    quantizer: Quantizer,
    survey: Survey,
    rows: NDArray[np.float32],
    out: NDArray[np.uint8],
    kept: NDArray[np.bool_],
) -> None:
    coding = quantizer.encoded(quantizer.items(forms, rows))
    out[kept] = coding.codes
    survey.add(rows, coding)


def _parts(found: RowsFile) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for begin in range(0, len(found.rows), ROWS_AT_ONCE):
        yield begin, found.rows[begin : begin + ROWS_AT_ONCE].astype(np.float32)


def _whole(rows: NDArray[np.floating], ones: NDArray[np.int64]) -> NDArray[np.float32]:
    """Rows that nobody has erased."""
    return rows[(rows[:, ones] == 1.0).all(axis=1)].astype(np.float32)
