"""The whole backend in torch: one stage per method, one equation per line.

This is the readable definition. Training uses a faster arrangement of the same arithmetic
(loss.py), export an algebraically simplified one; both are tested against this.
"""

import torch
from torch import Tensor, nn

from dcaplda.train.model import durations
from dcaplda.train.model.axes import LENGTHS, AxisScore
from dcaplda.train.model.config import ModelConfig
from dcaplda.train.model.ops import TORCH, activate
from dcaplda.train.model.quadratic import Quadratic

CONDITIONS = LENGTHS + 3
"""Values of e beside the duration's in a joint model: the embedding's lengths before and after LDA,
the ease of the place, log of the number of utterances, and how well the place is known. The last
three are 0 for one utterance of a place of which nothing is known; lengths are 0 where they are the
usual ones."""


class Affine(nn.Module):
    """y = A x + b, with A stored as (out, in)."""

    def __init__(self, in_dim: int, out_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_dim, in_dim))
        self.bias = nn.Parameter(torch.zeros(out_dim))

    def forward(self, x: Tensor) -> Tensor:
        """(n, in) -> (n, out)."""
        return x @ self.weight.T + self.bias


def length_normalized(x: Tensor) -> Tensor:
    """Norm of eq. 4: each row divided by its Euclidean length."""
    return x / torch.linalg.vector_norm(x, dim=1, keepdim=True)


class Backend(nn.Module):
    """Embeddings and seconds of both sides to calibrated log-likelihood ratios.

    A new instance has all parameters zero except the calibration scales, which pass the
    score through; init.py gives it start values, store.py reads trained ones.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        stages = config.stages
        self.preprocess = Affine(config.embedding_dim, config.lda_dim)
        self.plda: Quadratic | AxisScore = Quadratic(config.lda_dim)
        if config.joint:
            self.plda = AxisScore(config.lda_dim, config.embedding_dim, config.trained_places)
        self.scale_dur: Quadratic | None = None
        self.shift_dur: Quadratic | None = None
        self.scale_side: Quadratic | None = None
        self.shift_side: Quadratic | None = None
        self.duration_parameters = durations.resolve(
            config.duration_feature, config.duration_parameters
        )
        if stages.duration_stage:
            dim = durations.width(config.duration_feature, self.duration_parameters)
            dim += CONDITIONS if config.joint else 0
            self.scale_dur, self.shift_dur = Quadratic(dim), Quadratic(dim)
            nn.init.ones_(self.scale_dur.offset)
            if config.joint:
                # Trials between two places, which no batch has: fitted at the start, kept as they
                # are, and used by the runtime alone.
                self.scale_across, self.shift_across = Quadratic(dim), Quadratic(dim)
                nn.init.ones_(self.scale_across.offset)
            if config.recordings:  # and so are those within one recording
                self.scale_within, self.shift_within = Quadratic(dim), Quadratic(dim)
                nn.init.ones_(self.scale_within.offset)
        if stages.side_stage:
            self.side_projection = Affine(config.embedding_dim, config.side_hidden_dim)
            self.side_reduction = Affine(config.side_hidden_dim, config.side_info_dim)
            self.scale_side = Quadratic(config.side_info_dim)
            self.shift_side = Quadratic(config.side_info_dim)
            nn.init.ones_(self.scale_side.offset)
        if not (stages.duration_stage or stages.side_stage):
            self.scale = nn.Parameter(torch.ones(()))
            self.shift = nn.Parameter(torch.zeros(()))

    def projected(self, embedding: Tensor) -> Tensor:
        """w = Norm(A_p x + m_p) (eq. 4); (n, D) -> (n, R)."""
        return length_normalized(self.preprocess(embedding))

    def side_hidden(self, embedding: Tensor) -> Tensor:
        """m = Norm(A_m x + b_m) (eq. 20); (n, D) -> (n, M)."""
        return length_normalized(self.side_projection(embedding))

    def side_info_of(self, side_hidden: Tensor) -> Tensor:
        """z = f(A_z m + b_z) (eq. 19); (n, M) -> (n, Z)."""
        return activate(TORCH, self.config.side_activation, self.side_reduction(side_hidden))

    def side_info(self, embedding: Tensor) -> Tensor:
        """z of an embedding (eq. 20, then 19); (n, D) -> (n, Z)."""
        return self.side_info_of(self.side_hidden(embedding))

    def duration_features(self, seconds: Tensor, embedding: Tensor | None = None) -> Tensor:
        """e of the seconds of speech (eq. 23-25); (n,) -> (n, F).

        A joint model's has the other conditions behind; without `embedding` its length is usual.
        """
        features: Tensor = durations.apply(
            TORCH, self.config.duration_feature, self.duration_parameters, seconds
        )
        if not isinstance(self.plda, AxisScore):
            return features
        if embedding is None:
            return torch.nn.functional.pad(features, (0, CONDITIONS))
        lengths = self.plda.lengths(embedding, self.preprocess(embedding))
        return torch.nn.functional.pad(torch.cat([features, lengths], dim=1), (0, 3))

    def inputs(self, embedding: Tensor, seconds: Tensor | None) -> dict[str, Tensor]:
        """What the second-order forms of one side work on: w, and where used m and e."""
        parts = {"projected": self.projected(embedding)}
        if self.scale_side is not None:
            parts["side_hidden"] = self.side_hidden(embedding)
        if self.scale_dur is not None:
            assert seconds is not None, "a model with a duration stage needs seconds"
            parts["duration_features"] = self.duration_features(seconds, embedding)
        return parts

    def llrs(self, enroll: dict[str, Tensor], test: dict[str, Tensor]) -> Tensor:
        """alpha_s (alpha_d s + beta_d) + beta_s (eq. 16 twice) from both sides' inputs."""
        llr = self.plda(enroll["projected"], test["projected"])
        if self.scale_dur is not None and self.shift_dur is not None:
            e = enroll["duration_features"], test["duration_features"]
            llr = self.scale_dur(*e) * llr + self.shift_dur(*e)  # alpha_d, beta_d: eq. 21, eq. 22
        if self.scale_side is not None and self.shift_side is not None:
            z = self.side_info_of(enroll["side_hidden"]), self.side_info_of(test["side_hidden"])
            llr = self.scale_side(*z) * llr + self.shift_side(*z)  # alpha_s, beta_s: eq. 17, eq. 18
        if self.scale_dur is None and self.scale_side is None:
            llr = self.scale * llr + self.shift
        return llr

    def forward(
        self,
        enroll_embedding: Tensor,
        enroll_seconds: Tensor | None,
        test_embedding: Tensor,
        test_seconds: Tensor | None,
    ) -> Tensor:
        """LLR of every enrolment against every test; (nE, D), (nE,), (nT, D), (nT,) -> (nE, nT)."""
        return self.llrs(
            self.inputs(enroll_embedding, enroll_seconds), self.inputs(test_embedding, test_seconds)
        )
