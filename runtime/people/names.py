"""Names of people as ids: tables, RTTM and galleries take one word, so blanks are written %20."""

import re
from urllib.parse import unquote

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.values import LONGEST_ID, shown

# What no id may hold, and the sign that stands for it.
_ENCODED = re.compile(r"[%\s\x00-\x1f\x7f-\x9f]")


def as_id(name: str) -> str:
    """The one word that stands for a name; most names are their own."""
    if not isinstance(name, str) or not name.strip() or len(name.encode()) * 3 >= LONGEST_ID:
        raise InputError(f"speaker name {shown(name)}: expected text")
    return _ENCODED.sub(lambda m: "".join(f"%{byte:02X}" for byte in m[0].encode()), name)


def as_name(word: str) -> str:
    """The name that a word stands for."""
    return unquote(word)
