"""What tests run in child processes: importable by name, as `spawn` needs it."""

import numpy as np

from dcaplda.runtime import Backend


def verify_one(task: tuple[Backend, np.ndarray, np.ndarray]) -> float:
    """LLR of row 1 against row 0."""
    backend, x, d = task
    return backend.verify(backend.enroll(x[0], d[0]), x[1], d[1], prior=0.5).llr
