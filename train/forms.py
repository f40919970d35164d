"""The model's second-order forms as thin products, shared by loss and evaluation.

With u = x'Gamma x + c'x, what a vector adds by itself, a form is the product of
[2 Lambda x, u + k, 1] of one side and [x, 1, u] of the other.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dcaplda.train.model import Backend
from dcaplda.train.quadratic import Quadratic


class Form(NamedTuple):
    """A second-order form and the vectors that it takes; matrices are symmetric."""

    x: Tensor
    cross: Tensor
    auto: Tensor
    linear: Tensor
    offset: Tensor

    @classmethod
    def of(cls, quadratic: Quadratic, x: Tensor) -> "Form":
        """The form of a module of the model."""
        return cls(
            x,
            quadratic.symmetric_cross(),
            quadratic.symmetric_auto(),
            quadratic.linear,
            quadratic.offset,
        )


def model_forms(model: Backend, embeddings: Tensor, seconds: Tensor | None) -> list[Form]:
    """The score's form, then scale and shift of each calibration stage in turn.

    A global calibration is folded into the score: a s + b is again a second-order form.
    """
    parts = model.inputs(embeddings, seconds)
    score = Form.of(model.plda, parts["projected"])
    forms = []
    if model.scale_dur is not None and model.shift_dur is not None:
        e = parts["duration_features"]
        forms += [Form.of(model.scale_dur, e), Form.of(model.shift_dur, e)]
    if model.scale_side is not None and model.shift_side is not None:
        z = model.side_info_of(parts["side_hidden"])
        forms += [Form.of(model.scale_side, z), Form.of(model.shift_side, z)]
    if not forms:
        cross, auto, linear, offset = (model.scale * part for part in score[1:])
        score = Form(score.x, cross, auto, linear, offset + model.shift)
    return [score, *forms]


class Factors:
    """Both sides of a form's product for n vectors: value (i, j) is left_of(i) . right[j].

    `shift` is added to every value.
    """

    def __init__(self, form: Form, shift: float = 0.0) -> None:
        self.form = form
        self.through_auto = form.x @ form.auto
        self.own = torch.linalg.vecdot(self.through_auto, form.x) + form.x @ form.linear
        self.added = self.own + (form.offset + shift)
        self.ones = form.x.new_ones(len(form.x), 1)
        self.right = torch.cat([form.x, self.ones, self.own[:, None]], dim=1)

    def left_of(self, rows: Tensor | slice) -> Tensor:
        """The left factor of these vectors, computed when asked: often few are enrolments."""
        through_cross = self.form.x[rows] @ (2.0 * self.form.cross)
        return torch.cat([through_cross, self.added[rows, None], self.ones[rows]], dim=1)


def compose(values: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """alpha s + beta for each stage (eq. 16) from the forms' values, in model_forms' order.

    Returns the result and the input of each stage.
    """
    result, inputs = values[0], []
    for scale, shift in zip(values[1::2], values[2::2], strict=True):
        inputs.append(result)
        result = torch.addcmul(shift, scale, result)
    return result, inputs
