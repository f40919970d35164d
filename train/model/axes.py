"""The score of a model of place, speaker and sample: eq. 9 on axes of their own.

x = length Norm(turn w - centre) has within-speaker variance 1, and independent axes with the
variances of speakers and of places. A score of two single utterances is a second-order form as any
other; that of several follows from the same variances (runtime/joint), so training them keeps it.
"""

import torch
from torch import Tensor, nn

LENGTHS = 2
"""Conditions that an embedding's own lengths are."""
NO_LIMIT = 1e9
"""Utterances that nobody has."""


class AxisScore(nn.Module):
    """LLR of two utterances of one place whose offset neither side knows.

    `embedding_mean`, `correlation`, `same_score`, `usual_ease`, `reach_ease` and `told_count` take
    no part in it: adaptation and the mean of several utterances use them (JointScorer), and they
    travel with the model; so do training's own places (`trained_...`), where they are kept. `usual`
    are the logarithms of training's lengths of embeddings, before and after LDA, `reach` how far
    others may lie from them.
    """

    correlation: Tensor
    same_score: Tensor
    embedding_mean: Tensor
    length: Tensor
    usual: Tensor
    reach: Tensor
    usual_ease: Tensor
    reach_ease: Tensor
    told_count: Tensor
    trained_shift: Tensor
    trained_centre: Tensor
    trained_mean: Tensor
    trained_left: Tensor
    trained_own: Tensor

    def __init__(self, dim: int, embedding_dim: int, places: int = 0) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.eye(dim))
        self.centre = nn.Parameter(torch.zeros(dim))
        self.log_between = nn.Parameter(torch.zeros(dim))
        self.log_offset = nn.Parameter(torch.zeros(dim))
        self.register_buffer("correlation", torch.zeros(()))
        self.register_buffer("same_score", torch.zeros(()))
        self.register_buffer("embedding_mean", torch.zeros(embedding_dim))
        self.register_buffer("length", torch.ones(()))
        self.register_buffer("usual", torch.zeros(LENGTHS))
        self.register_buffer("reach", torch.ones(LENGTHS))
        self.register_buffer("usual_ease", torch.zeros(()))
        self.register_buffer("reach_ease", torch.ones(()))
        self.register_buffer("told_count", torch.full((), NO_LIMIT))
        self.places = places
        if places:
            self.register_buffer("trained_shift", torch.zeros(places, embedding_dim))
            self.register_buffer("trained_centre", torch.zeros(places, dim))
            self.register_buffer("trained_mean", torch.zeros(places, dim))
            self.register_buffer("trained_left", torch.ones(places, dim))
            self.register_buffer("trained_own", torch.zeros(places))

    def axes(self, projected: Tensor) -> Tensor:
        """x of w; (n, R) -> (n, R)."""
        x = projected @ self.turn.T - self.centre
        return self.length * x / torch.linalg.vector_norm(x, dim=1, keepdim=True)

    def lengths(self, embedding: Tensor, reduced: Tensor) -> Tensor:
        """Logarithms of lengths before and after LDA, over the usual; (n, D), (n, R) -> (n, 2)."""
        both = [torch.linalg.vector_norm(values, dim=1) for values in (embedding, reduced)]
        lengths = torch.log(torch.stack(both, dim=1)) - self.usual
        return torch.maximum(torch.minimum(lengths, self.reach), -self.reach)

    def terms(self) -> tuple[Tensor, Tensor, Tensor]:
        """Coefficients of x_e x_t and of either side's x^2, (R,) each, and the constant.

        Half of the sum of x_e and x_t and half of their difference are independent; the two
        hypotheses give them the variances o + b + 1/2 or o + (b + 1)/2, and 1/2 or (b + 1)/2.
        """
        between, offset = torch.exp(self.log_between), torch.exp(self.log_offset)
        same, other = 2.0 * (offset + between) + 1.0, 2.0 * offset + between + 1.0
        of_sum = 1.0 / same - 1.0 / other
        of_difference = 1.0 - 1.0 / (between + 1.0)
        constant = 0.5 * torch.log(other * (between + 1.0) / same).sum()
        return 0.5 * (of_difference - of_sum), -0.25 * (of_difference + of_sum), constant

    def several_terms(
        self, spread_enroll: float, spread_test: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`terms` of means of several utterances, whose u are given (runtime/joint/terms.py)."""
        between, offset = torch.exp(self.log_between), torch.exp(self.log_offset)
        same = _gaussian(offset + between, spread_enroll, spread_test)
        other = _gaussian(offset, between + spread_enroll, between + spread_test)
        cross, of_enroll, of_test = (a - b for a, b in zip(same[1:], other[1:], strict=True))
        return cross, of_enroll, of_test, 0.5 * torch.log(other[0] / same[0]).sum()

    def forward(self, enroll: Tensor, test: Tensor) -> Tensor:
        """The score of every enrolment against every test; (nE, R), (nT, R) -> (nE, nT)."""
        cross, own, constant = self.terms()
        enroll, test = self.axes(enroll), self.axes(test)
        return (
            (enroll * cross) @ test.T
            + (enroll**2 @ own)[:, None]
            + (test**2 @ own)[None, :]
            + constant
        )


def _gaussian(
    shared: Tensor, enroll: Tensor | float, test: Tensor | float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Determinant of two sides with this covariance and this variance of their own each, and the
    coefficients of the density's logarithm.

    The determinant as a sum: (shared + enroll) (shared + test) - shared^2 would lose all digits
    where places differ much more than speakers.
    """
    determinant = shared * (enroll + test) + enroll * test
    halved = -0.5 / determinant
    return determinant, shared / determinant, (shared + test) * halved, (shared + enroll) * halved
