"""Steps of a joint scorer: LDA, axes and variances learn from trials of several utterances.

The score of n utterances against m is the closed form of the same few variances
(runtime/joint/terms.py), so what is learnt holds for every number. The calibration that the loss
needs is learnt beside them and thrown away: episodes fit the real one, with scorers that have made
their steps without the people, or the places, of the episode.
"""

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from dcaplda.eval.metrics.calibration import fit_affine
from dcaplda.runtime.decision import log_odds
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.joint.scorer import JointScorer, quadratic_basis
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.axes import AxisScore
from dcaplda.train.model.backend import Affine
from dcaplda.train.model.quadratic import Quadratic
from dcaplda.train.plda.covariances import Array
from dcaplda.train.recipe.sections import TrainingConfig
from dcaplda.train.start.drawn_sides import Rows, SideDrawer
from dcaplda.train.start.episodes import ENROLLED, TESTED, trial_kinds

PEOPLE = 50
"""Of a domain, in a step."""
SINGLES = 0.5
"""Share of the steps' blocks that are of one utterance against one."""
CLIP = 4.0
"""Longest gradient."""
AVERAGED = 0.5
"""The result is the mean over this last share of the steps."""
FEWEST = 3
"""People that a block of trials needs."""


Block = tuple[Tensor, Tensor, Tensor]
"""Raw scores, LLRs and kinds (1 target, 0 nontarget, 2 neither) of a domain's trials, (P, P)."""


