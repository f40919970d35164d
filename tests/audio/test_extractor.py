"""Extractor and Stream: samples in, embeddings and the seconds of speech behind them out."""

import json
from pathlib import Path

import numpy as np
import pytest
from extractors import embedding_of, write_extractor
from hypothesis import given, settings
from hypothesis import strategies as st
from kaldi_filters import written_out
from speechlike import babble

from dcaplda.audio import AudioError, Extractor
from dcaplda.audio.extractor import Signal
from dcaplda.runtime.errors import DcapldaError


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_extractor(tmp_path_factory.mktemp("model") / "extractor.onnx")


@pytest.fixture(scope="module")
def extractor(model: Path) -> Extractor:
    return Extractor.load(model, kind="3d-speaker")


def written(samples: np.ndarray) -> np.ndarray:
    frames = written_out(samples, 16000, 80, "povey")
    return embedding_of(frames - frames.mean(axis=0))


def test_without_detection_all_of_it_goes_in(model: Path) -> None:
    signal = babble(16000, 2.5)
    embedding, seconds = Extractor.load(model, kind="3d-speaker", vad="none")(signal, 16000)
    assert seconds == 2.5 and embedding.dtype == np.float32
    np.testing.assert_allclose(embedding, written(signal), rtol=1e-3, atol=1e-3)


def test_only_speech_goes_in_and_is_counted(extractor: Extractor) -> None:
    signal = babble(16000)
    made = extractor.extract(signal, 16000)
    pieces = [signal[round(a * 16000) : round(b * 16000)] for a, b in made.spans]
    assert 0.5 < made.seconds < 4.0 and made.total == 4.0
    assert made.seconds == pytest.approx(sum(map(len, pieces)) / 16000)
    speech = np.concatenate(pieces)
    assert made.frames == 1 + (len(speech) - 400) // 160
    np.testing.assert_allclose(made.embedding, written(speech), rtol=1e-3, atol=1e-3)


def test_integers_floats_and_a_file_give_one_embedding(
    extractor: Extractor, tmp_path: Path
) -> None:
    import soundfile

    whole = np.round(babble(16000) * 32768).astype(np.int16)
    soundfile.write(tmp_path / "a.flac", whole, 16000)
    expected = extractor(whole.astype(np.float64) / 32768, 16000)
    for made in (extractor(whole, 16000), extractor.from_file(tmp_path / "a.flac")):
        np.testing.assert_allclose(made.embedding, expected.embedding, rtol=1e-5)
        assert made.seconds == expected.seconds


def test_several_at_once_are_the_same_as_one_by_one(extractor: Extractor) -> None:
    signals = [babble(16000, 2.0 + k, seed=k) for k in range(5)]
    many = extractor.extract_many([Signal(x, 16000, "x") for x in signals])
    for signal, made in zip(signals, many, strict=True):
        alone = extractor.extract(signal, 16000)
        assert not isinstance(made, AudioError) and made.spans == alone.spans
        np.testing.assert_allclose(made.embedding, alone.embedding, rtol=1e-5)


def test_what_is_longer_than_a_chunk_is_averaged_in_equal_parts(model: Path) -> None:
    signal = babble(16000, 5.0)
    whole = Extractor.load(model, kind="3d-speaker", vad="none", chunk=2.0)
    embedding, seconds = whole(signal, 16000)
    parts = [written(part) for part in np.array_split(signal, 3)]
    np.testing.assert_allclose(embedding, np.mean(parts, axis=0), rtol=1e-3, atol=1e-3)
    assert seconds == 5.0


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (np.zeros(48000), r"0\.00 s of speech in 3\.00 s; at least 0\.5 s are needed"),
        (np.full(100, np.nan), "sample 1 is nan"),
        (np.zeros(0), "no samples"),
    ],
)
def test_what_holds_no_speech_is_refused(
    extractor: Extractor, samples: np.ndarray, words: str
) -> None:
    with pytest.raises(AudioError, match=words):
        extractor(samples, 16000)
    with pytest.raises(AudioError, match="sample rate"):
        extractor(babble(16000), 0)


