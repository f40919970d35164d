"""The loss written out over the full matrix of trials: the definition that loss.py must equal.

Slow on purpose: every equation as the paper has it, gradient by autograd. Tests and the
benchmark use it.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from dcaplda.eval.metrics.calibration import entropy
from dcaplda.runtime.decision import log_odds
from dcaplda.train.model.backend import Backend


def plain_loss(
    model: Backend,
    embeddings: Tensor,
    seconds: Tensor | None,
    identity: Tensor,
    session: Tensor,
    domain: Tensor,
    prior: float,
    domain_weight: Tensor | None = None,
) -> Tensor:
    """Eq. 14 over all same-domain, different-session pairs of n samples, normalized.

    `identity`, `session` and `domain` are (n,) labels; `domain_weight` has one number per domain.
    """
    llrs = model(embeddings, seconds, embeddings, seconds)
    counts = (domain[:, None] == domain[None, :]) & (session[:, None] != session[None, :])
    same = identity[:, None] == identity[None, :]
    weight = torch.ones_like(llrs)
    if domain_weight is not None:
        weight = domain_weight.to(llrs.dtype)[domain][:, None].expand_as(llrs)
    targets, nontargets = counts & same, counts & ~same
    logits = llrs + log_odds(prior)
    target_loss = (weight * softplus(-logits))[targets].sum() / weight[targets].sum()
    nontarget_loss = (weight * softplus(logits))[nontargets].sum() / weight[nontargets].sum()
    return (prior * target_loss + (1.0 - prior) * nontarget_loss) / entropy(prior)
