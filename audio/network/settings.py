"""How samples become what an extractor takes: its settings, and the kinds that are known."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from dcaplda.runtime.errors import UsageError

FEATS, WAVEFORM = INPUTS = "feats", "waveform"
MEAN, MEAN_VARIANCE, NONE = NORMALIZATIONS = "mean", "mean-variance", "none"
WINDOWS = ("povey", "hamming", "hann", "hanning", "rectangular", "blackman", "sine")


@dataclass(frozen=True, kw_only=True)
class Features:
    """Log mel filters in Kaldi's manner."""

    bins: int = 80
    window: str = "povey"
    frame_length: float = 25.0
    """Milliseconds, as the next."""
    frame_shift: float = 10.0
    low_freq: float = 20.0
    librosa: bool = False
    """Filters of librosa's form, and the mean of a frame is not removed: NeMo's models."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if self.window not in WINDOWS:
            raise UsageError(f"window '{self.window}': expected {' or '.join(WINDOWS)}")
        if not 4 <= self.bins <= 512:
            raise UsageError(f"{self.bins} mel bins: expected 4 to 512")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All that shapes an embedding besides the graph and the choice of speech."""

    kind: str
    """Name of the settings, for people."""
    sample_rate: int
    sample_scale: float = 1.0
    """What full scale is: 1, or 32768 where the training read integers."""
    features: Features | None = None
    """None: the graph takes samples."""
    normalize: str = NONE
    """What is done to each feature of an utterance."""

    def __post_init__(self) -> None:
        """Check ranges."""
        if not 4000 <= self.sample_rate <= 192000:
            raise UsageError(f"sample rate {self.sample_rate}: expected 4000 to 192000")
        if not 0 < self.sample_scale <= 1 << 31:
            raise UsageError(f"sample scale {self.sample_scale:g}: expected 1 or 32768")
        if self.normalize not in NORMALIZATIONS:
            raise UsageError(
                f"feature-normalize '{self.normalize}': expected {' or '.join(NORMALIZATIONS)}"
            )

    def fingerprint(self, model_sha256: str) -> str:
        """Hash over the graph and these settings: embeddings compare only within one."""
        told = {"model": model_sha256, **asdict(self)}
        del told["kind"]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    @staticmethod
    def from_dict(values: dict[str, Any]) -> "Settings":
        """The settings that `asdict` wrote."""
        features = values.get("features")
        return Settings(
            **{**values, "features": None if features is None else Features(**features)}
        )


KINDS = {
    "wespeaker": Settings(
        kind="wespeaker",
        sample_rate=16000,
        sample_scale=32768.0,
        features=Features(window="hamming"),
        normalize=MEAN,
    ),
    "3d-speaker": Settings(
        kind="3d-speaker", sample_rate=16000, features=Features(), normalize=MEAN
    ),
    "nemo": Settings(
        kind="nemo",
        sample_rate=16000,
        features=Features(window="hann", low_freq=0.0, librosa=True),
        normalize=MEAN_VARIANCE,
    ),
}
"""By the toolkit that trained the extractor, with the values of its own inference code (for NeMo
those with which sherpa-onnx feeds it)."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the user says of an extractor; None or empty: what can be known will do."""

    kind: str = ""
    sample_rate: int | None = None
    feature_normalize: str = ""
    window: str = ""
    sample_scale: float | None = None
    mel_bins: int | None = None
    output: str = ""

    def __post_init__(self) -> None:
        """Check the kind."""
        if self.kind and self.kind not in (*KINDS, WAVEFORM):
            raise UsageError(f"kind '{self.kind}': expected {' or '.join((*KINDS, WAVEFORM))}")
