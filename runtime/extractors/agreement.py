"""Embeddings and model of one extractor, or a word about it."""

import warnings
from collections.abc import Callable
from typing import Any

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.extractors.note import ExtractorNote, note_beside

Warn = Callable[[str], None]


def agree_on_table(
    known: ExtractorNote | None, table: str, scp_root: str, warn: Warn
) -> ExtractorNote | None:
    """What is known after a table of embeddings was looked at; another extractor is refused."""
    found = note_beside(table, scp_root)
    if found is None:
        if known is not None:
            warn(
                f"'{table}': nothing tells which extractor made these embeddings; scores are "
                f"meaningless unless it was {known.fingerprint[:12]}, the one of {known.place}"
            )
        return known
    if known is None:
        warn(
            f"'{table}': of extractor {found.fingerprint[:12]}; the model does not tell with which "
            "it was trained, scores are meaningless unless it was this one"
        )
        return found
    check_same(known, found, f"'{table}'")
    if known.vad and found.vad and known.vad != found.vad:
        warn(
            f"'{table}': speech was detected by {found.vad}, in {known.place} by {known.vad}; "
            "seconds of speech may mean different things"
        )
    return known


def check_same(known: ExtractorNote, found: ExtractorNote, what: str) -> None:
    """Refuse embeddings of another extractor."""
    if found.fingerprint != known.fingerprint:
        raise InputError(
            f"{what}: embeddings of extractor {found.fingerprint[:12]} ({found.place}), but "
            f"{known.place} is of {known.fingerprint[:12]}; extract them with that one, or train "
            "with these"
        )


def agree_on_extractor(known: ExtractorNote | None, extractor: Any, place: str) -> ExtractorNote:
    """The same for an extractor in this program, or for its fingerprint."""
    told = getattr(extractor, "fingerprint", extractor)
    if not isinstance(told, str) or not told:
        raise InputError(f"extractor = {extractor!r}: expected an Extractor, or its fingerprint")
    found = ExtractorNote(told, "", "this extractor")
    if known is None:
        warnings.warn(
            f"{place}: does not tell with which extractor it was trained; scores are meaningless "
            f"unless it was {told[:12]}",
            stacklevel=3,
        )
        return found
    check_same(known, found, "extractor")
    return known
