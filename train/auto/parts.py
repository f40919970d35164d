"""Parts of the data that take turns in being held out, and the trials that their people make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from dcaplda.train.data.batches import make_batch
from dcaplda.train.data.folds import Part, Rows, speaker_parts
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.model.backend import Backend
from dcaplda.train.recipe.sections import HeldOutSection

Array = NDArray[np.float64]
People = NDArray[np.int32]

PEOPLE_OF_DOMAIN, OF_PERSON = 100, 8
"""People of a domain, and utterances of each, that make a part's trials."""
MOST_PEOPLE = 10_000
"""People that models without a part are trained on: more would only take longer."""


@dataclass(frozen=True)
class Turn:
    """A part whose turn comes, and what it is made of."""

    part: Part
    kind: str
    """people, or domain."""


@dataclass(frozen=True)
class DomainTrials:
    """LLRs of the trials of one domain of a part."""

    domain: str
    targets: Array
    nontargets: Array
    people: tuple[People, People] | None = None
    """Who is in each target trial (n,) and each nontarget trial (n, 2), where that is asked for."""

    def moved(self, scale: float, shift: float) -> "DomainTrials":
        """With every LLR scaled and shifted."""
        moved = scale * self.targets + shift, scale * self.nontargets + shift
        return DomainTrials(self.domain, *moved, self.people)


Scored = Sequence[tuple[Turn, list[DomainTrials]]]
"""Parts, and the trials of each that models without it scored."""


def turns_of(data: TrainingData, section: HeldOutSection) -> list[Turn]:
    """Folds of people, then groups of domains put into few parts."""
    turns = []
    if section.people:
        turns += [Turn(part, "people") for part in speaker_parts(data, section.people)]
    groups = data.domain_group
    if section.domains and groups.max() > 0:
        turns += [Turn(part, "domain") for part in _group_parts(data, section.domains)]
    return turns


def _group_parts(data: TrainingData, most: int) -> list[Part]:
    """Groups of domains in at most so many parts, the largest first to the part with fewest."""
    groups = data.domain_group
    of_row = groups[data.domain]
    sizes = [len(np.unique(data.identity[of_row == g])) for g in range(int(groups.max()) + 1)]
    count = min(most, len(sizes))
    held = [0] * count
    home = np.zeros(len(sizes), dtype=np.int64)
    for group in np.argsort(sizes, kind="stable")[::-1]:
        home[group] = int(np.argmin(held))
        held[home[group]] += sizes[group]
    names = np.array(data.domain_names)
    return [
        Part(
            "+".join(names[home[groups] == number].tolist()),
            np.flatnonzero(home[of_row] == number),
            np.flatnonzero(home[of_row] != number),
        )
        for number in range(count)
    ]


def training_rows(data: TrainingData, others: Rows, balanced: bool) -> Rows:
    """Rows to train on without a part: people of all domains, not more than are needed.

    `balanced` batches need two speakers of a domain.
    """
    rows = others
    people = np.unique(data.identity[rows])
    if len(people) > MOST_PEOPLE:
        chosen = np.random.default_rng(0).choice(people, MOST_PEOPLE, replace=False)
        rows = rows[np.isin(data.identity[rows], chosen)]
    if balanced:
        speakers = np.unique(data.speaker[rows])
        counts = np.bincount(data.speaker_domain[speakers], minlength=len(data.domain_names))
        rows = rows[counts[data.domain[rows]] >= 2]
    return rows


@torch.no_grad()
def score_part(
    model: Backend, data: TrainingData, rows: Rows, device: torch.device, named: bool = False
) -> list[DomainTrials]:
    """Trials of a part's people by a model; see `part_trials`."""

    def llrs(chosen: Rows) -> Array:
        x = torch.from_numpy(data.embeddings[chosen]).to(device)
        seconds = torch.from_numpy(data.seconds[chosen]).to(device)
        found: Array = model(x, seconds, x, seconds).double().cpu().numpy()
        return found

    return part_trials(data, rows, llrs, named)


def part_trials(
    data: TrainingData, rows: Rows, score: Callable[[Rows], Array], named: bool = False
) -> list[DomainTrials]:
    """All pairs of some utterances of each domain, once each, never two of one session.

    `score` gives the scores of each row against each; `named` also tells who is in each trial.
    """
    found = []
    ones = np.ones(len(data.domain_names))
    for domain in np.unique(data.domain[rows]):
        own = _some(data, rows[data.domain[rows] == domain])
        batch = make_batch(data, own, ones)
        block = batch.blocks[0]
        kind = np.zeros(block.size**2, dtype=np.int8)  # 0 nontarget, 1 target, 2 neither
        kind[block.targets] = 1
        kind[block.excluded] = 2
        kind[np.tri(block.size, dtype=bool).ravel()] = 2
        scores = score(batch.rows).ravel()
        targets, nontargets = np.flatnonzero(kind == 1), np.flatnonzero(kind == 0)
        if not (targets.size and nontargets.size):
            continue
        people = None
        if named:
            who = data.identity[batch.rows].astype(np.int32)
            pairs = np.stack([who[nontargets // block.size], who[nontargets % block.size]], axis=1)
            people = who[targets // block.size], pairs
        name = data.domain_names[domain]
        found.append(DomainTrials(name, scores[targets], scores[nontargets], people))
    return found


def _some(data: TrainingData, rows: Rows) -> Rows:
    """Utterances of some people, of as many sessions of each as possible."""
    rng = np.random.default_rng(0)
    people = rng.permutation(np.unique(data.identity[rows]))[:PEOPLE_OF_DOMAIN]
    mixed = rng.permutation(rows[np.isin(data.identity[rows], people)])
    # The first utterance of every session, then the second, ...
    turn = _number_within(data.session[mixed])
    mixed = mixed[np.argsort(turn, kind="stable")]
    return np.sort(mixed[_number_within(data.identity[mixed]) < OF_PERSON])


def _number_within(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """How many equal labels come before each."""
    order = np.argsort(labels, kind="stable")
    edges = np.concatenate([[0], np.flatnonzero(np.diff(labels[order])) + 1])
    sizes = np.diff(np.concatenate([edges, [len(labels)]]))
    numbers = np.empty(len(labels), dtype=np.int64)
    numbers[order] = np.arange(len(labels)) - np.repeat(edges, sizes)
    return numbers
