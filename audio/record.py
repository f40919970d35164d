"""extractor.json: what an extractor is and how it was fed, written beside its embeddings."""

import functools
from dataclasses import asdict
from importlib import metadata
from typing import Any

from dcaplda.audio.network.network import Network
from dcaplda.audio.network.settings import Settings
from dcaplda.audio.signal.resampling import QUALITY
from dcaplda.audio.speech.detectors import Detector
from dcaplda.runtime.errors import UsageError
from dcaplda.runtime.extractors.note import FORMAT, FORMAT_VERSION, read_note

PACKAGES = ("dcaplda", "onnxruntime", "kaldi-native-fbank", "soundfile", "soxr")


def make_record(
    network: Network, detector: Detector, min_duration: float, chunk: float
) -> dict[str, Any]:
    """Everything that one needs to make the same embeddings again."""
    form = network.form
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "fingerprint": network.settings.fingerprint(network.sha256),
        "model": {
            "file": network.path.name,
            "sha256": network.sha256,
            "input": form.signal,
            "axes": form.axes,
            "lengths": form.lengths,
            "output": form.output,
        },
        "settings": asdict(network.settings),
        "speech": detector.described(),
        "min_duration": min_duration,
        "chunk": chunk,
        "resampling": f"soxr {QUALITY}",
        "versions": dict(_versions()),
    }


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    import soundfile

    found = []
    for package in PACKAGES:
        try:
            found.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:  # run from a checkout
            found.append((package, "unknown"))
    return (*found, ("libsndfile", soundfile.__libsndfile_version__))


class Recorded:
    """The settings that an extractor.json or a bundle holds, to be used again."""

    def __init__(self, path: str) -> None:
        note = read_note(path)
        told = note.told
        try:
            self.model_sha256 = str(told["model"]["sha256"])
            self.output = str(told["model"]["output"])
            self.settings = Settings.from_dict(dict(told["settings"]))
            speech = dict(told["speech"])
            self.vad = str(speech.pop("name"))
            speech.pop("model_sha256", None)
            self.rules = {str(name): float(value) for name, value in speech.items()}
            self.min_duration = float(told["min_duration"])
            self.chunk = float(told["chunk"])
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"'{path}': {error!r} is missing or wrong; extract again") from None
        self.path = note.place