def test_the_record_makes_the_same_extractor_again(model: Path, tmp_path: Path) -> None:
    told = {"vad_threshold": 0.4, "vad_pad": 0.05, "min_duration": 0.7, "chunk": 20.0}
    first = Extractor.load(model, kind="wespeaker", **told)
    (tmp_path / "extractor.json").write_text(json.dumps(first.record))
    again = Extractor.load(model, like=tmp_path / "extractor.json")
    assert again.record == first.record
    # As a bundle keeps it.
    (tmp_path / "bundle").mkdir()
    manifest = {"training": {"extractor": first.record}}
    (tmp_path / "bundle" / "model.json").write_text(json.dumps(manifest))
    assert Extractor.load(model, like=tmp_path / "bundle").record == first.record
    other = Extractor.load(model, like=tmp_path / "extractor.json", vad="none")
    assert other.fingerprint == first.fingerprint and other.record["speech"] == {"name": "none"}
    with pytest.raises(DcapldaError, match="--kind: .* tells it"):
        Extractor.load(model, like=tmp_path / "extractor.json", kind="wespeaker")
    strange = write_extractor(tmp_path / "other.onnx", seed=1)
    with pytest.raises(DcapldaError, match="is not the extractor of"):
        Extractor.load(strange, like=tmp_path / "extractor.json")


def test_the_fingerprint_is_of_graph_and_features(model: Path, tmp_path: Path) -> None:
    strange = write_extractor(tmp_path / "other.onnx", seed=1)
    made = {
        Extractor.load(model, kind="3d-speaker").fingerprint,
        Extractor.load(model, kind="3d-speaker", vad="energy").fingerprint,
        Extractor.load(model, sample_rate=16000, feature_normalize="mean").fingerprint,
    }
    assert len(made) == 1
    made.add(Extractor.load(model, kind="wespeaker").fingerprint)
    made.add(Extractor.load(strange, kind="3d-speaker").fingerprint)
    made.add(Extractor.load(model, kind="3d-speaker", window="hamming").fingerprint)
    assert len(made) == 4


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 64000 - 1), max_size=12), st.sampled_from([8000, 16000, 44100]))
def test_how_a_stream_is_cut_changes_nothing(
    extractor: Extractor, cuts: list[int], rate: int
) -> None:
    signal = babble(rate, 4.0)
    pieces = np.split(signal, [cut * rate // 16000 for cut in sorted(cuts)])
    stream = extractor.stream(rate, every=0.8)
    made = [it for piece in pieces for it in stream.accept(piece)] + stream.finish()
    whole = extractor.stream(rate, every=0.8)
    expected = whole.accept(signal) + whole.finish()
    assert [it.seconds for it in made] == [it.seconds for it in expected]
    for one, other in zip(made, expected, strict=True):
        np.testing.assert_allclose(one.embedding, other.embedding, rtol=1e-3, atol=1e-3)


def test_a_stream_has_the_speech_of_the_whole_recording(extractor: Extractor) -> None:
    signal = babble(16000, 7.0)
    whole = extractor.extract(signal, 16000)
    speech = np.concatenate([signal[round(a * 16000) : round(b * 16000)] for a, b in whole.spans])
    stream = extractor.stream(16000, every=1.0)
    made = []
    for piece in np.array_split(signal, 70):
        made += stream.accept(piece)
        assert stream.waiting < 1.0
    made += stream.finish()
    assert stream.heard == pytest.approx(whole.seconds)
    assert sum(it.seconds for it in made) + stream.waiting == pytest.approx(whole.seconds)
    assert [it.seconds for it in made[:-1]] == [1.0] * (len(made) - 1)
    for number, it in enumerate(made):
        piece = speech[number * 16000 : (number + 1) * 16000]
        np.testing.assert_allclose(it.embedding, written(piece), rtol=1e-3, atol=1e-3)
    assert stream.finish() == []
    with pytest.raises(DcapldaError, match="was finished"):
        stream.accept(signal)


def test_a_stream_keeps_little_of_a_long_call(extractor: Extractor) -> None:
    stream = extractor.stream(16000)
    for _ in range(30):
        stream.accept(np.zeros(16000, np.float32))
        assert len(stream._signal) < 16000
    assert stream.accept([]) == [] and stream.finish() == []


def test_a_stream_of_pieces_that_make_no_sense_is_refused(extractor: Extractor) -> None:
    with pytest.raises(DcapldaError, match="every = 0.1 s of speech: expected 0.5"):
        extractor.stream(16000, every=0.1)
    with pytest.raises(AudioError, match="reach 30000"):
        extractor.stream(16000).accept(np.full(10, 30000.0))
