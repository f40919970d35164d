"""Whom the bootstrap draws: the speakers of a set's trials, and draws that its systems share."""

import zlib
from dataclasses import dataclass, field

import numpy as np

from dcaplda.eval.metrics.bootstrap import DrawCounts, TrialSpeakers, draws
from dcaplda.eval.trials import conditions as cond
from dcaplda.eval.trials.joining import Joined
from dcaplda.runtime.errors import InputError


@dataclass(frozen=True)
class People:
    """The speakers of trials, and how often each draw has each of them."""

    n_speakers: int
    trials: TrialSpeakers | None
    """None where no draws were asked for."""
    counts: DrawCounts | None
    draws: str = ""
    """A name of the draws, the same wherever they are the same."""


@dataclass
class PeopleOfSet:
    """Finds the people of joined trials; the same for all systems that scored every trial."""

    tables: cond.SideTables
    n_draws: int
    seed: int
    _whole: People | None = field(default=None, repr=False)

    def of(self, joined: Joined, names: list[str]) -> People | None:
        """The people of these trials; None without utt2spk."""
        if not self.tables.speaker:
            return None
        if not joined.whole:
            return self._found(joined, names)
        if self._whole is None:
            self._whole = self._found(joined, names)
        return self._whole

    def _found(self, joined: Joined, names: list[str]) -> People:
        speakers = cond.trial_speakers(joined, names, self.tables)
        n_speakers = int(np.unique(speakers).size)
        if not self.n_draws:
            return People(n_speakers, None, None)
        self._check(joined, names, speakers)
        trials = TrialSpeakers.of(speakers[0], speakers[1], joined.labels)
        people = [self.tables.speaker_of(name) for name in cond.used_names(joined, names)]
        counts = draws(trials, self.n_draws, draw_seed(people, self.seed))
        return People(n_speakers, trials, counts, f"{zlib.crc32(counts.tobytes()):08x}")

    def _check(self, joined: Joined, names: list[str], speakers: np.ndarray) -> None:
        """The labels and utt2spk must tell the same story, or there is no sampling theory."""
        wrong = (speakers[0] == speakers[1]) != joined.labels
        if not wrong.any():
            return
        place = int(np.argmax(wrong))
        label = "target" if joined.labels[place] else "nontarget"
        pair = names[joined.enroll[place]], names[joined.test[place]]
        who = self.tables.speaker_of(pair[0]), self.tables.speaker_of(pair[1])
        raise InputError(
            f"'{self.tables.files.utt2spk}': speakers of '{pair[0]}' and '{pair[1]}' are "
            f"'{who[0]}' and '{who[1]}', but the trial is labelled {label} "
            f"({np.count_nonzero(wrong)} such trials); correct one of the files"
        )


def draw_seed(people: list[str], seed: int) -> list[int]:
    """A seed that sets of the same people share, and sets of other people do not.

    So versions of one set, as short and full, vary together in an average, and different sets
    independently.
    """
    return [seed, zlib.crc32("\n".join(sorted(set(people))).encode())]