class JointTrials(nn.Module):
    """A joint scorer and a calibration of its own, for sides of any number of utterances."""

    def __init__(self, scorer: JointScorer, features: Array) -> None:
        super().__init__()
        rank, dim = scorer.weight.shape
        self.preprocess = Affine(dim, rank)
        self.axes = AxisScore(rank, dim)
        self.spread = scorer.spread
        self._middle = torch.from_numpy(features.mean(axis=0)).float()
        self._unit = torch.from_numpy(np.maximum(features.std(axis=0), 1e-6)).float()
        width = features.shape[1] + len(scorer.usual) + 1
        self.scale, self.shift = Quadratic(width), Quadratic(width)
        with torch.no_grad():
            self.preprocess.weight.copy_(torch.from_numpy(scorer.weight))
            self.preprocess.bias.copy_(torch.from_numpy(scorer.bias))
            set_axes(self.axes, scorer)

    def side(self, embeddings: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """Means of x and of the conditions; (P, n, D), (P, n, F) -> (P, R), (P, F + 3)."""
        people, count, dim = embeddings.shape
        flat = embeddings.reshape(-1, dim)
        reduced = self.preprocess(flat)
        projected = reduced / torch.linalg.vector_norm(reduced, dim=1, keepdim=True)
        x = self.axes.axes(projected).view(people, count, -1).mean(dim=1)
        lengths = self.axes.lengths(flat, reduced).view(people, count, -1)
        told = ((features - self._middle) / self._unit, lengths)
        conditions = torch.cat(told, dim=2).mean(dim=1)
        number = torch.full((people, 1), float(np.log(count)))
        return x, torch.cat([conditions, number], dim=1)

    def scores(self, enroll: Tensor, n_enroll: int, test: Tensor, n_test: int) -> Tensor:
        """Raw scores of means of n_enroll and of n_test utterances; (E, R), (T, R) -> (E, T)."""
        spreads = self.spread(n_enroll), self.spread(n_test)
        cross, of_enroll, of_test, constant = self.axes.several_terms(*spreads)
        own = (enroll**2 @ of_enroll)[:, None] + (test**2 @ of_test)[None, :]
        return (enroll * cross) @ test.T + own + constant

    def scorer(self, scorer: JointScorer) -> JointScorer:
        """The scorer of these parameters; what is measured of the data is still the former."""
        values = {n: p.detach().double().numpy() for n, p in self.named_parameters()}
        between = np.exp(values["axes.log_between"])
        offset = np.exp(values["axes.log_offset"])
        return replace(
            scorer,
            weight=values["preprocess.weight"],
            bias=values["preprocess.bias"],
            turn=values["axes.turn"],
            centre=values["axes.centre"],
            between=between,
            offset=offset,
            prior_offset=offset,
            quadratics=quadratic_basis(between, offset),
        )


def set_axes(score: AxisScore, joint: JointScorer) -> None:
    """Give a model's axes the values of a scorer; the caller has gradients off."""
    for name, values in (
        ("turn", joint.turn),
        ("centre", joint.centre),
        ("log_between", np.log(joint.between)),
        ("log_offset", np.log(joint.offset)),
        ("correlation", np.array(joint.correlation)),
        ("same_score", np.array(joint.same_score)),
        ("embedding_mean", joint.embedding_mean),
        ("length", np.array(joint.length)),
        ("usual", joint.usual),
        ("reach", joint.reach),
        ("usual_ease", np.array(joint.usual_ease)),
        ("reach_ease", np.array(joint.reach_ease)),
        ("told_count", np.array(joint.told_count)),
    ):
        getattr(score, name).copy_(torch.from_numpy(values))
    if score.places and joint.trained is not None:
        for name, values in joint.trained._asdict().items():
            getattr(score, f"trained_{name}").copy_(torch.from_numpy(values))


class Blocks:
    """Trials of a domain, drawn and scored."""

    def __init__(self, model: JointTrials, data: TrainingData, features: Array) -> None:
        self.model, self.data = model, data
        self.features = torch.from_numpy(features).float()
        self.drawer = SideDrawer(data)
        self.rng = np.random.default_rng(0)
        self.domains = [k for k, own in enumerate(self.drawer.people) if len(own) >= FEWEST]

    def numbers(self) -> tuple[int, int]:
        """Utterances of either side."""
        if self.rng.random() < SINGLES:
            return 1, 1
        return int(self.rng.choice(ENROLLED)), int(self.rng.choice(TESTED))

    def block(
        self, domain: int, n_enroll: int, n_test: int
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        """Trials of some people; None if too few have so many utterances."""
        enroll, test = self.drawer.draw(domain, PEOPLE, n_enroll, n_test, self.rng)
        if len(enroll) < FEWEST:
            return None
        (x_enroll, told_enroll), (x_test, told_test) = self._side(enroll), self._side(test)
        scores = self.model.scores(x_enroll, n_enroll, x_test, n_test)
        scale = self.model.scale(told_enroll, told_test)
        llrs = scale * scores + self.model.shift(told_enroll, told_test)
        kinds = torch.from_numpy(trial_kinds(self.data, enroll, test))
        return scores, llrs, kinds

    def loss(self, prior: float) -> Tensor | None:
        """Of new trials of every domain, each counting the same; None if none could be drawn."""
        found = [self.block(domain, *self.numbers()) for domain in self.domains]
        losses = [block_loss(b[1], b[2], prior) for b in found if b is not None]
        return torch.stack(losses).mean() if losses else None

    def _side(self, rows: Rows) -> tuple[Tensor, Tensor]:
        vectors = torch.from_numpy(np.asarray(self.data.embeddings[rows.ravel()], np.float32))
        return self.model.side(vectors.view(*rows.shape, -1), self.features[torch.from_numpy(rows)])


def improved(
    scorer: JointScorer, data: TrainingData, features: Array, config: TrainingConfig
) -> JointScorer:
    """The scorer after the recipe's steps on these data; `features` are the durations', (n, F)."""
    model = JointTrials(scorer, features)
    blocks = Blocks(model, data, features)
    if not config.init.joint_steps or not blocks.domains:
        return scorer
    start_calibration(blocks, config.objective.prior)
    learn(blocks, config)
    return model.scorer(scorer)


def learn(blocks: Blocks, config: TrainingConfig) -> None:
    """The recipe's steps; the model is then the mean of the last ones."""
    steps, prior = config.init.joint_steps, config.objective.prior
    parameters = list(blocks.model.parameters())
    adam = torch.optim.Adam(parameters, lr=config.init.joint_rate)
    sums = [torch.zeros_like(p) for p in parameters]
    first = steps - max(1, round(AVERAGED * steps))
    for step in range(steps):
        loss = blocks.loss(prior)
        if loss is not None:
            if not math.isfinite(loss.item()):
                raise ModelError(
                    f"joint step {step + 1}: the loss is {loss.item():g}; try a lower "
                    f"init.joint_rate than {config.init.joint_rate:g}"
                )
            adam.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, CLIP)
            adam.step()
        if step >= first:
            with torch.no_grad():
                for total, parameter in zip(sums, parameters, strict=True):
                    total += parameter
    with torch.no_grad():
        for total, parameter in zip(sums, parameters, strict=True):
            parameter.copy_(total / (steps - first))


def block_loss(llrs: Tensor, kinds: Tensor, prior: float) -> Tensor:
    """Cross-entropy at the prior (eq. 14), targets and nontargets each of one mass."""
    gamma = log_odds(prior)
    targets = nn.functional.softplus(-(llrs[kinds == 1] + gamma))
    nontargets = nn.functional.softplus(llrs[kinds == 0] + gamma)
    return prior * targets.mean() + (1.0 - prior) * nontargets.mean()


def start_calibration(blocks: Blocks, prior: float) -> None:
    """One scale and one shift, of single utterances of every domain."""
    with torch.no_grad():
        found = [b for d in blocks.domains if (b := blocks.block(d, 1, 1)) is not None]
        target, nontarget = (
            torch.cat([scores[kinds == kind] for scores, _, kinds in found]).double().numpy()
            for kind in (1, 0)
        )
        scale, shift = fit_affine(target, nontarget, prior)
        blocks.model.scale.offset.fill_(scale)
        blocks.model.shift.offset.fill_(shift)
