"""The model's second-order forms as thin products, shared by loss and evaluation.

With u = x'Gamma x + c'x, what a vector adds by itself, a form is the product of
[2 Lambda x, u + k, 1] of one side and [x, 1, u] of the other.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dcaplda.train.model.axes import AxisScore
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.quadratic import Quadratic


class Form(NamedTuple):
    """A second-order form and the vectors that it takes; matrices are symmetric."""

    x: Tensor
    cross: Tensor
    auto: Tensor
    linear: Tensor
    offset: Tensor

    @classmethod
    def of(cls, quadratic: Quadratic | AxisScore, x: Tensor) -> "Form":
        """The form of a module of the model."""
        if isinstance(quadratic, AxisScore):
            cross, own, constant = quadratic.terms()
            axes = quadratic.axes(x)
            return cls(
                axes,
                torch.diag(0.5 * cross),
                torch.diag(own),
                torch.zeros_like(axes[0]),
                constant,
            )
        return cls(
            x,
            quadratic.symmetric_cross(),
            quadratic.symmetric_auto(),
            quadratic.linear,
            quadratic.offset,
        )


def model_forms(
    model: Backend,
    embeddings: Tensor,
    seconds: Tensor | None,
    side_kept: Tensor | None = None,
) -> list[Form]:
    """The score's form, then scale and shift of each calibration stage in turn.

    A global calibration is folded into the score: a s + b is again a second-order form.
    `side_kept` multiplies the side-information vector of each sample.
    """
    score = Form.of(model.plda, unit_rows(model.preprocess(embeddings)))
    forms = []
    if model.scale_dur is not None and model.shift_dur is not None:
        assert seconds is not None, "a model with a duration stage needs seconds"
        e = model.duration_features(seconds, embeddings)
        forms += [Form.of(model.scale_dur, e), Form.of(model.shift_dur, e)]
    if model.scale_side is not None and model.shift_side is not None:
        z = model.side_info_of(unit_rows(model.side_projection(embeddings)))
        if side_kept is not None:
            z = z * side_kept[:, None]
        forms += [Form.of(model.scale_side, z), Form.of(model.shift_side, z)]
    if not forms:
        cross, auto, linear, offset = (model.scale * part for part in score[1:])
        score = Form(score.x, cross, auto, linear, offset + model.shift)
    return [score, *forms]


class _UnitRows(torch.autograd.Function):
    """Length normalization whose gradient needs half the passes of autograd's own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        norms = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        unit = x / norms
        ctx.save_for_backward(unit, norms)
        return unit

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Tensor:
        """The part of the gradient across the direction, over the length."""
        unit, norms = ctx.saved_tensors
        gradient = grad_outputs[0]
        along = torch.linalg.vecdot(gradient, unit).unsqueeze(1)
        return torch.addcmul(gradient, unit, along, value=-1.0).div_(norms)


def unit_rows(x: Tensor) -> Tensor:
    """Each row divided by its Euclidean length."""
    result: Tensor = _UnitRows.apply(x)  # type: ignore[no-untyped-call]
    return result


class Factors:
    """Both sides of a form's product for n vectors: value (i, j) is left_of(i) . right[j].

    `shift` is added to every value.
    """

    def __init__(self, form: Form, shift: float = 0.0) -> None:
        self.form = form
        self.through_auto = self._through_auto()
        self.own = torch.linalg.vecdot(self.through_auto, form.x) + form.x @ form.linear
        self.added = self.own + (form.offset + shift)
        ones = form.x.new_ones(len(form.x), 1)
        self.right = torch.cat([form.x, ones, self.own[:, None]], dim=1)

    def _through_auto(self) -> Tensor:
        """x'Gamma of every vector; (n, dim)."""
        return self.form.x @ self.form.auto

    def left_of(self, rows: Tensor | slice) -> Tensor:
        """The left factor of these vectors, computed when asked: often few are enrolments."""
        x = self.form.x[rows]
        left = x.new_empty(len(x), x.shape[1] + 2)
        torch.mm(x, 2.0 * self.form.cross, out=left[:, :-2])
        left[:, -2] = self.added[rows]
        left[:, -1] = 1.0
        return left


def compose(values: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """alpha s + beta for each stage (eq. 16) from the forms' values, in model_forms' order.

    Returns the result and the input of each stage. The shifts are overwritten.
    """
    result, inputs = values[0], []
    for scale, shift in zip(values[1::2], values[2::2], strict=True):
        inputs.append(result)
        result = shift.addcmul_(scale, result)
    return result, inputs
