"""A graph's first run, on made-up utterances: right shapes, and LLRs as the other graphs give them.

Hashes and declared sizes do not tell what a graph computes. One run of a few rows when it is opened
finds graphs that do not work, and those that were not made together.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.bundle.manifest import AVERAGE, PREPARE, SEARCH, TILE, VERIFY, ModelInfo

Array = NDArray[Any]
Run = Callable[[str, Mapping[str, Array]], list[Array]]
ABSOLUTE, RELATIVE = 1e-2, 1e-3
"""Two ways to one LLR may differ by ABSOLUTE + RELATIVE * the largest |llr|: far more than float32
makes them."""
SECONDS = np.array([3.0, 10.0, 60.0], np.float32)
UTTERANCES = len(SECONDS)


class FirstRun:
    """Three utterances through the graphs of a bundle; the first two are enrolled."""

    def __init__(self, info: ModelInfo, run: Run) -> None:
        """`run(graph, inputs)` gives the outputs of a graph."""
        self._info, self._run = info, run
        rng = np.random.default_rng(0)
        made = rng.standard_normal((UTTERANCES, info.embedding_dim))
        self._embeddings = made.astype(np.float32)
        self._prints: Array | None = None
        self._llrs: Array | None = None

    def problem(self, graph: str) -> str:
        """What is wrong with a graph that was just opened; empty if nothing is."""
        if graph == "voiceprint":
            return self._try_voiceprint()
        if graph == "backend":
            return ""
        prints, llrs = self._voiceprints(), self._compared()
        one, last = slice(2, 3), llrs[:, 2]
        if graph == "compare":
            return _difference(llrs, llrs, (2, UTTERANCES))
        if graph == "pairs":
            (found,) = self._run(graph, {"enroll": prints[:2], "test": prints[1:]})
            return _difference(found, llrs[[0, 1], [1, 2]], (2,))
        if graph == AVERAGE:
            # A group of one is that utterance, whose LLRs are known.
            (made,) = self._run(graph, {**self._inputs(), "groups": np.array([0, 1, 1])})
            if made.shape != (2, self._info.voiceprint_dim):
                return "gives voiceprints of a wrong shape"
            (found,) = self._run("compare", {"enroll": made[:1], "test": prints})
            return _difference(found, llrs[:1], (1, UTTERANCES))
        if graph == SEARCH:
            (found,) = self._run(graph, {"enroll": prints[:2], "test": prints[one]})
            return _difference(found, last[None, :], (1, 2))
        if graph in (PREPARE, TILE):
            return self._try_two_steps(prints, llrs)
        assert graph == VERIFY
        return next(filter(None, map(self._try_verify, range(UTTERANCES))), "")

    def _try_verify(self, row: int) -> str:
        one = slice(row, row + 1)
        inputs = {"enroll": self._voiceprints()[:2], "embeddings": self._embeddings[one]}
        found, *figures = self._run(VERIFY, {**inputs, "durations": SECONDS[one]})
        if any(figure.shape != (1, 1) for figure in figures):
            return "gives figures of a wrong shape"
        return _difference(found, self._compared()[:, row], (2,))

    def _try_two_steps(self, prints: Array, llrs: Array) -> str:
        (ready,) = self._run(PREPARE, {"enroll": prints[:2]})
        if ready.shape != prints[:2].shape:
            return "gives voiceprints of a wrong shape"
        (found,) = self._run(TILE, {"prepared": ready, "test": prints})
        return _difference(found, llrs, (2, UTTERANCES))

    def _inputs(self) -> dict[str, Array]:
        inputs: dict[str, Array] = {"embeddings": self._embeddings, "durations": SECONDS}
        extra = {name: np.ones_like(SECONDS) for name in self._info.voiceprint_inputs}
        return {**inputs, **extra}

    def _try_voiceprint(self) -> str:
        width = self._info.voiceprint_dim
        shapes = [(self._voiceprints(), UTTERANCES)]
        if self._info.averages_groups and self._info.averaging_graph == "voiceprint":
            inputs = {**self._inputs(), "groups": np.array([0, 0, 1])}
            shapes.append((self._run("voiceprint", inputs)[0], 2))
        wrong = any(made.shape != (count, width) for made, count in shapes)
        return "gives voiceprints of a wrong shape" if wrong else ""

    def _voiceprints(self) -> Array:
        if self._prints is None:
            self._prints = self._run("voiceprint", self._inputs())[0]
        return self._prints

    def _compared(self) -> Array:
        if self._llrs is None:
            prints = self._voiceprints()
            self._llrs = self._run("compare", {"enroll": prints[:2], "test": prints})[0]
        return self._llrs


def _difference(found: Array, expected: Array, shape: tuple[int, ...]) -> str:
    """Whether LLRs have the shape and, where they are finite, the values expected."""
    if found.shape != shape:
        return "gives LLRs of a wrong shape"
    known = np.isfinite(expected)
    limit = ABSOLUTE + RELATIVE * np.abs(expected[known]).max(initial=0.0)
    if not (np.abs(found[known] - expected[known]) <= limit).all():
        return "gives other LLRs than compare.onnx"
    return ""
