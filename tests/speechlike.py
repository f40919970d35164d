"""Signals that sound a little like speech, for tests that cannot ship recordings."""

import numpy as np
from numpy.typing import NDArray


def vowel(
    rate: int, seconds: float, pitch: float, formants: tuple[float, ...]
) -> NDArray[np.float64]:
    """A buzz of a wandering pitch through resonances at the formants."""
    n = round(rate * seconds)
    t = np.arange(n) / rate
    wander = pitch * (1 + 0.08 * np.sin(2 * np.pi * 2.3 * t) + 0.03 * np.sin(2 * np.pi * 5.1 * t))
    phase = 2 * np.pi * np.cumsum(wander) / rate
    made = np.zeros(n)
    for harmonic in range(1, int(rate / 2 / (1.2 * pitch))):
        frequency = harmonic * pitch
        gain = sum(1 / (1 + ((frequency - f) / (0.09 * f + 40)) ** 2) for f in formants)
        made += gain / harmonic**0.5 * np.sin(harmonic * phase)
    return made * np.hanning(n) ** 0.25


def babble(
    rate: int, seconds: float = 4.0, seed: int = 3, pitch: float = 130.0
) -> NDArray[np.float32]:
    """Syllables with pauses between groups of them, in faint noise; the same for equal arguments.

    At another rate it is nearly the same sound.
    """
    rng = np.random.default_rng(seed)
    places = ((700, 1200, 2600), (300, 2300, 3000), (450, 800, 2500), (500, 1800, 2500))
    pieces = [np.zeros(round(0.4 * rate))]
    length = 0.4
    while length < seconds - 0.6:
        for _ in range(int(rng.integers(3, 7))):
            formants = places[int(rng.integers(len(places)))]
            spoken = vowel(rate, float(rng.uniform(0.12, 0.25)), pitch, formants)
            pieces.append(spoken / np.abs(spoken).max() * rng.uniform(0.2, 0.5))
            pieces.append(np.zeros(round(float(rng.uniform(0.0, 0.04)) * rate)))
        pieces.append(np.zeros(round(float(rng.uniform(0.2, 0.6)) * rate)))
        length = sum(map(len, pieces)) / rate
    made = np.concatenate(pieces)[: round(seconds * rate)]
    made = np.concatenate([made, np.zeros(round(seconds * rate) - len(made))])
    noise = np.random.default_rng(seed + 1).normal(0, 0.002, len(made))
    return (made + noise).astype(np.float32)
