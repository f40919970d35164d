"""Mel filters against Kaldi's formulas written out in numpy."""

import numpy as np
import pytest
from kaldi_filters import written_out
from speechlike import babble

from dcaplda.audio.network.filterbank import Filterbank, normalized
from dcaplda.audio.network.settings import Features


@pytest.mark.parametrize(
    ("rate", "bins", "window"),
    [(16000, 80, "povey"), (16000, 80, "hamming"), (16000, 40, "povey"), (8000, 40, "hamming")],
)
@pytest.mark.parametrize("scale", [1.0, 32768.0])
def test_filters_are_those_of_the_formulas(rate: int, bins: int, window: str, scale: float) -> None:
    signal = (babble(rate, 1.5) * scale).astype(np.float32)
    made = Filterbank(Features(bins=bins, window=window), rate)(signal)
    expected = written_out(signal, rate, bins, window)
    assert made.shape == expected.shape
    # In quiet windows float32 leaves its mark on the smallest filters.
    np.testing.assert_allclose(made, expected, atol=0.02)
    assert np.abs(made - expected).mean() < 1e-4


def test_normalization_is_over_the_utterance(rng: np.random.Generator) -> None:
    frames = rng.normal(3, 2, (50, 4)).astype(np.float32)
    np.testing.assert_allclose(normalized(frames, "mean"), frames - frames.mean(0), atol=1e-5)
    both = normalized(frames, "mean-variance")
    np.testing.assert_allclose(both.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(both.std(0), 1, atol=1e-4)
    assert normalized(frames, "none") is frames


def test_samples_that_hold_no_frame_give_none() -> None:
    assert Filterbank(Features(), 16000)(np.zeros(399, np.float32)).shape == (0, 80)
    assert Filterbank(Features(), 16000)(np.zeros(400, np.float32)).shape == (1, 80)
