"""Extractors in the forms that people have: understood, or an error that says what to tell."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from extractors import DIM, embedding_of, weights, write_extractor
from kaldi_filters import written_out
from speechlike import babble

from dcaplda.audio.network.network import Network
from dcaplda.audio.network.settings import KINDS, Asked
from dcaplda.runtime.errors import DcapldaError, ExtractorError

SIGNAL = babble(16000, 1.5)
SHERPA = {
    "framework": "3d-speaker",
    "language": "English",
    "sample_rate": "16000",
    "output_dim": str(DIM),
    "normalize_samples": "1",
    "feature_normalize_type": "global-mean",
}


def mean_removed(window: str, scale: float = 1.0, rate: int = 16000, bins: int = 80) -> np.ndarray:
    frames = written_out(babble(rate, 1.5) * scale, rate, bins, window)
    return frames - frames.mean(axis=0)


def embedding(path: Path, samples: np.ndarray = SIGNAL, **asked: Any) -> np.ndarray:
    network = Network(path, Asked(**asked))
    return network.embedding(network.frames(samples))


@pytest.mark.parametrize(
    ("form", "asked", "frames"),
    [
        # 3D-Speaker: samples from -1 to 1, povey. WeSpeaker: integers, hamming.
        ({}, {"kind": "3d-speaker"}, mean_removed("povey")),
        ({}, {"kind": "wespeaker"}, mean_removed("hamming", 32768.0)),
        # sherpa-onnx's metadata tell all of it.
        ({"metadata": SHERPA, "names": ("x", "embedding")}, {}, mean_removed("povey")),
        (
            {"metadata": {"framework": "wespeaker", "sample_rate": "16000"}},
            {},
            mean_removed("hamming", 32768.0),
        ),
        # By hand, without a kind.
        (
            {"bins": 40},
            {"sample_rate": 16000, "feature_normalize": "mean"},
            mean_removed("povey", bins=40),
        ),
        ({"axes": "TF"}, {"kind": "3d-speaker"}, mean_removed("povey")),
        ({"axes": "BFT", "lengths": True}, {"kind": "3d-speaker"}, mean_removed("povey")),
        ({"bins": "F"}, {"kind": "3d-speaker", "mel_bins": 80}, mean_removed("povey")),
        ({"more_outputs": ["logits"]}, {"kind": "3d-speaker"}, mean_removed("povey")),
    ],
)
def test_features_are_made_as_the_toolkit_makes_them(
    form: dict, asked: dict, frames: np.ndarray, tmp_path: Path
) -> None:
    path = write_extractor(tmp_path / "extractor.onnx", **form)
    made = embedding(path, **asked)
    np.testing.assert_allclose(made, embedding_of(frames), rtol=1e-3, atol=1e-3)


def test_eight_kilohertz_are_understood(tmp_path: Path) -> None:
    path = write_extractor(tmp_path / "extractor.onnx", bins=40)
    made = embedding(path, babble(8000, 1.5), kind="wespeaker", sample_rate=8000)
    expected = embedding_of(mean_removed("hamming", 32768.0, 8000, 40))
    np.testing.assert_allclose(made, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("axes", ["BN", "B1N", "N"])
@pytest.mark.parametrize("scale", [None, 32768.0])
def test_raw_waveforms_go_in_as_they_are(axes: str, scale: float | None, tmp_path: Path) -> None:
    path = write_extractor(tmp_path / "extractor.onnx", axes=axes, names=("waveform", "emb"))
    made = embedding(path, sample_rate=16000, sample_scale=scale)
    x = SIGNAL.astype(np.float64) * (scale or 1.0)
    expected = np.array([np.abs(x).mean(), np.square(x).mean()]) @ weights(2)
    np.testing.assert_allclose(made, expected, rtol=1e-4)


def test_nemo_gets_mean_and_variance_and_the_length(tmp_path: Path) -> None:
    told = {
        "framework": "nemo",
        "sample_rate": "16000",
        "feature_normalize_type": "per_feature",
        "window_size_ms": "25",
        "window_stride_ms": "10",
        "window_type": "hann",
        "feat_dim": "80",
    }
    path = write_extractor(
        tmp_path / "nemo.onnx", axes="BFT", lengths=True, metadata=told, more_outputs=["logits"]
    )
    network = Network(path, Asked())
    frames = network.frames(SIGNAL)
    assert network.settings.normalize == "mean-variance"
    assert network.form.lengths == "length" and network.form.output == "embs"
    np.testing.assert_allclose(frames.mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(frames.std(0), 1, atol=1e-3)
    np.testing.assert_allclose(network.embedding(frames), embedding_of(frames), rtol=1e-4)


@pytest.mark.parametrize(
    ("form", "asked", "words"),
    [
        ({}, {}, r"feats \[B, T, 80\], and does not say how they are made; give --kind=wespeaker"),
        ({}, {"sample_rate": 16000}, "or --feature-normalize=mean"),
        ({}, {"feature_normalize": "mean"}, "or --sample-rate=N"),
        ({"axes": "BN"}, {}, "does not say at which rate; give --sample-rate=N"),
        ({"axes": "BN"}, {"sample_rate": 16000, "window": "povey"}, "no --window"),
        ({"bins": "F"}, {"kind": "3d-speaker"}, "cannot tell features from samples"),
        ({}, {"kind": "3d-speaker", "mel_bins": 40}, "takes 80 features a frame; 40"),
        ({"more_outputs": ["a"], "names": ("feats", "b")}, {"kind": "wespeaker"}, "--output=NAME"),
        ({}, {"kind": "wespeaker", "output": "x"}, "has no output 'x'; it has embs"),
        ({}, {"kind": "waveform"}, "takes no samples"),
        ({"metadata": {"sample_rate": "fast"}}, {}, "metadata sample_rate is 'fast'"),
        ({"metadata": {"feature_normalize_type": "odd"}}, {}, "'odd', which is not known"),
        ({}, {"kind": "kaldi"}, "kind 'kaldi': expected wespeaker or 3d-speaker"),
        ({}, {"kind": "3d-speaker", "window": "square"}, "window 'square': expected povey"),
        ({}, {"kind": "3d-speaker", "feature_normalize": "no"}, "'no': expected mean or"),
        ({}, {"kind": "3d-speaker", "sample_rate": 100}, "sample rate 100"),
    ],
)
def test_what_cannot_be_known_is_asked_for(
    form: dict, asked: dict, words: str, tmp_path: Path
) -> None:
    path = write_extractor(tmp_path / "extractor.onnx", **form)
    with pytest.raises(DcapldaError, match=words) as caught:
        Network(path, Asked(**asked))
    assert "\n" not in str(caught.value)


def test_files_that_are_no_extractor_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(ExtractorError, match="cannot open it"):
        Network(tmp_path / "text.onnx", Asked())
    with pytest.raises(ExtractorError, match="cannot be read"):
        Network(tmp_path / "none.onnx", Asked())


def test_weights_in_another_file_are_refused(tmp_path: Path) -> None:
    import onnx

    model = onnx.load(write_extractor(tmp_path / "one.onnx"))
    onnx.save_model(
        model,
        str(tmp_path / "two.onnx"),
        save_as_external_data=True,
        location="weights.bin",
        size_threshold=0,
    )
    with pytest.raises(ExtractorError, match="weights in another file"):
        Network(tmp_path / "two.onnx", Asked(kind="wespeaker"))


def test_the_fingerprint_tells_settings_apart_but_not_their_name() -> None:
    settings = KINDS["3d-speaker"]
    same = settings.__class__(**{**vars(settings), "kind": "custom"})
    assert same.fingerprint("a") == settings.fingerprint("a")
    others = {settings.fingerprint("b"), *(kind.fingerprint("a") for kind in KINDS.values())}
    assert len(others) == 1 + len(KINDS)
