"""The extractor's graph at work: samples in, an embedding out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dcaplda.audio.network.filterbank import Filterbank, normalized
from dcaplda.audio.network.forms import Form, form_of, settings_of
from dcaplda.audio.network.session import first_line, open_session
from dcaplda.audio.network.settings import Asked, Settings
from dcaplda.audio.signal.samples import Float32
from dcaplda.runtime.errors import AudioError, ExtractorError


class Network:
    """An ONNX extractor and how it is fed; safe to use from many threads."""

    def __init__(self, path: str | Path, asked: Asked, settings: Settings | None = None) -> None:
        """`settings`, where given, are taken as they are; else they are found out."""
        self.path = Path(path)
        self._session, self.sha256 = open_session(path)
        self.form: Form = form_of(self._session, asked, str(path))
        metadata: Mapping[str, str] = self._session.get_modelmeta().custom_metadata_map
        self.settings = settings or settings_of(self.form, metadata, asked, str(path))
        self._bank: Filterbank | None = None
        if self.settings.features is not None:
            self._bank = Filterbank(self.settings.features, self.settings.sample_rate)
        if (self._bank is None) != self.form.takes_samples:
            raise ExtractorError(f"{path}: these settings are of an extractor of another form")

    def frames(self, samples: Float32) -> Float32:
        """What the graph takes of samples at its rate: frames (T, F), or the samples scaled."""
        scale = np.float32(self.settings.sample_scale)
        scaled = samples if scale == 1 else samples * scale
        if self._bank is None:
            return scaled
        return normalized(self._bank(scaled), self.settings.normalize)

    def embedding(self, frames: Float32) -> Float32:
        """The embedding (D,) of what `frames` gave."""
        inputs: dict[str, Any] = {self.form.signal: _laid_out(frames, self.form.axes)}
        if self.form.lengths:
            inputs[self.form.lengths] = np.array([len(frames)], self.form.lengths_type)
        try:
            (made,) = self._session.run([self.form.output], inputs)
        except Exception as error:  # onnxruntime's errors share no public base
            what = "samples" if self._bank is None else "frames"
            raise AudioError(
                f"the extractor cannot take {len(frames)} {what} ({first_line(error)[:200]}); "
                "give --min-duration if it needs longer ones"
            ) from None
        embedding = np.asarray(made, np.float32).reshape(-1)
        if not np.isfinite(embedding).all():
            raise AudioError("the extractor gives NaN or infinite values for it")
        return embedding


def _laid_out(frames: Float32, axes: str) -> Float32:
    """Frames (T, F), or samples (N,), with the graph's axes."""
    if axes in ("TF", "N"):
        return np.ascontiguousarray(frames)
    if axes == "BFT":
        return np.ascontiguousarray(frames.T[None])
    if axes == "B1N":
        return np.ascontiguousarray(frames[None, None])
    return np.ascontiguousarray(frames[None])
