"""Speakers of tables into a gallery: of a folder of `writing`, or of anybody's Kaldi tables.

Voiceprints of the gallery's own model are taken as they are; else the embeddings are enrolled.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError, TableError
from dcaplda.runtime.fields import Table, parse_json
from dcaplda.runtime.gallery.exchange.writing import (
    ABOUT,
    EMBEDDINGS,
    FORMAT,
    FORMAT_VERSION,
    KINDS,
    SPEAKERS,
    UTTERANCES,
    VOICEPRINTS,
    specifier,
)
from dcaplda.runtime.gallery.migration import enrolled_again, named
from dcaplda.runtime.records.speaker import Speaker, Utterance
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.runtime.utterances import speaker_of
from dcaplda.runtime.values import SECONDS, are_seconds, speaker_id

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend

AGAIN = "write it again with export-gallery"
Vectors = dict[str, NDArray[np.float32]]


@dataclass
class Told:
    """What tables say of a speaker."""

    name: str
    way: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    utterances: list[Utterance] = field(default_factory=list)


@dataclass
class Tables:
    """Speakers of tables as a model has them, ready for Gallery.add_many."""

    speakers: list[tuple[str, Speaker]]
    tags: dict[str, dict[str, str]]


def read_tables(backend: "Backend", folder: str | Path) -> Tables:
    """The speakers of a folder of `write_tables`, for a model."""
    place = Path(folder)
    about = next(_json_lines(place / ABOUT, whole=True))
    if about.text("format") != FORMAT:
        raise TableError(f"'{place / ABOUT}': is not of a gallery; {AGAIN}")
    if about.whole("format_version", 1) != FORMAT_VERSION:
        raise TableError(f"'{place / ABOUT}': is of another version; {AGAIN}")
    kind = about.text("vectors", known=KINDS)
    same = about.text("model") == backend.info.fingerprint
    prints = _vectors(specifier(place, VOICEPRINTS, kind)) if same else {}
    kept: Vectors = {}
    name = place / f"{EMBEDDINGS}.{'parquet' if kind == 'parquet' else 'ark'}"
    if name.exists():
        kept = _vectors(specifier(place, EMBEDDINGS, kind))
    speakers = _told(place, prints, kept)
    counted = sum(len(it.utterances) for it in speakers)
    if (len(speakers), counted) != (about.whole("speakers", 0), about.whole("utterances", 0)):
        raise TableError(f"'{place}': some of its lines are missing; {AGAIN}")
    _check_extractor(backend, about.get("extractor", str | None, None))
    return enrolled(backend, speakers, same)


def _check_extractor(backend: "Backend", extractor: str | None) -> None:
    mine = backend.extractor
    if extractor and mine is not None and mine.fingerprint != extractor:
        raise InputError(
            f"the embeddings are of extractor {extractor[:12]}, this model takes those of "
            f"{mine.fingerprint[:12]}; enrol again from recordings"
        )


def enrolled(backend: "Backend", speakers: Sequence[Told], same: bool = False) -> Tables:
    """Speakers of a model; `same`: their voiceprints are of it, else embeddings are enrolled."""
    lost = [it.name for it in speakers if any(one.embedding is None for one in it.utterances)]
    if lost and not same:
        raise InputError(
            f"the tables are of another model, and the embeddings of {len(lost)} of "
            f"{len(speakers)} speakers are not in them: {named(lost)}; enrol these again"
        )
    made = [(it.name, _speaker(backend, it, same)) for it in speakers]
    return Tables(made, {it.name: it.tags for it in speakers if it.tags})


def _speaker(backend: "Backend", told: Told, same: bool) -> Speaker:
    if not same:
        empty = np.empty((0, backend.info.voiceprint_dim), np.float32)
        old = Speaker(empty, utterances=tuple(told.utterances), way=told.way, name=told.name)
        return enrolled_again(backend, old)
    rows = np.stack([it.voiceprint for it in told.utterances])
    backend.checked_voiceprints(rows, f"speaker '{told.name}'")
    return speaker_of(backend, told.utterances, told.way, told.name)


def _told(folder: Path, prints: Vectors, kept: Vectors) -> list[Told]:
    """Speakers in the order of arrival, with what the lines say."""
    found: dict[str, Told] = {}
    for line in _json_lines(folder / SPEAKERS):
        name = speaker_id(line.text("speaker"))
        tags = line.get("tags", dict[str, str], {})
        if name in found:
            raise line.refused(f"'{name}' is there twice")
        found[name] = Told(name, line.text("way", ""), tags)
    rows: list[tuple[int, str, Utterance]] = []
    for line in _json_lines(folder / UTTERANCES):
        key, name = line.text("utterance"), line.text("speaker")
        if name not in found:
            raise line.refused(f"'{key}' is of '{name}', who is not in {SPEAKERS}")
        if prints and key not in prints:
            raise line.refused(f"'{key}' has no voiceprint")
        it = _utterance(line, prints.get(key, np.empty(0, np.float32)), kept.get(key))
        rows.append((line.whole("number", -(2**31)), name, it))
    for _, name, it in sorted(rows, key=lambda row: (row[0] < 0, abs(row[0]))):
        found[name].utterances.append(it)
    for told in found.values():
        if not told.utterances:
            raise TableError(f"'{folder}': '{told.name}' has no utterance; {AGAIN}")
    return list(found.values())


def _utterance(
    line: Table, voiceprint: NDArray[np.float32], embedding: NDArray[np.float32] | None
) -> Utterance:
    seconds = line.get("seconds", float | None, None)
    if seconds is not None and not are_seconds(seconds):
        raise line.refused(f"{seconds:g} seconds; expected {SECONDS}")
    told = Utterance(voiceprint, seconds, line.get("length", float | None, None))
    when = line.get("time", str | None, None)
    try:
        time = None if when is None else datetime.fromisoformat(when)
    except ValueError:
        time = None
    if when is not None and (time is None or time.tzinfo is None):
        raise line.refused(f"time '{when}' is none with a zone")
    session = line.get("session", int | None, None)
    return replace(
        told,
        embedding=embedding,
        time=time,
        source=line.text("source", ""),
        session=session,
        count=line.whole("count", 1, default=1),
        warnings=tuple(line.get("warnings", list[str], [])),
    )


def plain_tables(
    embeddings: Mapping[str, NDArray[np.float32]],
    seconds: Mapping[str, float] | None,
    utt2spk: Mapping[str, str],
    source: str,
) -> list[Told]:
    """Speakers of Kaldi's own tables; each utterance says where it is from."""
    missing = [key for key in utt2spk if key not in embeddings]
    missing += [key for key in utt2spk if seconds is not None and key not in seconds]
    if missing:
        raise InputError(f"{len(missing)} utterances lack embedding or seconds: {named(missing)}")
    found: dict[str, Told] = {}
    nothing = np.empty(0, np.float32)
    for key, name in utt2spk.items():
        told = found.setdefault(name, Told(speaker_id(name)))
        time = None if seconds is None else seconds[key]
        told.utterances.append(
            Utterance(nothing, time, embedding=embeddings[key], source=f"{source} {key}")
        )
    return list(found.values())


def _vectors(rspecifier: str) -> Vectors:
    table = read_vectors(rspecifier)
    return dict(zip(table.ids, table.matrix, strict=True))


def _json_lines(path: Path, whole: bool = False) -> Iterator[Table]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise TableError(f"'{path}': cannot be read ({reason}); {AGAIN}") from None
    for number, line in enumerate([text] if whole else text.splitlines(), 1):
        try:
            value: Any = parse_json(line)
        except ValueError as error:
            raise TableError(f"'{path}' line {number}: {error}; {AGAIN}") from None
        yield Table(value, f"'{path}' line {number}", TableError, AGAIN)
