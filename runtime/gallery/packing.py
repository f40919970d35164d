"""Speakers as they are stored: bytes of voiceprints, rows of utterances, and back."""

import json
import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dcaplda.runtime.errors import GalleryError, InputError
from dcaplda.runtime.gallery.blocks import Shape, unpacked
from dcaplda.runtime.gallery.database.schema import Entry, Kept, UtteranceRow, read_warnings
from dcaplda.runtime.records.speaker import Float32, Speaker, Utterance
from dcaplda.runtime.values import number, shown

LONGEST_TEXT = 4096
"""Characters of what callers may say of an utterance, or put into a tag."""


@dataclass(frozen=True, eq=False)
class Packing:
    """How a gallery stores speakers."""

    path: str
    shape: Shape
    keep_embeddings: bool

    def entry(
        self, name: str, speaker: Speaker, place: str, moment: float | None = None, source: str = ""
    ) -> Entry:
        """What is stored of a speaker; `moment` and `source` of utterances that have none."""
        rows = speaker.voiceprints
        own = len(rows) == len(speaker.utterances)
        now = time.time() if moment is None else moment
        utterances = tuple(self._row(it, own, now, source) for it in speaker.utterances)
        data = self.data(name, rows)
        return Entry(data, speaker.warnings, place, speaker.way, utterances)

    def data(self, name: str, rows: Float32) -> bytes:
        """Voiceprints as they are stored."""
        if self.shape.dtype == np.float32:
            return rows.tobytes()
        with np.errstate(over="ignore"):
            stored = rows.astype(self.shape.dtype)
        if not np.isfinite(stored).all():
            raise InputError(
                f"speaker '{name}': {np.abs(rows).max():g} is more than float16 can hold; make a "
                "gallery with storage='float32'"
            )
        return stored.tobytes()

    def _row(self, it: Utterance, own: bool, moment: float, source: str) -> UtteranceRow:
        embedding = it.embedding if self.keep_embeddings else None
        return UtteranceRow(
            it.number if it.number is not None and it.number > 0 else None,
            it.seconds,
            it.length,
            moment if it.time is None else it.time.timestamp(),
            it.session,
            it.count,
            it.source or source,
            json.dumps(it.warnings) if it.warnings else None,
            None if own else it.voiceprint.astype("<f4").tobytes(),
            None if embedding is None else embedding.astype("<f4").tobytes(),
        )

    def speaker(self, name: str, kept: Kept, model: str, parent: str) -> Speaker:
        """A speaker as it was stored."""
        entry = kept.entry
        rows = unpacked(self.path, self.shape, name, entry.data)
        own = len(rows) == len(entry.utterances)
        utterances = tuple(
            self._utterance(name, row, rows[place] if own else None)
            for place, row in enumerate(entry.utterances)
        )
        return Speaker(rows, entry.warnings, model, parent, utterances, entry.way, name)

    def _utterance(self, name: str, row: UtteranceRow, own: Float32 | None) -> Utterance:
        return Utterance(
            self._vector(name, row.voiceprint, self.shape.width) if own is None else own,
            row.seconds,
            row.norm,
            None if row.embedding is None else self._vector(name, row.embedding, None),
            row.session,
            row.heard,
            row.number,
            None if row.moment is None else datetime.fromtimestamp(row.moment, UTC),
            row.source,
            read_warnings(row.warnings, name, self.path),
        )

    def _vector(self, name: str, data: bytes | None, width: int | None) -> Float32:
        if data is None or len(data) % 4 or (width is not None and len(data) != 4 * width):
            raise GalleryError(
                f"{self.path}: an utterance of '{name}' has no whole vector; restore a copy"
            )
        return np.frombuffer(data, "<f4").astype(np.float32)


def counted(utterances: Iterable[Utterance]) -> tuple[Utterance, ...]:
    """Utterances that a gallery has no numbers for get those of their places: -1, -2, ..."""
    return tuple(
        it if it.number is not None else replace(it, number=-1 - place)
        for place, it in enumerate(utterances)
    )


def text(value: Any, what: str) -> str:
    """Words of a caller, of which every database can keep a line."""
    fine = isinstance(value, str) and len(value) <= LONGEST_TEXT and value.isprintable()
    if not fine:
        raise InputError(
            f"{what} {shown(value)}: expected a line of at most {LONGEST_TEXT} characters"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{what} {shown(value)}: is no text") from None
    return str(value)


def moment_of(value: Any) -> float | None:
    """A time that a caller gives: a datetime with its zone, or seconds since 1970 (UTC)."""
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InputError(f"time {value}: has no zone; use datetime.now(timezone.utc)")
        return value.timestamp()
    found = number(value, "time")
    if not math.isfinite(found) or not 0 <= found < 2.5e11:
        raise InputError(f"time {found:g}: expected seconds since 1970")
    return found
