"""The second-order form of the paper's eq. 9, used for the score and for every calibration."""

import torch
from torch import Tensor, nn


class Quadratic(nn.Module):
    """2 a'Lambda b + a'Gamma a + b'Gamma b + c'(a + b) + k, symmetric in its two sides.

    `cross` is Lambda, `auto` Gamma, `linear` c, `offset` k. The stored matrices are free;
    their symmetric part is what counts, so an optimiser step cannot make the form depend on
    the order of its sides.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.cross = nn.Parameter(torch.zeros(dim, dim))
        self.auto = nn.Parameter(torch.zeros(dim, dim))
        self.linear = nn.Parameter(torch.zeros(dim))
        self.offset = nn.Parameter(torch.zeros(()))

    def symmetric_cross(self) -> Tensor:
        """Lambda, symmetrised."""
        return 0.5 * (self.cross + self.cross.T)

    def symmetric_auto(self) -> Tensor:
        """Gamma, symmetrised."""
        return 0.5 * (self.auto + self.auto.T)

    def own(self, x: Tensor) -> Tensor:
        """What one side adds by itself: x'Gamma x + c'x; (n, R) -> (n,)."""
        return ((x @ self.symmetric_auto()) * x).sum(dim=1) + x @ self.linear

    def forward(self, enroll: Tensor, test: Tensor) -> Tensor:
        """The form for every enrolment against every test; (nE, R), (nT, R) -> (nE, nT)."""
        cross = 2.0 * (enroll @ self.symmetric_cross()) @ test.T
        return cross + self.own(enroll)[:, None] + self.own(test)[None, :] + self.offset
