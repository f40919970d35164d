"""Real recordings and a real extractor: the reference of torch, and silero's own seconds."""

from pathlib import Path

import numpy as np
import pytest
from real_audio import AUDIO, EXTRACTOR, KIND, needs_audio, recordings

from dcaplda.audio import Extractor, read_audio
from dcaplda.runtime.tables.text_tables import read_numbers
from dcaplda.runtime.tables.vectors import read_vectors

pytestmark = needs_audio
SECONDS = Path(__file__).parents[1] / "data" / "silero" / "librispeech_seconds"


def compare_with_torch(paths: list[Path]) -> None:
    table = read_vectors(f"scp:{AUDIO}/xvector.scp")
    reference = dict(zip(table.ids, table.matrix, strict=True))
    lengths = read_numbers(str(AUDIO / "utt2dur_file"))
    extractor = Extractor.load(EXTRACTOR, kind=KIND, vad="none")
    for path in paths:
        embedding, seconds = extractor.from_file(path)
        expected = reference[path.stem]
        error = np.linalg.norm(embedding - expected) / np.linalg.norm(expected)
        assert error < 1e-3, path.stem
        assert seconds == pytest.approx(lengths[path.stem], abs=0.01)


def test_embeddings_are_those_of_torch() -> None:
    compare_with_torch(recordings()[::10])


@pytest.mark.slow
def test_all_embeddings_are_those_of_torch() -> None:
    assert len(recordings()) == 50
    compare_with_torch(recordings())


def test_seconds_of_speech_are_those_of_silero() -> None:
    expected = read_numbers(str(SECONDS))
    extractor = Extractor.load(EXTRACTOR, kind=KIND)
    signals = {path.stem: read_audio(str(path))[0] for path in recordings()}
    found = extractor.detector.spans(list(signals.values()), 16000)
    assert set(signals) == set(expected)
    for name, spans in zip(signals, found, strict=True):
        seconds = sum(end - begin for begin, end in spans) / 16000
        # At most 5 % are asked for; the rules and the model are the same.
        assert seconds == pytest.approx(expected[name], rel=1e-3), name
