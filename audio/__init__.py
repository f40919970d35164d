"""From recordings to embeddings and seconds of speech; needs the extra `audio`, no torch.

The names below are loaded when first used, as those of dcaplda.runtime.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dcaplda.audio.extractor import Embedded, Extraction, Extractor
    from dcaplda.audio.signal.decoding import read_audio
    from dcaplda.audio.stream import Stream
    from dcaplda.runtime.errors import AudioError, ExtractorError

__all__ = [
    "AudioError",
    "Embedded",
    "Extraction",
    "Extractor",
    "ExtractorError",
    "Stream",
    "read_audio",
]

_HOMES = {
    "AudioError": "dcaplda.runtime.errors",
    "Embedded": "dcaplda.audio.extractor",
    "Extraction": "dcaplda.audio.extractor",
    "Extractor": "dcaplda.audio.extractor",
    "ExtractorError": "dcaplda.runtime.errors",
    "Stream": "dcaplda.audio.stream",
    "read_audio": "dcaplda.audio.signal.decoding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
