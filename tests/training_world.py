"""A small world of speakers, sessions and domains for the tests of training."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dcaplda.train.data.labelled import Labels, TrainingData, assemble

DIM = 24
# One thread: tests run side by side, and results must not depend on the machine.
SMALL_RECIPE = """
[model]
lda_dim = 10
side_hidden_dim = 8
side_info_dim = 3
duration_parameters = { center = 8.0 }
[init]
em_iterations = 5
[batch]
size = 48
[stage1]
steps = 12
rate = 5e-4
evaluate_every = 4
[stage2]
steps = 8
rate = 1e-3
evaluate_every = 1
[stage3]
steps = 4
rate = 1e-5
evaluate_every = 1
[run]
checkpoint_every = 5
minimum_every = 4
"""


@dataclass
class Sample:
    """Utterances with all their labels."""

    ids: list[str]
    vectors: np.ndarray
    speaker: dict[str, str]
    session: dict[str, str]
    domain: dict[str, str]
    seconds: dict[str, float]

    def labels(self) -> Labels:
        return Labels("world", self.speaker, self.session, self.domain, self.seconds)

    def data(self) -> TrainingData:
        return assemble(self.ids, self.vectors, self.labels())


def draw(
    seed: int = 0,
    domains: int = 3,
    speakers: int = 14,
    sessions: int = 3,
    chunks: int = 2,
    dim: int = DIM,
    prefix: str = "",
) -> Sample:
    """Speakers that differ in `dim` directions, sessions less, noise that falls with duration.

    The domains themselves are the same for every seed; people and recordings are not.
    """
    space = np.random.default_rng(99)
    mixing = space.standard_normal((dim, dim)) / np.sqrt(dim)
    spread = np.linspace(1.5, 0.3, dim)
    shifts = 0.8 * space.standard_normal((domains, dim))
    rng = np.random.default_rng(seed)
    ids, rows = [], []
    tables: list[dict] = [{}, {}, {}, {}]
    for d in range(domains):
        for s in range(speakers):
            person = spread * rng.standard_normal(dim)
            for r in range(sessions):
                channel = 0.5 * rng.standard_normal(dim)
                for c in range(chunks):
                    name = f"{prefix}d{d}s{s:03d}-r{r}-c{c}"
                    seconds = float(np.exp(rng.uniform(0.7, 4.0)))
                    noise = rng.standard_normal(dim) * np.sqrt(3.0 / seconds)
                    rows.append(mixing @ (person + channel + noise) + shifts[d])
                    ids.append(name)
                    values = (name[: name.index("-")], name[: name.rindex("-")], f"dom{d}", seconds)
                    for table, value in zip(tables, values, strict=True):
                        table[name] = value
    return Sample(ids, np.array(rows, dtype=np.float32), *tables)


def write_table(path: Path, table: dict) -> None:
    path.write_text("".join(f"{key} {value}\n" for key, value in table.items()))


def write_data_dir(directory: Path, sample: Sample) -> Path:
    """A Kaldi data directory with the vectors beside it as xvector.npz."""
    directory.mkdir(parents=True, exist_ok=True)
    write_table(directory / "utt2spk", sample.speaker)
    write_table(directory / "utt2sess", sample.session)
    write_table(directory / "utt2dom", sample.domain)
    write_table(directory / "utt2dur", sample.seconds)
    np.savez(directory / "xvector.npz", ids=np.array(sample.ids), data=sample.vectors)
    return directory


def all_trials(sample: Sample) -> list[tuple[str, str, str]]:
    """Every pair of one domain and two sessions, once."""
    trials = []
    for i, one in enumerate(sample.ids):
        for other in sample.ids[i + 1 :]:
            if sample.domain[one] != sample.domain[other]:
                continue
            if sample.session[one] != sample.session[other]:
                same = sample.speaker[one] == sample.speaker[other]
                trials.append((one, other, "target" if same else "nontarget"))
    return trials


def write_dev(directory: Path, seed: int = 5, speakers: int = 6) -> Path:
    """A development set of other people of the same domains."""
    sample = draw(seed, speakers=speakers, prefix="v")
    write_data_dir(directory, sample)
    lines = [" ".join(trial) + "\n" for trial in all_trials(sample)]
    (directory / "trials").write_text("".join(lines))
    return directory


def write_recipe(path: Path, extra: str = "", split: bool = False) -> Path:
    """SMALL_RECIPE with a development set in `dev/` beside the file."""
    section = """
[[dev]]
name = "held"
xvectors = "dev/xvector.npz"
durations = "dev/utt2dur"
trials = "dev/trials"
"""
    if split:
        section += 'split = "domain"\nutt2dom = "dev/utt2dom"\n'
    path.write_text(SMALL_RECIPE + extra + section)
    return path


def copies(sample: Sample, shift: np.ndarray) -> Sample:
    """The sample and a degraded copy of its first domain: same people, same sessions."""
    chosen = [i for i, name in enumerate(sample.ids) if sample.domain[name] == "dom0"]
    names = {sample.ids[i]: sample.ids[i] + "-tel" for i in chosen}

    def with_copies(table: dict) -> dict:
        return table | {new: table[old] for old, new in names.items()}

    return Sample(
        sample.ids + list(names.values()),
        np.concatenate([sample.vectors, sample.vectors[chosen] + shift]).astype(np.float32),
        with_copies(sample.speaker),
        with_copies(sample.session),
        sample.domain | dict.fromkeys(names.values(), "dom0_tel"),
        with_copies(sample.seconds),
    )
