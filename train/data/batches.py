"""Which speakers, sessions and samples meet in a batch, and which of their pairs are trials.

The paper's two ways: N/2 speakers as they come (flat), or N/2/D of each of D domains. Every
speaker brings two samples of different sessions. Trials are all pairs of one domain except
those of the same session, so a batch is a list of blocks, one per domain, never the N x N
matrix.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.rings import Ints, Rings
from dcaplda.train.recipe.sections import BatchSection


@dataclass(frozen=True)
class Block:
    """The trials of one domain: samples start..stop of the batch, each against each.

    Nearly all pairs are nontargets. The others are listed by their place in the block's
    flattened matrix: `targets`, and `excluded` (same session, which includes the diagonal).
    """

    start: int
    stop: int
    targets: Ints
    excluded: Ints
    weight: float

    @property
    def size(self) -> int:
        """Samples of the block."""
        return self.stop - self.start

    @property
    def n_nontargets(self) -> int:
        """Pairs of different speakers and sessions; each pair counts twice, once per order."""
        return self.size * self.size - len(self.targets) - len(self.excluded)


@dataclass(frozen=True)
class Batch:
    """Rows of the training data, domain by domain, and their trials."""

    rows: Ints
    blocks: tuple[Block, ...]
    part: int | None = None
    """Which part of the speakers the batch is of, where parts are held out (held_out.py)."""

    @property
    def target_mass(self) -> float:
        """Sum of the weights of the target trials."""
        return sum(block.weight * len(block.targets) for block in self.blocks)

    @property
    def nontarget_mass(self) -> float:
        """Sum of the weights of the nontarget trials."""
        return sum(block.weight * block.n_nontargets for block in self.blocks)


def make_batch(
    data: TrainingData,
    rows: Ints,
    weights: NDArray[np.float64],
    groups: NDArray[np.integer] | None = None,
) -> Batch:
    """Sort rows by domain and list each domain's trials; `weights` has one number per domain.

    With `groups`, one number per domain, the trials are those of each group of domains. A
    trial then weighs less by the number of domains of its group, so that a group counts as
    its domains do.
    """
    if groups is not None:
        weights = weights / np.bincount(groups)[groups]
    label = data.domain if groups is None else groups[data.domain]
    rows = rows[np.argsort(label[rows], kind="stable")]
    domains = data.domain[rows]
    edges = np.flatnonzero(np.diff(label[rows])) + 1
    starts, stops = [0, *edges.tolist()], [*edges.tolist(), len(rows)]
    blocks = []
    for start, stop in zip(starts, stops, strict=True):
        session = data.session[rows[start:stop]]
        one, other = _equal_pairs(data.identity[rows[start:stop]])
        apart = session[one] != session[other]
        targets = one[apart] * (stop - start) + other[apart]
        one, other = _equal_pairs(session)
        excluded = one * (stop - start) + other
        weight = float(weights[np.unique(domains[start:stop])].mean())
        blocks.append(Block(start, stop, targets, excluded, weight))
    return Batch(rows, tuple(blocks))


def _equal_pairs(labels: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """All (i, j), i = j included, with equal labels; without forming the n x n matrix."""
    order = np.argsort(labels, kind="stable")
    _, group, sizes = np.unique(labels[order], return_inverse=True, return_counts=True)
    starts = np.cumsum(sizes) - sizes
    partners = sizes[group]  # of each sample, itself included
    one = np.repeat(np.arange(len(labels)), partners)
    within = np.arange(len(one)) - np.repeat(np.cumsum(partners) - partners, partners)
    return order[one], order[starts[group][one] + within]


def domain_weights(data: TrainingData, section: BatchSection) -> NDArray[np.float64]:
    """Weight of each domain's trials in the loss."""
    for name in section.domain_weights:
        if name not in data.domain_names:
            raise InputError(
                f"batch.domain_weights: no domain '{name}' in the training data; there are "
                f"{', '.join(data.domain_names)}"
            )
    weights = np.array([section.domain_weights.get(name, 1.0) for name in data.domain_names])
    if not weights.any():
        raise InputError("batch.domain_weights: all domains have weight 0; nothing to train on")
    return weights


