"""Which word of a score file's lines is the score, where there are more than three.

AS-norm of WeSpeaker writes eight: ids, score, label, and the cohorts' means and deviations.
"""

from typing import NamedTuple

from dcaplda.eval.trials.keys import LABELS
from dcaplda.runtime.errors import TableError

SCORE = 2
"""Place of the score, counted from 0, in `enroll test score` lines."""


class Lines(NamedTuple):
    """Least and most words of a line, where the score is, and what is expected, in words."""

    least: int
    most: int
    place: int
    expected: str


def score_lines(first_line: str, source: str, column: int | None) -> Lines:
    """The form of the lines of a file, of which the first is seen.

    Without a `column` (counted from 1) the third word is the score where nothing else can be: up to
    four words, or a label behind it, or no other number.
    """
    words = first_line.split()
    if column is not None:
        if not SCORE < column <= max(len(words), SCORE + 1):
            raise TableError(
                f"'{source}' line 1: --score-column={column}, but it has {len(words)} words, the "
                "first two of which are ids"
            )
        most = max(len(words), SCORE + 2)
        return Lines(column, most, column - 1, f"enroll test ... score in column {column}")
    if len(words) <= SCORE + 2:
        return Lines(SCORE + 1, SCORE + 2, SCORE, "enroll test score")
    behind = words[SCORE + 1 :]
    labelled = behind[0].lower() in LABELS and not _is_number(behind[0])
    if not _is_number(words[SCORE]) or not (labelled or not any(map(_is_number, behind))):
        raise TableError(
            f"'{source}' line 1: {len(words)} words, and more than one may be the score; name its "
            "column, as --score-column=3"
        )
    return Lines(SCORE + 1, len(words), SCORE, "enroll test score ...")


def column_number(text: str) -> int | None:
    """The number that --score-column gives; None where it is the name of a column, or empty."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
