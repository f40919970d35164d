"""Single values from outside, checked in one place: numbers, counts, priors, costs, seconds, ids.

What a caller, a table or a file gives passes one of these before it is used: what is not of the
right kind, or outside of the range that the message names, is an error of one line. Arrays of
embeddings, voiceprints and seconds are in `checks`, with the same ranges.
"""

import math
import operator
import re
from collections.abc import Mapping
from typing import Any

from dcaplda.runtime.errors import DcapldaError, InputError

LEAST_SECONDS, MOST_SECONDS = 0.001, 1e7
"""Seconds of speech that an utterance can have: less is no sound, more are four months."""
SECONDS = "from 0.001 to 10,000,000 seconds of speech"
"""The same in words, for messages."""
LEAST_COST, MOST_COST = 1e-100, 1e100
"""Costs of errors: their sums and quotients stay numbers."""
MOST = 2**31 - 1
"""Largest count of anything."""
LONGEST_ID = 4096
"""Bytes that no sane id reaches; a Kaldi archive without blanks is recognised by it."""

# Blanks, control characters (those of Latin-1 too), and halves of characters, which no file of
# text can hold.
_NO_ID = re.compile(r"[\x00-\x20\x7f-\x9f\ud800-\udfff]")

# What a word of a table does not hold, and the sign that stands for it.
_ENCODED = re.compile(r"[%\s]")


def shown(value: Any) -> str:
    """A value as a message has it: short, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # of other people's classes, and of whole numbers of too many digits
        text = f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:30]}...{text[-5:]}"


def number(value: Any, what: str) -> float:
    """A finite number; text, arrays, truth values and complex numbers are none."""
    kind = type(value)
    if kind is not float and kind is not int:
        value = _scalar(value, what)
    try:
        found = float(value)
    except Exception:  # whatever the class of a caller's object raises
        found = math.nan
    if not math.isfinite(found):
        raise InputError(f"{what} is {shown(value)}; expected a number")
    return found


def _scalar(value: Any, what: str) -> Any:
    """What may become a number by float(), which takes text, and drops imaginary parts."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    odd = isinstance(value, str | bytes | bytearray | bool | complex) or kind not in ("", *"fiu")
    masked = getattr(value, "mask", None) is not None
    if odd or masked or getattr(value, "ndim", None):
        raise InputError(f"{what} is {shown(value)}; expected a number")
    return value


def whole(value: Any, what: str, least: int = 0, most: int = MOST) -> int:
    """A whole number of a range; 2.0 is none, nor is True."""
    try:
        found = None if _is_truth(value) else operator.index(value)
    except Exception:
        found = None
    if found is None or not least <= found <= most:
        raise InputError(
            f"{what} = {shown(value)}: expected a whole number, at least {least}"
            + (f" and at most {most}" if found is not None and found > most else "")
        )
    return found


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def prior(value: Any) -> float:
    """A probability that leaves both answers possible."""
    found = number(value, "prior of a target trial")
    if not 0.0 < found < 1.0:
        raise InputError(f"prior of a target trial is {found:g}; it must lie between 0 and 1")
    return found


def cost(value: Any, error: str) -> float:
    """The cost of an error, for which there is a threshold."""
    found = number(value, f"cost of a {error}")
    if not LEAST_COST <= found <= MOST_COST:
        raise InputError(
            f"cost of a {error} is {found:g}; it must be a number above 0, from {LEAST_COST:g} "
            f"to {MOST_COST:g}"
        )
    return found


def are_seconds(value: float) -> bool:
    """Whether an utterance can have so many seconds of speech."""
    return LEAST_SECONDS <= value <= MOST_SECONDS


def check_seconds(
    table: Mapping[str, float], place: str, kind: type[DcapldaError] = InputError
) -> None:
    """Refuse a table with an utterance that cannot have so many seconds of speech."""
    for name, value in table.items():
        if not are_seconds(value):
            raise kind(f"{place}: '{name}' has {value:g} seconds; expected {SECONDS}")


def is_word(name: Any) -> bool:
    """Whether every table, archive and gallery can hold this id: one word of text."""
    if not isinstance(name, str) or not name or _NO_ID.search(name):
        return False
    return len(name.encode()) < LONGEST_ID


def word(name: Any, what: str) -> str:
    """An id: one word of text without control characters."""
    if not is_word(name):
        raise InputError(
            f"{what} {shown(name)}: expected one word without blanks and control characters"
        )
    return str(name)


def is_speaker_id(name: Any) -> bool:
    """Whether a gallery can hold this id: a word, or a name with blanks inside."""
    return isinstance(name, str) and is_word(name.replace(" ", "_")) and name == name.strip(" ")


def as_word(name: str) -> str:
    """The one word that stands for a speaker's name in tables and RTTM; most names are their own.

    As in addresses of the web: a blank is %20.
    """
    return _ENCODED.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), name)


def speaker_id(name: Any) -> str:
    """An id of a gallery's speaker; names of people have blanks."""
    if not is_speaker_id(name):
        raise InputError(
            f"speaker id {shown(name)}: expected a name without control characters and without "
            "blanks around it"
        )
    return str(name)
