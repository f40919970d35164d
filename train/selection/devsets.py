"""Development sets: read and checked once, then evaluated at every step without any text.

A source is one table of embeddings; its trials may be split into several sets by domain. The
LLR of a model with several utterances is the average over them, as the scoring tool has it.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from dcaplda.eval.metrics.calibration import entropy
from dcaplda.runtime.decision import log_odds
from dcaplda.runtime.errors import DcapldaError, InputError
from dcaplda.runtime.tables.text_tables import read_durations, read_lists, read_words
from dcaplda.runtime.tables.vectors import read_vectors
from dcaplda.runtime.trials.lists import Trials, read_trials
from dcaplda.runtime.values import check_seconds
from dcaplda.train.recipe.files import missing_files
from dcaplda.train.recipe.sections import DevSection
from dcaplda.train.selection.pair_plan import PairPlan


@dataclass(frozen=True)
class DevSet:
    """Trials of one set: pairs of rows of its source, averaged per trial, with labels."""

    name: str
    group: str
    weight: float
    targets: Tensor
    """Trial is a target; (n_trials,) bool."""
    plan: PairPlan
    """How the LLRs of the pairs are computed, in the order of `trial_of_pair`."""
    trial_of_pair: Tensor | None
    """Trial of each pair, where models have several utterances."""

    @property
    def n_trials(self) -> int:
        """Trials of the set."""
        return len(self.targets)

    def llrs(self, values_of_pairs: Tensor) -> Tensor:
        """LLR of each trial: the average over its pairs."""
        if self.trial_of_pair is None:
            return values_of_pairs
        ones = torch.ones_like(values_of_pairs)
        sums = values_of_pairs.new_zeros(self.n_trials)
        counts = values_of_pairs.new_zeros(self.n_trials)
        sums.index_add_(0, self.trial_of_pair, values_of_pairs)
        counts.index_add_(0, self.trial_of_pair, ones)
        return sums / counts

    def loss(self, llrs: Tensor, prior: float) -> float:
        """Actual Cllr at the prior, normalized (eq. 14); summed in float64."""
        losses = softplus(torch.where(self.targets, -1.0, 1.0) * (llrs + log_odds(prior)))
        n_targets = int(self.targets.sum())
        share = torch.tensor(
            [(1.0 - prior) / (self.n_trials - n_targets), prior / n_targets],
            dtype=torch.float64,
            device=llrs.device,
        )
        return float(losses.double() @ share[self.targets.int()]) / entropy(prior)


@dataclass(frozen=True)
class DevSource:
    """Embeddings of the utterances that occur in trials, and the sets made of them."""

    embeddings: Tensor
    seconds: Tensor | None
    sets: tuple[DevSet, ...]


def load_dev_source(
    section: DevSection, embedding_dim: int | None, need_durations: bool, device: torch.device
) -> DevSource:
    """Read a [[dev]] section; every id must have its vector (and duration).

    An error names the section.
    """
    try:
        return _read_source(section, embedding_dim, need_durations, device)
    except DcapldaError as error:
        raise InputError(f"[[dev]] '{section.name}': {error}") from None


def _read_source(
    section: DevSection, embedding_dim: int | None, need_durations: bool, device: torch.device
) -> DevSource:
    problems = []
    absent = missing_files(section)
    if absent:
        problems.append(f"no such file: {', '.join(absent)}")
    if need_durations and not section.durations:
        problems.append("the variant uses durations; add durations = 'utt2dur'")
    if problems:
        raise InputError("; ".join(problems))
    trials = read_trials(section.trials)
    if trials.targets is None:
        raise InputError(f"{section.trials} has no labels")
    members = _members(section, trials)
    needed = sorted({utt for utts in members for utt in utts} | set(trials.test_ids))
    row_of = {name: row for row, name in enumerate(needed)}
    embeddings = _embeddings(section, needed, embedding_dim)
    seconds = _seconds(section, needed) if need_durations else None
    parts = _split(section, trials)
    enroll_rows = [np.array([row_of[utt] for utt in utts]) for utts in members]
    test_rows = np.array([row_of[name] for name in trials.test_ids])
    sets = tuple(
        _dev_set(section, name, trials.take(which), enroll_rows, test_rows, device)
        for name, which in parts
    )
    return DevSource(
        torch.from_numpy(embeddings).to(device),
        None if seconds is None else torch.from_numpy(seconds).to(device),
        sets,
    )


def _members(section: DevSection, trials: Trials) -> list[list[str]]:
    """Utterances of each enrolment of the trial list."""
    if not section.spk2utt:
        return [[name] for name in trials.enroll_ids]
    lists = read_lists(section.spk2utt)
    missing = [name for name in trials.enroll_ids if name not in lists]
    if missing:
        raise InputError(
            f"{section.spk2utt} has no model '{missing[0]}' of "
            f"{section.trials} ({len(missing)} missing)"
        )
    return [lists[name] for name in trials.enroll_ids]


def _embeddings(section: DevSection, needed: list[str], dim: int | None) -> NDArray[np.float32]:
    table = read_vectors(section.xvectors, section.scp_root)
    matrix = table.matrix
    if dim is not None and matrix.shape[1] != dim:
        raise InputError(
            f"{section.xvectors} has {matrix.shape[1]} values per vector, the training data {dim}"
        )
    rows = table.rows()
    _refuse_missing(section, section.xvectors, needed, rows)
    chosen = matrix[[rows[name] for name in needed]]
    norms = np.linalg.norm(chosen, axis=1)
    if not (np.isfinite(norms) & (norms > 0)).all():
        bad = needed[int(np.argmax(~(np.isfinite(norms) & (norms > 0))))]
        raise InputError(f"the vector of '{bad}' is zero or not finite")
    return chosen


def _seconds(section: DevSection, needed: list[str]) -> NDArray[np.float32]:
    # read_durations itself refuses a table of frames without a frame shift.
    frames = Path(section.durations).name == "utt2num_frames"
    seconds = read_durations(section.durations, 0.01 if frames else 0.0)
    _refuse_missing(section, section.durations, needed, seconds)
    seconds = {name: seconds[name] for name in needed}
    check_seconds(seconds, section.durations)
    return np.array(list(seconds.values()), dtype=np.float32)


def _refuse_missing(
    section: DevSection, place: str, needed: list[str], known: dict[str, int] | dict[str, float]
) -> None:
    missing = [name for name in needed if name not in known]
    if missing:
        hint = "" if section.spk2utt else "; if it is a speaker or model, add spk2utt"
        raise InputError(
            f"{place} has no '{missing[0]}', which is in {section.trials} ({len(missing)} missing)"
            + hint
        )


def _split(section: DevSection, trials: Trials) -> list[tuple[str, slice | NDArray[np.bool_]]]:
    """Names of the sets that a section makes, and which trials each takes."""
    if section.split != "domain":
        return [(section.name, slice(None))]
    domain_of = read_words(section.utt2dom)
    missing = [name for name in trials.test_ids if name not in domain_of]
    if missing:
        raise InputError(
            f"{section.utt2dom}: '{missing[0]}' has no domain ({len(missing)} missing)"
        )
    names, number = np.unique([domain_of[name] for name in trials.test_ids], return_inverse=True)
    number_of_trial = number[trials.test_index]
    return [(f"{section.name}/{name}", number_of_trial == i) for i, name in enumerate(names)]


def _dev_set(
    section: DevSection,
    name: str,
    trials: Trials,
    enroll_rows: list[NDArray[np.int64]],
    test_rows: NDArray[np.int64],
    device: torch.device,
) -> DevSet:
    assert trials.targets is not None
    n_targets = int(trials.targets.sum())
    if n_targets == 0 or n_targets == len(trials):
        kind = "target" if n_targets == 0 else "nontarget"
        part = "" if name == section.name else f" of its part '{name}'"
        raise InputError(f"{section.trials} has no {kind} trials{part}; a loss needs both kinds")
    sizes = np.array([len(rows) for rows in enroll_rows])[trials.enroll_index]
    trial_of_pair = np.repeat(np.arange(len(trials)), sizes)
    enroll = np.concatenate([enroll_rows[i] for i in trials.enroll_index])
    test = np.repeat(test_rows[trials.test_index], sizes)
    plan = PairPlan.make(enroll, test, device)
    several = bool((sizes > 1).any())
    return DevSet(
        name=name,
        group=section.group,
        weight=section.weight,
        targets=torch.from_numpy(trials.targets).to(device),
        plan=plan,
        trial_of_pair=torch.from_numpy(trial_of_pair).to(device) if several else None,
    )
