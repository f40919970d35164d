"""The few array operations that the model's arithmetic is written in.

Functions that take an `ops` argument run unchanged on torch tensors and on the symbolic
tensors from which export builds ONNX graphs, so each piece of arithmetic exists once.
Tensors also support + - * / and @ with each other and with numpy constants' torch twins.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor


class Ops(Protocol):
    """What a backend of array operations offers; rows are utterances."""

    def log(self, x: Any) -> Any:
        """Natural logarithm."""

    def sigmoid(self, x: Any) -> Any:
        """1 / (1 + exp(-x))."""

    def softmax(self, x: Any) -> Any:
        """Softmax over each row."""

    def log_softmax(self, x: Any) -> Any:
        """Logarithm of the softmax over each row."""

    def above(self, x: Any, threshold: float) -> Any:
        """1.0 where x > threshold, else 0.0."""

    def stack(self, columns: Sequence[Any]) -> Any:
        """Vectors of n values to a matrix with these columns."""


class TorchOps:
    """The operations on torch tensors."""

    log = staticmethod(torch.log)
    sigmoid = staticmethod(torch.sigmoid)

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax over each row."""
        return torch.softmax(x, dim=1)

    def log_softmax(self, x: Tensor) -> Tensor:
        """Logarithm of the softmax over each row."""
        return torch.log_softmax(x, dim=1)

    def above(self, x: Tensor, threshold: float) -> Tensor:
        """1.0 where x > threshold, else 0.0."""
        return (x > threshold).to(x.dtype)

    def stack(self, columns: Sequence[Tensor]) -> Tensor:
        """Vectors of n values to a matrix with these columns."""
        return torch.stack(list(columns), dim=1)


TORCH = TorchOps()


def activate(ops: Ops, name: str, x: Any) -> Any:
    """The function f of eq. 19 by its name."""
    if name == "softmax":
        return ops.softmax(x)
    if name == "log-softmax":
        return ops.log_softmax(x)
    return x