def checked_share(data: TrainingData, section: BatchSection) -> int:
    """Speakers drawn from each list: one list per domain, or a single one.

    A list shorter than its share would put a speaker in a batch more than once.
    """
    balanced = section.balance == "domain"
    available = np.bincount(data.speaker_domain) if balanced else np.array([data.n_speakers])
    share = section.size // 2 // len(available)
    if share < 1:
        raise InputError(
            f"batch.size = {section.size}: too small for two samples of a speaker of each of "
            f"{len(available)} domains; set it to at least {2 * len(available)}"
        )
    # A batch needs nontargets, so two speakers in each list in any case.
    alone = np.flatnonzero(available < 2)
    if alone.size:
        where = _list_name(data, balanced, int(alone[0]))
        more = f" ({alone.size} such domains)" if alone.size > 1 else ""
        raise InputError(f"{where} has 1 speaker with two sessions{more}; remove the domain")
    short = np.flatnonzero(available < share)
    if short.size and not section.repeat_speakers:
        least = int(available.argmin())
        raise InputError(
            f"batch.size = {section.size}: {_list_name(data, balanced, least)} has "
            f"{available[least]} speakers, a batch takes {share}; set batch.size to at most "
            f"{largest_size(data, section)} or batch.repeat_speakers = true"
        )
    return share


def largest_size(data: TrainingData, section: BatchSection) -> int:
    """The largest batch in which no speaker comes twice."""
    if section.balance != "domain":
        return 2 * data.n_speakers
    available = np.bincount(data.speaker_domain)
    return int(available.min()) * 2 * len(available)


def _list_name(data: TrainingData, balanced: bool, number: int) -> str:
    return f"domain '{data.domain_names[number]}'" if balanced else "the training data"


class BatchWalker:
    """Endless batches; equal seeds give equal batches, and the state can be saved."""

    def __init__(
        self,
        data: TrainingData,
        section: BatchSection,
        seed: int,
        rng: np.random.Generator | None = None,
    ) -> None:
        """`rng` takes the place of the seed where walkers share one generator."""
        self.data = data
        self.section = section
        self.weights = domain_weights(data, section)
        self.groups = data.domain_group if section.across_domains else None
        self.rng = np.random.default_rng([seed, 1]) if rng is None else rng
        balanced = section.balance == "domain"
        self.share = checked_share(data, section)
        lists = data.speaker_domain if balanced else np.zeros(data.n_speakers, dtype=np.int32)
        # A session of a speaker, numbered in the order of the rows (sorted by speaker, session).
        turns = (np.diff(data.speaker) != 0) | (np.diff(data.session) != 0)
        session_of_row = np.concatenate([[0], np.cumsum(turns)])
        speaker_of_session = np.empty(session_of_row[-1] + 1, dtype=np.int64)
        speaker_of_session[session_of_row] = data.speaker
        self.rings = {
            "speakers": Rings(lists, self.rng),
            "sessions": Rings(speaker_of_session, self.rng),
            "samples": Rings(session_of_row, self.rng),
        }

    def next_batch(self) -> Batch:
        """Draw speakers, two sessions of each, and one sample of each session."""
        lists = range(len(self.rings["speakers"].sizes))
        speakers = np.concatenate([self.rings["speakers"].take_run(i, self.share) for i in lists])
        sessions = self.rings["sessions"].take(speakers, 2).ravel()
        samples = self.rings["samples"].take(sessions).ravel()
        return make_batch(self.data, samples, self.weights, self.groups)

    def state(self) -> dict[str, Ints]:
        """Where all lists stand, as arrays."""
        return {
            f"{name}.{key}": value
            for name, rings in self.rings.items()
            for key, value in rings.state().items()
        }

    def restore(self, state: dict[str, Ints], rng_state: dict[str, object]) -> None:
        """Go back to a saved state."""
        for name, rings in self.rings.items():
            rings.restore({key: state[f"{name}.{key}"] for key in ("order", "used")})
        self.rng.bit_generator.state = rng_state
