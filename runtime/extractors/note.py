"""extractor.json: the note beside embeddings that says which extractor made them.

`extract-embeddings` writes it. Embeddings of two extractors can have the same size and still mean
different things, so training carries the fingerprint into the bundle, and scoring compares it.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dcaplda.runtime.errors import TableError
from dcaplda.runtime.tables.formats.registry import find_format
from dcaplda.runtime.tables.scp import resolved, starts_of
from dcaplda.runtime.tables.specifiers import (
    is_pipe,
    kaldi_specifier,
    parse_rspecifier,
    split_offset,
)

NAME = "extractor.json"
MANIFEST = "model.json"
FORMAT, FORMAT_VERSION = "dcaplda-extractor", 1
_OF_ONE_RUN = ("corpus", "versions")


@dataclass(frozen=True)
class ExtractorNote:
    """What travels of an extractor."""

    fingerprint: str
    """Hash over its graph and all that shapes what the graph takes."""
    vad: str
    """Name of the speech detection."""
    place: str
    """The file that says so."""
    told: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """All that it says."""

    def to_dict(self) -> dict[str, Any]:
        """What a bundle keeps: how to make such embeddings, not of what these were made."""
        return {key: value for key, value in self.told.items() if key not in _OF_ONE_RUN}


def parse_note(told: Any, path: str) -> ExtractorNote:
    """What an extractor.json says, or what a bundle kept of it."""
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        raise TableError(f"'{path}': is not the note of an extractor (extract-embeddings)")
    if told.get("format_version") != FORMAT_VERSION:
        raise TableError(
            f"'{path}': format version {told.get('format_version')!r}, this dcaplda reads "
            f"{FORMAT_VERSION}; use the version that wrote it"
        )
    fingerprint, speech = told.get("fingerprint"), told.get("speech")
    name = speech.get("name") if isinstance(speech, dict) else None
    if not isinstance(fingerprint, str) or not fingerprint or not isinstance(name, str):
        raise TableError(f"'{path}': has no fingerprint or no speech detection; extract again")
    return ExtractorNote(fingerprint, name, path, told)


def read_note(path: str) -> ExtractorNote:
    """What an extractor.json says, the one in a folder, or what a bundle kept of it."""
    if os.path.isdir(path):
        names = [os.path.join(path, name) for name in (NAME, MANIFEST)]
        path = next((name for name in names if os.path.isfile(name)), names[0])
    try:
        with open(path, encoding="utf-8") as stream:
            told = json.load(stream)
    except OSError as error:
        raise TableError(f"'{path}': cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise TableError(f"'{path}': not valid JSON; extract the embeddings again") from None
    if os.path.basename(path) == MANIFEST:
        found = extractor_of(told if isinstance(told, dict) else {}, path)
        if found is None:
            raise TableError(f"'{path}': does not tell which extractor it was trained with")
        return found
    return parse_note(told, path)


def extractor_of(manifest: Mapping[str, Any], path: str) -> ExtractorNote | None:
    """The extractor whose embeddings a model was trained with; None where model.json lacks it."""
    training = manifest.get("training")
    told = training.get("extractor") if isinstance(training, dict) else None
    return None if told is None else parse_note(told, path)


def note_beside(rspecifier: str, scp_root: str = "") -> ExtractorNote | None:
    """The note in the folder of a table, or of the archive that an scp's first line names."""
    for folder in _folders(rspecifier, scp_root):
        path = os.path.join(folder, NAME)
        if os.path.isfile(path):
            return read_note(path)
    return None


def _folders(rspecifier: str, scp_root: str) -> list[str]:
    found = find_format(rspecifier)
    if found is not None:
        name = found[1].rstrip("/")
        return [name, os.path.dirname(name)] if os.path.isdir(name) else [os.path.dirname(name)]
    specifier = parse_rspecifier(kaldi_specifier(rspecifier))
    source = specifier.source
    if not os.path.isfile(source):
        return []
    folders = [os.path.dirname(source)]
    if specifier.kind == "scp":
        with open(source, encoding="utf-8", errors="replace") as stream:
            name = stream.readline(4096).partition(" ")[2].strip()
        if name and not is_pipe(name):
            archive = resolved(split_offset(name)[0], starts_of(specifier, scp_root))
            folders.append(os.path.dirname(archive))
    return folders
