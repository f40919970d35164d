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
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from dcaplda.eval.metrics.calibration import entropy
from dcaplda.runtime.decision import log_odds
from dcaplda.train.data.batches import Batch, Block
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.forms import Factors, Form, compose, model_forms

# Logit of a pair that does not count as a nontarget: no loss and no gradient in float32.
_NEVER = -1e4
# Columns below which a matrix product prefers its short factor on the left.
_THIN = 16
# Columns from which on saved arithmetic is worth more than one large product.
_WIDE = 128


def batch_loss(
    model: Backend,
    embeddings: Tensor,
    seconds: Tensor | None,
    batch: Batch,
    prior: float,
    side_kept: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of all trials of the batch over the prior's entropy, a scalar.

    `embeddings` (n, D) and `seconds` (n,) belong to `batch.rows`; `side_kept` (n,) is 0 where the
    side-information is dropped, else 1.
    """
    forms = model_forms(model, embeddings, seconds, side_kept)
    flat = [tensor for form in forms for tensor in form]
    loss: Tensor = TrialLoss.apply(batch, prior, *flat)  # type: ignore[no-untyped-call]
    return loss


@dataclass(frozen=True)
class _Group:
    """Neighbouring blocks of one size: their matrices are one (count, size, size) tensor.

    Balanced batches are one group, so that every operation is done once and not per domain.
    """

    start: int
    count: int
    size: int
    targets: Tensor
    """Places of the target pairs in the flattened tensor."""
    excluded: Tensor
    """Places of the pairs that are no trials."""
    target_units: Tensor
    """Factor of each target's loss."""
    nontarget_units: Tensor
    """Factor of a nontarget's loss in each block; (count,)."""

    @property
    def stop(self) -> int:
        """End of the group's samples."""
        return self.start + self.count * self.size

    def of(self, rows: Tensor) -> Tensor:
        """The group's rows as (count, size, columns)."""
        return rows[self.start : self.stop].view(self.count, self.size, rows.shape[1])


def _groups(batch: Batch, prior: float, like: Tensor) -> list[_Group]:
    runs: list[list[Block]] = []
    for block in batch.blocks:
        if runs and runs[-1][-1].size == block.size:
            runs[-1].append(block)
        else:
            runs.append([block])
    target_unit = prior / (entropy(prior) * batch.target_mass)
    nontarget_unit = (1.0 - prior) / (entropy(prior) * batch.nontarget_mass)
    groups = []
    for run in runs:
        area = run[0].size ** 2
        targets = np.concatenate([b.targets + i * area for i, b in enumerate(run)])
        excluded = np.concatenate([b.excluded + i * area for i, b in enumerate(run)])
        weights = np.array([b.weight for b in run])
        units = np.repeat(target_unit * weights, [len(b.targets) for b in run])
        groups.append(
            _Group(
                run[0].start,
                len(run),
                run[0].size,
                torch.from_numpy(targets).to(like.device),
                torch.from_numpy(excluded).to(like.device),
                torch.from_numpy(units).to(like),
                torch.from_numpy(nontarget_unit * weights).to(like),
            )
        )
    return groups


class _Prepared(Factors):
    """A form ready for block products: thin factors in, symmetric gradients out."""

    def __init__(self, form: Form, shift: float) -> None:
        super().__init__(form, shift)
        self.left = self._joined[:, : form.x.shape[1] + 2]
        self.left[:, -2] = self.added
        self.left[:, -1] = 1.0
        self.pulled = form.x.new_empty(len(form.x), form.x.shape[1] + 1)

    def _through_auto(self) -> Tensor:
        """Together with the left factor: one wide product is faster than two."""
        x, cross, auto = self.form[:3]
        joined = torch.cat([2.0 * cross, x.new_zeros(len(cross), 2), auto], dim=1)
        self._joined = x @ joined
        return self._joined[:, len(cross) + 2 :]

    def values(self, group: _Group) -> Tensor:
        """The form for every pair of each block; (count, size, size)."""
        return torch.bmm(group.of(self.left), group.of(self.right).mT)

    def pull(self, group: _Group, gradient: Tensor) -> None:
        """Take in the gradient with respect to the group's values."""
        with_ones = group.of(self.right)[:, :, :-1]
        if with_ones.shape[2] < _THIN:
            # The gradient is symmetric, and a short factor on the left is several times faster.
            group.of(self.pulled).copy_(torch.bmm(with_ones.mT, gradient).mT)
        else:
            torch.bmm(gradient, with_ones, out=group.of(self.pulled))

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
        d_cross = _symmetric(x, paired).mul_(2.0)
        return d_x, d_cross, _symmetric(x, own * x), own[:, 0] @ x, 0.5 * own.sum()


def _symmetric(x: Tensor, y: Tensor) -> Tensor:
    """x'y, known to be symmetric: of a wide one a third of the blocks is mirrored."""
    dim = x.shape[1]
    if dim < _WIDE:
        return x.T @ y
    found, step = x.new_empty(dim, dim), -(-dim // 3)
    for first in range(0, dim, step):
        last = min(first + step, dim)
        found[first:last, first:] = x[:, first:last].T @ y[:, first:]
        found[last:, first:last] = found[first:last, last:].T
    return found


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
        total = 0.0
        for group in _groups(batch, prior, flat[0]):
            values = [form.values(group) for form in prepared]
            logits, inputs = compose(values)
            total += _trial_losses(group, logits, into_slopes=wanted)
            if wanted:
                _pull(prepared, group, values, inputs, logits)
        if wanted:
            _save_gradients(ctx, prepared)
        return flat[0].new_tensor(total)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> Any:
        """The stored gradients, times what comes from above."""
        return None, None, *(None if g is None else g * grad_outputs[0] for g in ctx.gradients)


def _trial_losses(group: _Group, logits: Tensor, into_slopes: bool) -> float:
    """Sum of the losses of a group's trials; may turn `logits` into the loss's slopes in place.

    All pairs are taken for nontargets at once, and the few that are not are put right.
    """
    flat = logits.view(-1)
    target_logits = flat[group.targets]
    flat[group.targets] = _NEVER
    flat[group.excluded] = _NEVER
    nontarget_losses = softplus(logits).sum(dim=(1, 2))
    loss = float(nontarget_losses @ group.nontarget_units)
    loss += float(softplus(-target_logits) @ group.target_units)
    if into_slopes:
        logits.sigmoid_()
        logits *= group.nontarget_units[:, None, None]
        flat[group.targets] = torch.sigmoid(-target_logits).mul_(-group.target_units)
    return loss


def _pull(
    prepared: list[_Prepared],
    group: _Group,
    values: list[Tensor],
    inputs: list[Tensor],
    slope: Tensor,
) -> None:
    """Send the slopes of the loss back through the stages, last first; overwrites the values."""
    for stage in reversed(range(len(inputs))):
        scale, shift = 1 + 2 * stage, 2 + 2 * stage
        prepared[shift].pull(group, slope)
        prepared[scale].pull(group, inputs[stage].mul_(slope))
        slope = values[scale].mul_(slope)
    prepared[0].pull(group, slope)


def _save_gradients(ctx: Any, prepared: Sequence[_Prepared]) -> None:
    gradients: list[Tensor | None] = []
    for i, form in enumerate(prepared):
        gradients += form.gradients(need_x=ctx.needs_input_grad[2 + 5 * i])
    ctx.gradients = gradients
