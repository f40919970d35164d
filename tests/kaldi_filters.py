"""Kaldi's log mel filters, written out."""

import numpy as np


def written_out(
    samples: np.ndarray, rate: int, bins: int, window: str, low: float = 20.0
) -> np.ndarray:
    """Log mel filters as Kaldi's documentation defines them, in float64."""
    length, shift = rate * 25 // 1000, rate * 10 // 1000
    size = 1 << (length - 1).bit_length()
    n = np.arange(length)
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * n / (length - 1))
    shape = {
        "povey": hann**0.85,
        "hamming": 0.54 - 0.46 * np.cos(2 * np.pi * n / (length - 1)),
    }[window]
    mel = lambda f: 1127.0 * np.log1p(np.asarray(f) / 700.0)  # noqa: E731
    edges = np.linspace(mel(low), mel(rate / 2), bins + 2)
    points = mel(np.arange(size // 2) * rate / size)
    bank = np.zeros((bins, size // 2))
    for b in range(bins):
        left, centre, right = edges[b : b + 3]
        up, down = (points - left) / (centre - left), (right - points) / (right - centre)
        bank[b] = np.maximum(0.0, np.minimum(up, down))
    frames = []
    for begin in range(0, len(samples) - length + 1, shift):
        x = samples[begin : begin + length].astype(np.float64)
        x = x - x.mean()
        x = np.concatenate([[x[0] - 0.97 * x[0]], x[1:] - 0.97 * x[:-1]]) * shape
        power = np.abs(np.fft.rfft(x, size)[: size // 2]) ** 2
        frames.append(np.log(np.maximum(bank @ power, np.finfo(np.float32).eps)))
    return np.array(frames)
