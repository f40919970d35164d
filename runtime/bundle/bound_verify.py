"""verify.onnx on memory that stays in its place: the quickest way through onnxruntime.

Handing arrays to a session and taking arrays from it costs Python a third of a verification, all
of it under the interpreter's lock. Here inputs are copied into arrays that the session knows,
and results lie where it left them. Each thread has arrays of its own.
"""

import threading

import numpy as np
import onnxruntime
from numpy.typing import NDArray

Float32 = NDArray[np.float32]


class BoundVerify(threading.local):
    """One enrolled voiceprint against one utterance, over and over."""

    def __init__(
        self, session: onnxruntime.InferenceSession, voiceprint_dim: int, embedding_dim: int
    ) -> None:
        """Called anew in every thread that uses the object."""
        self._session = session
        self._binding = session.io_binding()
        self._enroll = np.zeros((1, voiceprint_dim), np.float32)
        self._embedding = np.zeros((1, embedding_dim), np.float32)
        self._seconds = np.zeros(1, np.float32)
        inputs = {
            "enroll": self._enroll,
            "embeddings": self._embedding,
            "durations": self._seconds,
        }
        # An OrtValue of an array on the CPU is the array's own memory.
        self._values = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in inputs.items()
        }
        for name, value in self._values.items():
            self._binding.bind_ortvalue_input(name, value)
        self._outputs = [np.zeros([1] * len(o.shape), np.float32) for o in session.get_outputs()]
        for output, array in zip(session.get_outputs(), self._outputs, strict=True):
            self._binding.bind_output(
                output.name, "cpu", 0, np.float32, list(array.shape), array.ctypes.data
            )

    def run(self, enroll: Float32, embedding: Float32, seconds: Float32) -> list[float]:
        """The outputs of the graph, in its order: LLR, length, and distance where it is known."""
        self._enroll[:] = enroll
        self._embedding[:] = embedding
        self._seconds[:] = seconds
        self._session.run_with_iobinding(self._binding)
        return [output.item() for output in self._outputs]
