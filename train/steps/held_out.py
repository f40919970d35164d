"""Joint training that does not believe its own start values.

The start fits the training speakers: their scores are better than those of new speakers, and a
gradient taken there makes the model surer than it should be. So each batch has people of one
part (a fold of speakers, or a group of domains), and its gradient is taken where LDA and PLDA
would have started without that part. The steps themselves move one model: what is learnt is the
change from the start, common to all parts.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.batches import Batch, BatchWalker
from dcaplda.train.data.folds import Part, domain_parts, speaker_parts
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.rings import Ints
from dcaplda.train.model.backend import Backend
from dcaplda.train.plda.covariances import Array
from dcaplda.train.plda.generative import Generative, fit_generative
from dcaplda.train.recipe.sections import BatchSection, TrainingConfig


@dataclass(frozen=True)
class HeldOut:
    """The parts, and for each what its start has more than the start of all."""

    parts: list[Part]
    differences: list[dict[str, Tensor]]


def find_held_out(
    data: TrainingData, config: TrainingConfig, start: Generative, device: torch.device
) -> HeldOut:
    """Fit LDA and PLDA without each part."""
    parts = held_out_parts(data, config.batch)
    differences = []
    own = _values(start)
    for part in parts:
        fitted = fit_generative(data, config.init, start.lda_dim, [], part.others)
        found = aligned(fitted, start)
        differences.append(
            {
                name: torch.from_numpy(np.asarray(found[name] - own[name], dtype=np.float32)).to(
                    device
                )
                for name in own
            }
        )
    return HeldOut(parts, differences)


def holds_out(section: BatchSection) -> bool:
    """Whether batches are of parts that are held out."""
    return section.held_out_folds > 0 or section.held_out_domains


def held_out_parts(data: TrainingData, section: BatchSection) -> list[Part]:
    """The parts that are held out in turn, each with nontargets."""
    parts: list[Part] = []
    if section.held_out_folds:
        parts += speaker_parts(data, section.held_out_folds)
    if section.held_out_domains:
        parts += domain_parts(data)
    parts = [part for part in (_with_nontargets(data, part) for part in parts) if part.rows.size]
    if not parts:
        raise InputError("no held-out part has two speakers of a domain; use fewer folds")
    return parts


def _with_nontargets(data: TrainingData, part: Part) -> Part:
    """The part without domains of which it has one speaker only."""
    speakers = np.unique(data.speaker[part.rows])
    counts = np.bincount(data.speaker_domain[speakers], minlength=len(data.domain_names))
    return replace(part, rows=part.rows[counts[data.domain[part.rows]] >= 2])


def _values(generative: Generative, rotation: Array | None = None) -> dict[str, Array]:
    """The parameters of the model that come from LDA and PLDA, by name, rotated in between."""
    weight, bias = generative.lda.first(generative.lda_dim)
    form = generative.form
    turn = np.eye(len(bias)) if rotation is None else rotation
    return {
        "preprocess.weight": turn @ weight,
        "preprocess.bias": turn @ bias,
        "plda.cross": turn @ form.cross @ turn.T,
        "plda.auto": turn @ form.auto @ turn.T,
        "plda.linear": turn @ form.linear,
        "plda.offset": np.asarray(form.offset),
    }


def aligned(generative: Generative, reference: Generative) -> dict[str, Array]:
    """Parameters of the same scores, rotated so that LDA lies closest to the reference's.

    Length normalization and the form do not see a rotation, but a change learnt from one start
    can only be added to another where both have the same axes.
    """
    weight = generative.lda.first(generative.lda_dim)[0]
    left, _, right = np.linalg.svd(reference.lda.first(reference.lda_dim)[0] @ weight.T)
    return _values(generative, left @ right)


@contextlib.contextmanager
def at_held_out_start(model: Backend, held_out: HeldOut | None, part: int | None) -> Iterator[None]:
    """Within: the model as if it had started without the part; after: bit for bit as before."""
    if held_out is None or part is None:
        yield
        return
    parameters = dict(model.named_parameters())
    differences = held_out.differences[part]
    before = {name: parameters[name].detach().clone() for name in differences}
    with torch.no_grad():
        for name, difference in differences.items():
            parameters[name].add_(difference)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, value in before.items():
                parameters[name].copy_(value)


def batch_of_part(own: TrainingData, section: BatchSection) -> BatchSection:
    """How batches of a part's own data are drawn."""
    weights = {k: v for k, v in section.domain_weights.items() if k in own.domain_names}
    # A part has few speakers of a domain, and more of their sessions serve as well.
    return replace(section, repeat_speakers=True, domain_weights=weights)


class HeldOutWalker:
    """Batches of one part each, parts drawn at random; interface of BatchWalker."""

    def __init__(
        self, data: TrainingData, section: BatchSection, seed: int, parts: list[Part]
    ) -> None:
        self.rng = np.random.default_rng([seed, 1])
        self.parts = parts
        self.walkers = []
        for part in parts:
            own = data.subset(part.rows)
            self.walkers.append(BatchWalker(own, batch_of_part(own, section), seed, self.rng))

    def next_batch(self) -> Batch:
        """Draw a part, then a batch of it; rows are those of all the data."""
        number = int(self.rng.integers(len(self.parts)))
        batch = self.walkers[number].next_batch()
        return replace(batch, rows=self.parts[number].rows[batch.rows], part=number)

    def state(self) -> dict[str, Ints]:
        """Where all lists stand, as arrays."""
        return {
            f"{number}.{key}": value
            for number, walker in enumerate(self.walkers)
            for key, value in walker.state().items()
        }

    def restore(self, state: dict[str, Ints], rng_state: dict[str, object]) -> None:
        """Go back to a saved state."""
        for number, walker in enumerate(self.walkers):
            prefix = f"{number}."
            own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            walker.restore(own, rng_state)
