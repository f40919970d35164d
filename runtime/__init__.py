"""Scoring with an exported bundle: numpy and onnxruntime, nothing else.

The names below are loaded when first used: a tool that only reads tables or prints its help
does not wait for onnxruntime.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcaplda.runtime.backend import Backend
    from dcaplda.runtime.bundle.manifest import ModelInfo
    from dcaplda.runtime.errors import BundleError, DcapldaError, GalleryError, InputError
    from dcaplda.runtime.evidence import Evidence
    from dcaplda.runtime.gallery.audit import Identification
    from dcaplda.runtime.gallery.search import Match
    from dcaplda.runtime.gallery.speakers import Gallery
    from dcaplda.runtime.people.diarized import Named, name_speakers
    from dcaplda.runtime.people.manager import SpeakerManager
    from dcaplda.runtime.places import Places
    from dcaplda.runtime.records.answer import Verification
    from dcaplda.runtime.records.speaker import Speaker, Utterance

__all__ = [
    "Backend",
    "BundleError",
    "DcapldaError",
    "Evidence",
    "Gallery",
    "GalleryError",
    "Identification",
    "InputError",
    "Match",
    "ModelInfo",
    "Named",
    "Places",
    "Speaker",
    "SpeakerManager",
    "Utterance",
    "Verification",
    "name_speakers",
]

_HOMES = {
    "Backend": "backend",
    "ModelInfo": "bundle.manifest",
    "BundleError": "errors",
    "DcapldaError": "errors",
    "Evidence": "evidence",
    "Gallery": "gallery.speakers",
    "GalleryError": "errors",
    "Identification": "gallery.audit",
    "InputError": "errors",
    "Match": "gallery.search",
    "Named": "people.diarized",
    "Places": "places",
    "Speaker": "records.speaker",
    "SpeakerManager": "people.manager",
    "Utterance": "records.speaker",
    "Verification": "records.answer",
    "name_speakers": "people.diarized",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
