"""Weighted binary cross-entropy of a batch (paper, eq. 14), and its gradient, fast.

Same arithmetic as plain_loss.py, arranged for speed:
- only same-domain pairs are formed, one block per domain;
- a second-order form over a block is one thin product (forms.py);
- the element-wise part computes LLR, loss and the gradient with respect to every form in a few
  passes over a block that stays in cache;
- both sides of a block are the same samples, so every gradient matrix is symmetric and one
  product G [x, 1] gives all of a form's gradients.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from dcaplda.eval.calibration import entropy
from dcaplda.runtime.decision import log_odds
from dcaplda.train.batches import Batch
from dcaplda.train.forms import Factors, Form, compose, model_forms
from dcaplda.train.model import Backend

# Logit of a pair that does not count as a nontarget: no loss and no gradient in float32.
_NEVER = -1e4


def batch_loss(
    model: Backend, embeddings: Tensor, seconds: Tensor | None, batch: Batch, prior: float
) -> Tensor:
    """Cross-entropy of all trials of the batch over the prior's entropy, a scalar.

    `embeddings` (n, D) and `seconds` (n,) belong to `batch.rows`.
    """
    forms = model_forms(model, embeddings, seconds)
    flat = [tensor for form in forms for tensor in form]
    loss: Tensor = TrialLoss.apply(batch, prior, *flat)  # type: ignore[no-untyped-call]
    return loss


class _Prepared(Factors):
    """A form ready for block products: thin factors in, symmetric gradients out."""

    def __init__(self, form: Form, shift: float) -> None:
        super().__init__(form, shift)
        self.left = self.left_of(slice(None))
        self.with_ones = self.right[:, :-1]
        self.pulled = torch.empty_like(self.with_ones)

    def block(self, part: slice) -> Tensor:
        """The form's values for every pair of a block; (m, m)."""
        return self.left[part] @ self.right[part].T

    def pull(self, part: slice, gradient: Tensor, scale: float) -> None:
        """Take in the gradient with respect to a block's values."""
        torch.mm(gradient, self.with_ones[part], out=self.pulled[part])
        self.pulled[part] *= scale

    def gradients(self, need_x: bool) -> tuple[Tensor | None, ...]:
        """Gradients with respect to x, cross, auto, linear and offset.

        With G the gradient of the block: d own = 2 G 1, d cross = 2 x'G x, d x = 4 G x cross
        from the products, and d own (2 auto x + linear) from the samples' own terms.
        """
        x = self.form.x
        paired, own = self.pulled[:, :-1], 2.0 * self.pulled[:, -1:]
        d_x = None
        if need_x:
            d_x = torch.addcmul(paired @ (4.0 * self.form.cross), self.through_auto, 2.0 * own)
            d_x.addcmul_(own, self.form.linear)
        d_matrices = x.T @ torch.cat([2.0 * paired, own * x], dim=1)
        d_cross, d_auto = d_matrices.chunk(2, dim=1)
        return d_x, d_cross, d_auto, own[:, 0] @ x, 0.5 * own.sum()


class TrialLoss(torch.autograd.Function):
    """Loss of all trials of a batch as a function of the forms' tensors.

    The gradient is computed together with the loss, while the blocks are in cache.
    """

    @staticmethod
    def forward(ctx: Any, batch: Batch, prior: float, *flat: Tensor) -> Tensor:
        """`flat` holds five tensors per form, in the order of model_forms."""
        forms = [Form(*flat[i : i + 5]) for i in range(0, len(flat), 5)]
        # The prior's log odds ride on the offset of the form that is added last.
        last = len(forms) - 1
        gamma = log_odds(prior)
        prepared = [_Prepared(form, gamma * (i == last)) for i, form in enumerate(forms)]
        wanted = any(ctx.needs_input_grad)
        unit = 1.0 / entropy(prior)
        total = 0.0
        for block in batch.blocks:
            part = slice(block.start, block.stop)
            target_unit = unit * block.weight * prior / batch.target_mass
            nontarget_unit = unit * block.weight * (1.0 - prior) / batch.nontarget_mass
            values = [form.block(part) for form in prepared]
            logits, scored = compose(values)
            targets = torch.from_numpy(block.targets).to(logits.device)
            excluded = torch.from_numpy(block.excluded).to(logits.device)
            flat_logits = logits.view(-1)
            target_logits = flat_logits[targets]
            flat_logits[targets] = _NEVER
            flat_logits[excluded] = _NEVER
            total += nontarget_unit * softplus(logits).sum().item()
            total += target_unit * softplus(-target_logits).sum().item()
            if wanted:
                slope = logits.sigmoid_()
                pull_up = torch.sigmoid(-target_logits) * (-target_unit / nontarget_unit)
                slope.view(-1)[targets] = pull_up
                _pull(prepared, part, values, scored, slope, nontarget_unit)
        if wanted:
            _save_gradients(ctx, prepared)
        return flat[0].new_tensor(total)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        """The stored gradients, times what comes from above."""
        return None, None, *(None if g is None else g * grad_outputs[0] for g in ctx.gradients)


def _pull(
    prepared: list[_Prepared],
    part: slice,
    values: list[Tensor],
    scored: list[Tensor],
    slope: Tensor,
    unit: float,
) -> None:
    """Send the slope of the loss back through the stages, last first."""
    for stage in reversed(range(len(scored))):
        scale, shift = 1 + 2 * stage, 2 + 2 * stage
        prepared[shift].pull(part, slope, unit)
        prepared[scale].pull(part, scored[stage].mul_(slope) if stage else scored[0] * slope, unit)
        slope = values[scale].mul_(slope)
    prepared[0].pull(part, slope, unit)


def _save_gradients(ctx: Any, prepared: Sequence[_Prepared]) -> None:
    gradients: list[Tensor | None] = []
    for i, form in enumerate(prepared):
        gradients += form.gradients(need_x=ctx.needs_input_grad[2 + 5 * i])
    ctx.gradients = gradients
