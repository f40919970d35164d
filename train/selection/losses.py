"""Losses of a model on the development sets, and the average that selects models."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dcaplda.eval.metrics.scalars import cllr, eer, min_cllr_lin
from dcaplda.train.model.backend import Backend
from dcaplda.train.model.forms import Factors, model_forms
from dcaplda.train.recipe.problems import Problems
from dcaplda.train.recipe.sections import DevSection
from dcaplda.train.selection.devsets import DevSet, DevSource, load_dev_source


@dataclass(frozen=True)
class Losses:
    """Actual Cllr per set, the weighted average, and where asked the minimum per set."""

    average: float
    actual: dict[str, float]
    minimum: dict[str, float] = field(default_factory=dict)


class Evaluator:
    """All development sets, in memory and ready."""

    def __init__(self, sources: Sequence[DevSource], prior: float) -> None:
        self.sources = sources
        self.prior = prior

    @classmethod
    def load(
        cls,
        sections: Sequence[DevSection],
        embedding_dim: int | None,
        need_durations: bool,
        prior: float,
        device: torch.device,
        problems: Problems | None = None,
    ) -> "Evaluator":
        """Read every [[dev]] section of a recipe; those with problems are left out and noted.

        Without `problems`, what was noted is raised. Without `embedding_dim`, sizes of vectors are
        not compared.
        """
        noted = Problems() if problems is None else problems
        sources = []
        for section in sections:
            with noted.catching():
                sources.append(load_dev_source(section, embedding_dim, need_durations, device))
        if problems is None:
            noted.refuse()
        return cls(sources, prior)

    @property
    def sets(self) -> list[DevSet]:
        """The sets in the order of the recipe."""
        return [dev for source in self.sources for dev in source.sets]

    @torch.no_grad()
    def llrs(self, model: Backend) -> dict[str, Tensor]:
        """LLR of every trial of every set."""
        results = {}
        for source in self.sources:
            forms = model_forms(model, source.embeddings, source.seconds)
            factors = [Factors(form) for form in forms]
            for dev in source.sets:
                results[dev.name] = dev.llrs(dev.plan.values(factors))
        return results

    def evaluate(self, model: Backend, minimum: bool = False) -> Losses:
        """Losses at the training prior; `minimum` also fits each set's best affine map."""
        llrs = self.llrs(model)
        actual = {dev.name: dev.loss(llrs[dev.name], self.prior) for dev in self.sets}
        weights = np.array([dev.weight for dev in self.sets])
        average = float(weights @ np.array(list(actual.values())) / weights.sum())
        lowest = {}
        if minimum:
            for dev in self.sets:
                target, nontarget = split_scores(dev, llrs[dev.name])
                lowest[dev.name] = min_cllr_lin(target, nontarget, self.prior)
        return Losses(average, actual, lowest)

    def report(self, model: Backend) -> list[dict[str, float | str | int]]:
        """The metrics of the summary: both of the paper's priors, actual and minimum, and EER."""
        llrs = self.llrs(model)
        rows: list[dict[str, float | str | int]] = []
        for dev in self.sets:
            target, nontarget = split_scores(dev, llrs[dev.name])
            row: dict[str, float | str | int] = {
                "name": dev.name,
                "group": dev.group,
                "weight": dev.weight,
                "targets": target.size,
                "nontargets": nontarget.size,
                "eer": eer(target, nontarget),
            }
            for prior in sorted({0.5, 0.01, self.prior}):
                row[f"cllr@{prior:g}"] = cllr(target, nontarget, prior)
                row[f"min_cllr@{prior:g}"] = min_cllr_lin(target, nontarget, prior)
            rows.append(row)
        return rows


def split_scores(dev: DevSet, llrs: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """LLRs of the target and of the nontarget trials, for eval/."""
    targets = dev.targets
    return llrs[targets].double().cpu().numpy(), llrs[~targets].double().cpu().numpy()
