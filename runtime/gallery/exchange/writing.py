"""All that a gallery keeps, as a folder of tables.

utt2spk spk2utt utt2dur     as Kaldi has them; utt2dur if all seconds are known
embeddings.* voiceprints.*  vectors of utterances, archives with an scp or Parquet
utterances.jsonl            time, source, session and the rest, a line each
speakers.jsonl              way of enrolment and tags
gallery.json                the model, and what is in the folder
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcaplda.runtime.errors import InputError
from dcaplda.runtime.files import new_folder
from dcaplda.runtime.records.speaker import Speaker, Utterance
from dcaplda.runtime.tables.vector_writer import write_vectors
from dcaplda.runtime.tables.voiceprint_tag import write_tag
from dcaplda.runtime.values import as_word

if TYPE_CHECKING:
    from dcaplda.runtime.gallery.speakers import Gallery

FORMAT, FORMAT_VERSION = "dcaplda-gallery", 1
KINDS = ("kaldi", "parquet")
EMBEDDINGS, VOICEPRINTS = "embeddings", "voiceprints"
UTTERANCES, SPEAKERS, ABOUT = "utterances.jsonl", "speakers.jsonl", "gallery.json"


def specifier(folder: Path, name: str, kind: str, writing: bool = False) -> str:
    """The table of vectors of this name."""
    if kind == "parquet":
        return f"parquet:{folder / name}.parquet"
    if writing:
        return f"ark,scp:{folder / name}.ark,{folder / name}.scp"
    return f"ark:{folder / name}.ark"


def write_tables(gallery: "Gallery", folder: str | Path, kind: str = "kaldi") -> tuple[int, int]:
    """Write a new folder, whole or not at all; returns the numbers of speakers and utterances."""
    if kind not in KINDS:
        raise InputError(f"format '{kind}': expected {' or '.join(KINDS)}")
    speakers = list(_speakers(gallery))
    rows = sorted(
        (
            (f"{as_word(name)}-{it.number}", name, it)
            for name, speaker, _ in speakers
            for it in _own(speaker)
        ),
        key=lambda row: row[0].encode(),
    )
    if not rows:
        raise InputError(f"{gallery.path}: the gallery is empty; there is nothing to write")
    with new_folder(folder) as beside:
        _write_vectors(beside, rows, kind)
        write_tag(str(beside / VOICEPRINTS), gallery.backend.info.fingerprint)
        _write_kaldi(beside, rows)
        _write_lines(beside / UTTERANCES, (_about(*row) for row in rows))
        _write_lines(
            beside / SPEAKERS,
            ({"speaker": n, "way": s.way, "tags": tags} for n, s, tags in speakers),
        )
        extractor = gallery.backend.extractor
        about = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "vectors": kind,
            "model": gallery.backend.info.fingerprint,
            "extractor": None if extractor is None else extractor.fingerprint,
            "speakers": len(speakers),
            "utterances": len(rows),
        }
        (beside / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return len(speakers), len(rows)


def _speakers(gallery: "Gallery") -> Iterator[tuple[str, Speaker, dict[str, str]]]:
    for name in gallery:
        found = gallery.living(name)
        if found is None:
            continue  # removed by another process meanwhile
        speaker, tags = found
        if speaker.model != gallery.backend.info.fingerprint:
            raise InputError(
                f"{gallery.path}: '{name}' is of another place; write galleries of one model"
            )
        yield name, speaker, tags


def _own(speaker: Speaker) -> tuple[Utterance, ...]:
    """Utterances that the speaker can be made of again: all in one where they are not enough."""
    several = speaker.way == "voiceprints" and len(speaker.utterances) > 1
    if not several or all(it.embedding is not None for it in speaker.utterances):
        return speaker.utterances
    first = speaker.utterances[0]
    count = sum(it.count for it in speaker.utterances)
    whole = Utterance(speaker.voiceprints[0], speaker.seconds, count=count, number=first.number)
    return (whole,)


def _write_vectors(folder: Path, rows: list[tuple[str, str, Utterance]], kind: str) -> None:
    kept = [(key, it.embedding) for key, _, it in rows if it.embedding is not None]
    prints = [(key, it.voiceprint) for key, _, it in rows]
    for name, pairs in ((EMBEDDINGS, kept), (VOICEPRINTS, prints)):
        if pairs:
            ids, vectors = zip(*pairs, strict=True)
            write_vectors(specifier(folder, name, kind, writing=True), ids, np.stack(vectors))
            script = folder / f"{name}.scp"
            if script.exists():
                # Names that hold wherever the folder goes: an scp's start in its own folder.
                text = script.read_text(encoding="utf-8").replace(f"{folder}/", "")
                script.write_text(text, encoding="utf-8")


def _write_kaldi(folder: Path, rows: list[tuple[str, str, Utterance]]) -> None:
    lines = [f"{key} {as_word(name)}\n" for key, name, _ in rows]
    (folder / "utt2spk").write_text("".join(lines), encoding="utf-8")
    lists: dict[str, list[str]] = {}
    for key, name, _ in rows:
        lists.setdefault(as_word(name), []).append(key)
    lines = [f"{name} {' '.join(keys)}\n" for name, keys in sorted(lists.items())]
    (folder / "spk2utt").write_text("".join(lines), encoding="utf-8")
    if all(it.seconds is not None for _, _, it in rows):
        lines = [f"{key} {it.seconds!r}\n" for key, _, it in rows]
        (folder / "utt2dur").write_text("".join(lines), encoding="utf-8")


def _about(key: str, name: str, it: Utterance) -> dict[str, Any]:
    return {
        "utterance": key,
        "speaker": name,
        "seconds": it.seconds,
        "length": it.length,
        "time": None if it.time is None else it.time.isoformat(),
        "source": it.source,
        "session": it.session,
        "count": it.count,
        "number": it.number,
        "warnings": list(it.warnings),
    }


def _write_lines(path: Path, rows: Iterator[dict[str, Any]]) -> None:
    lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
