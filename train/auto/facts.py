"""What is counted of training data before settings are chosen for them."""

from dataclasses import dataclass

import numpy as np

from dcaplda.runtime.errors import InputError
from dcaplda.train.data.labelled import TrainingData
from dcaplda.train.data.picked import mean_vector, row_chunks

LEAST_PEOPLE = 4
"""Two folds of people, each with nontarget trials of its own."""
# Embeddings whose standard deviation is below this share of their length are all the same.
SAME = 1e-6


@dataclass(frozen=True)
class Facts:
    """Counts; a person with degraded copies in other domains is one."""

    people: int
    domains: int
    groups: int
    """Groups of domains that share people."""
    largest_group: int
    """People of the group that has most."""
    smallest_domain: int
    """Speakers of the domain that has fewest."""
    utterances: int
    recordings: int
    in_sessions: int
    """People with two utterances of one session, of domains that have two such people."""
    dim: int
    seconds: tuple[float, float, float] | None
    """Least, median and most seconds of speech; None where durations are not known."""

    @property
    def people_left(self) -> int:
        """People that remain where the largest part is held out: a fifth, or a whole group."""
        largest = self.largest_group if self.groups > 1 else 0
        return self.people - max(largest, -(-self.people // 5))

    def line(self) -> str:
        """For the log."""
        return (
            f"{self.people} people, {self.recordings} recordings, {self.utterances} utterances of "
            f"{self.dim} values, {self.domains} domains in {self.groups} groups that share nobody"
        )


def count(data: TrainingData) -> Facts:
    """The facts about data."""
    groups = data.domain_group
    people_of = [
        len(np.unique(data.identity[groups[data.domain] == group])) for group in np.unique(groups)
    ]
    seconds = None
    if not np.isnan(data.seconds).any():
        least, most = float(data.seconds.min()), float(data.seconds.max())
        seconds = least, float(np.median(data.seconds)), most
    return Facts(
        people=len(np.unique(data.identity)),
        domains=len(data.domain_names),
        groups=len(people_of),
        largest_group=max(people_of),
        smallest_domain=int(np.bincount(data.speaker_domain).min()),
        utterances=len(data.ids),
        recordings=len(np.unique(data.recording)),
        in_sessions=_in_sessions(data),
        dim=data.embeddings.shape[1],
        seconds=seconds,
    )


def _in_sessions(data: TrainingData) -> int:
    """People whose utterances of one session can be told from somebody else's of the place."""
    kinds = np.stack([data.domain, data.identity, data.session], axis=1)
    sessions, counts = np.unique(kinds, axis=0, return_counts=True)
    talkers = np.unique(sessions[counts > 1, :2], axis=0)
    domains, people = np.unique(talkers[:, 0], return_counts=True)
    several = np.isin(talkers[:, 0], domains[people > 1])
    return len(np.unique(talkers[several, 1]))


def refuse_nonsense(data: TrainingData, facts: Facts, place: str) -> None:
    """One line about what no choice of settings can make up for."""
    if facts.people < LEAST_PEOPLE:
        raise InputError(
            f"{place}: {facts.people} people with two sessions; at least {LEAST_PEOPLE} are "
            "needed, and some dozens for a result worth having"
        )
    x = data.embeddings
    mean = mean_vector(x)
    squares = sum(float(((x[rows] - mean) ** 2).sum()) for rows in row_chunks(len(x)))
    spread = float(np.sqrt(squares / len(x)))
    if spread <= SAME * float(np.linalg.norm(mean)):
        raise InputError(
            f"{place}: all {len(x)} embeddings are the same ('{data.ids[0]}' and "
            f"'{data.ids[-1]}', for example); was the extractor given its input?"
        )
