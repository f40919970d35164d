"""The recordings that lie beside a checkout, where they do."""

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
AUDIO, REAL = DATA / "audio", DATA / "real"
EXTRACTOR = AUDIO / "extractor.onnx"
KIND = "3d-speaker"

needs_audio = pytest.mark.skipif(
    not EXTRACTOR.is_file(), reason="no recordings in ../shared/data/audio"
)
needs_training_data = pytest.mark.skipif(
    not (REAL / "train" / "xvector.scp").is_file(), reason="no embeddings in ../shared/data/real"
)


def recordings() -> list[Path]:
    """The utterances; a reader's number is in front of the first hyphen."""
    return sorted((AUDIO / "flac").glob("*.flac"))


def reader(path: Path) -> str:
    """Who speaks."""
    return path.stem.split("-")[0]
