"""onnxruntime sessions of a bundle: opened when first used, one thread each, shareable."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from dcaplda.runtime.bundle.agreement import read_graph
from dcaplda.runtime.bundle.bound_verify import BoundVerify
from dcaplda.runtime.bundle.first_run import FirstRun
from dcaplda.runtime.bundle.manifest import VERIFY, ModelInfo
from dcaplda.runtime.errors import BundleError

# How onnxruntime says that memory is not enough.
_NO_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")


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
        self._lock = threading.RLock()
        self._first = FirstRun(info, self.run_all)

    def run(self, graph: str, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
        """The first output of a graph."""
        return self.run_all(graph, inputs)[0]

    def run_all(self, graph: str, inputs: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float32]]:
        """All outputs of a graph."""
        session = self._open.get(graph) or self.open(graph)
        try:
            # The names at hand: asking the session for them costs as much as a small graph.
            return session.run(self._outputs[graph], inputs)
        except Exception as error:  # onnxruntime's errors share no public base
            raise self._failed(graph, error) from None

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
        """Load a graph, once, and try it out."""
        with self._lock:
            if graph not in self._open:
                content = read_graph(self._directory, self._info, graph)
                options = onnxruntime.SessionOptions()
                options.intra_op_num_threads = 1
                options.inter_op_num_threads = 1
                options.log_severity_level = 4  # an error is raised, and told by whoever catches it
                try:
                    session = onnxruntime.InferenceSession(
                        content, options, providers=["CPUExecutionProvider"]
                    )
                except Exception as error:
                    raise BundleError(
                        f"{self._directory}: onnxruntime {onnxruntime.__version__} cannot open "
                        f"graph '{graph}' ({_reason(error)}); upgrade onnxruntime or export again"
                    ) from None
                self._outputs[graph] = [output.name for output in session.get_outputs()]
                self._open[graph] = session
                problem = self._first.problem(graph)
                if problem:
                    del self._open[graph]
                    raise BundleError(
                        f"{self._directory}: graph '{graph}' {problem}; export the model again"
                    )
            return self._open[graph]

    def _failed(self, graph: str, error: Exception) -> Exception:
        """What a graph that could not be computed means to the user."""
        reason = _reason(error)
        if isinstance(error, MemoryError) or any(word in reason for word in _NO_MEMORY):
            return MemoryError(reason)
        return BundleError(
            f"{self._directory}: graph '{graph}' cannot be computed ({reason}); export again"
        )


def _reason(error: Exception) -> str:
    """The first line of what onnxruntime says."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
