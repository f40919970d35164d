"""onnxruntime sessions of a bundle: opened when first used, one thread each, shareable."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from dcaplda.runtime.bundle.bound_verify import BoundVerify
from dcaplda.runtime.bundle.manifest import VERIFY, ModelInfo, read_graph
from dcaplda.runtime.errors import BundleError


def available_threads() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Sessions:
    """The graphs of one bundle.

    Each session runs on the caller's thread: parallel work is cut into tiles and given to
    Python threads, which onnxruntime lets run side by side. So there is no thread pool that a
    fork could break, and no core is used that nobody asked for.
    """

    def __init__(self, directory: str | Path, info: ModelInfo) -> None:
        self._directory = directory
        self._info = info
        self._open: dict[str, onnxruntime.InferenceSession] = {}
        self._bound: BoundVerify | None = None
        self._outputs: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def run(self, graph: str, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """The first output of a graph."""
        return self.run_all(graph, inputs)[0]

    def run_all(self, graph: str, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """All outputs of a graph."""
        session = self._open.get(graph) or self.open(graph)
        # The names at hand: asking the session for them costs as much as a small graph.
        return session.run(self._outputs[graph], inputs)

    def bound_verify(self) -> BoundVerify:
        """verify.onnx with memory of its own in each thread."""
        if self._bound is None:
            session = self.open(VERIFY)
            with self._lock:
                if self._bound is None:
                    info = self._info
                    self._bound = BoundVerify(session, info.voiceprint_dim, info.embedding_dim)
        return self._bound

    def open(self, graph: str) -> onnxruntime.InferenceSession:
        """Load a graph, once."""
        with self._lock:
            if graph not in self._open:
                content = read_graph(self._directory, self._info, graph)
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = 1
                options.inter_op_num_threads = 1
                options.log_severity_level = 3  # an input that may be left out is no warning
                try:
                    session = onnxruntime.InferenceSession(
                        content, options, providers=["CPUExecutionProvider"]
                    )
                except Exception as error:  # onnxruntime's errors share no public base
                    reason = str(error).splitlines()[0]
                    raise BundleError(
                        f"{self._directory}: onnxruntime {onnxruntime.__version__} cannot open "
                        f"graph '{graph}' ({reason}); upgrade onnxruntime or export again"
                    ) from None
                self._outputs[graph] = [output.name for output in session.get_outputs()]
                self._open[graph] = session
            return self._open[graph]
