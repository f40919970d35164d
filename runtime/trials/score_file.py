"""Score files: `enroll test llr`, one line per trial, in the order of the trials."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.tables.specifiers import writing
from dcaplda.runtime.trials.lists import Trials

# Lines formatted at once: large enough for speed, small enough for memory.
_LINES_AT_ONCE = 500_000


def write_scores(
    target: str,
    trials: Trials,
    scores: NDArray[np.float32],
    decisions: NDArray[np.bool_] | None = None,
) -> None:
    """Write one line per trial to an extended file name; see `specifiers.writing`.

    A score is the shortest decimal that reads back as the same float32. Decisions add a
    column of `accept` and `reject`. A score that is not finite is never written.
    """
    import polars as pl

    # One sum tells at once, unless a score is not finite, or enormous.
    if not np.isfinite(np.vdot(scores, scores)) and not np.isfinite(scores).all():
        first = int(np.argmin(np.isfinite(scores)))
        enrolled, tested = trials.enroll_index[first], trials.test_index[first]
        raise InputError(
            f"'{trials.enroll_ids[enrolled]}' '{trials.test_ids[tested]}' has the score "
            f"{scores[first]}: one of the two is like nothing that the model was trained on; leave "
            "it out or extract it again"
        )
    enroll, test = pl.Series(trials.enroll_ids), pl.Series(trials.test_ids)
    verdicts = pl.Series(["reject", "accept"])
    with writing(target) as stream:
        for first in range(0, len(trials), _LINES_AT_ONCE):
            part = slice(first, first + _LINES_AT_ONCE)
            columns = {
                "enroll": enroll.gather(trials.enroll_index[part]),
                "test": test.gather(trials.test_index[part]),
                "score": scores[part],
            }
            if decisions is not None:
                columns["decision"] = verdicts.gather(decisions[part].astype(np.uint8))
            stream.write(format_lines(columns))


def format_lines(columns: Mapping[str, Any]) -> memoryview:
    """Columns as lines of words; a float is the shortest decimal that reads back as the same."""
    import polars as pl

    lines = io.BytesIO()
    pl.DataFrame(columns).write_csv(lines, include_header=False, separator=" ", quote_style="never")
    return lines.getbuffer()
