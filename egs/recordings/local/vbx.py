r"""VBx on a PLDA that export-onnx wrote: clusters of a recording by a Bayesian hidden Markov model.

    vbx.py [--fa=0.3] [--fb=17] [--loop=0.99] [--bias=-0.015] [--seed=0] \
           <plda-dir> <out-dir> <utt2spk>
    vbx.py choose [--loop=0.99] [--bias=-0.015] [--seed=0] <plda-dir> <out-dir>

What others cluster with, to stand beside cluster-utterances. `<plda-dir>` is what `--to=vbx` or
`--to=pyannote` left, `<out-dir>` what conversations.py made. Written from the equations of Landini,
Profant, Diez, Burget: "Bayesian HMM clustering of x-vector sequences (VBx) in speaker diarization:
theory, implementation and analysis on standard tasks", 2022; defaults are those of their recipe,
which takes an embedding every quarter of a second. `choose` prints the fa and fb of a grid that
confuse the fewest seconds of these recordings.

In the space of the PLDA an utterance x of speaker s is N(sqrt(phi) y_s, I), y_s is N(0, I), and
s is a Markov chain that stays with probability `loop` or else draws a speaker from pi. The
recordings have no true order, so that of a recording's utterances is drawn (`seed`).
"""

import random
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from conversations import judged
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.special import logsumexp
from tables import columns, fail, write

from dcaplda.runtime.tables.kaldi_objects import read_plda_file
from dcaplda.runtime.tables.vectors import read_vectors

Array = NDArray[np.float64]
GRID = [(fa, fb) for fa in (0.07, 0.15, 0.3, 0.6, 1.0) for fb in (0.1, 0.3, 0.8, 2.0, 6.0, 17.0)]
"""Of `choose`: around the values of the VBx recipe and of pyannote."""
MOST_ROUNDS, LEAST_GAIN = 40, 1e-4
SMOOTHING = 5.0
"""Of the first labels: their logit over that of every other speaker."""


@dataclass(frozen=True)
class Settings:
    """Scales of evidence and of what speakers may cost, and how often the same one goes on."""

    fa: float = 0.3
    fb: float = 17.0
    loop: float = 0.99
    bias: float = -0.015
    """Added to the threshold of cosines that the first clusters end at."""


@dataclass(frozen=True)
class Plda:
    """From an embedding to the space where within is 1 and between is diag(phi)."""

    mean1: Array
    mean2: Array
    lda: Array
    mu: Array
    transform: Array
    phi: Array
    whole: bool
    """Vectors have the length of the root of their dimensions (pyannote), not 1 (VBx)."""

    def reduced(self, embeddings: NDArray[np.floating]) -> Array:
        """Behind the LDA; (n, D) -> (n, R)."""
        inside = self._of_length(np.asarray(embeddings, np.float64) - self.mean1)
        return self._of_length(inside @ self.lda - self.mean2)

    def turned(self, reduced: Array) -> Array:
        """In the space of the PLDA; (n, R) -> (n, R)."""
        found: Array = (reduced - self.mu) @ self.transform.T
        return found

    def _of_length(self, x: Array) -> Array:
        length = np.sqrt(x.shape[1]) if self.whole else 1.0
        found: Array = length * x / np.linalg.norm(x, axis=1, keepdims=True)
        return found


def read_plda(folder: Path) -> Plda:
    """The files of either program, by what the folder holds."""
    if (folder / "plda.npz").is_file():
        found = {**np.load(folder / "xvec_transform.npz"), **np.load(folder / "plda.npz")}
        return Plda(*(found[k] for k in ("mean1", "mean2", "lda", "mu", "tr", "psi")), whole=True)
    if not (folder / "transform.h5").is_file():
        raise fail(f"{folder} has neither plda.npz nor transform.h5; see export-onnx --to=vbx")
    import h5py

    plda = read_plda_file(str(folder / "plda"))
    with h5py.File(folder / "transform.h5", "r", locking=False) as content:
        means = [np.asarray(content[key]) for key in ("mean1", "mean2", "lda")]
    return Plda(*means, plda.mean, plda.transform, plda.psi, whole=False)


def two_gaussians(scores: Array, rounds: int = 20) -> float:
    """Where two Gaussians of one variance, fitted to the scores by EM, are as likely."""
    mean = scores.mean() + scores.std() * np.array([-1.0, 1.0])
    share, variance = np.array([0.5, 0.5]), scores.var()
    for _ in range(rounds):
        logits = np.log(share) - 0.5 * (scores[:, None] - mean) ** 2 / variance
        own = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        counts = own.sum(axis=0)
        share, mean = counts / len(scores), own.T @ scores / counts
        variance = max(float((own * (scores[:, None] - mean) ** 2).sum()) / len(scores), 1e-12)
    odds = np.log(share[1] / share[0])
    middle: float = 0.5 * mean.sum() - variance * odds / (mean[1] - mean[0])
    return middle


def first_clusters(reduced: Array, bias: float) -> NDArray[np.int64]:
    """Average link of cosines, down to the threshold that the recording itself shows."""
    if len(reduced) < 2:
        return np.zeros(len(reduced), np.int64)
    unit = reduced / np.linalg.norm(reduced, axis=1, keepdims=True)
    cosines = unit @ unit.T
    threshold = two_gaussians(cosines.ravel()) + bias
    pairs = 1.0 - cosines[np.triu_indices(len(unit), 1)]
    tree = linkage(np.maximum(pairs, 0.0), "average")
    labels = fcluster(tree, 1.0 - threshold, "distance")
    return np.unique(labels, return_inverse=True)[1]


@dataclass(frozen=True)
class Found:
    """Who speaks, with probabilities (n, S), shares of speakers, and the bound of each round."""

    posterior: Array
    shares: Array
    bounds: list[float]


def vb_hmm(x: Array, phi: Array, labels: NDArray[np.int64], settings: Settings) -> Found:
    """From first labels to the posterior of the chain and of the speakers, in turn.

    x is (n, R) in the space of the PLDA. Each round raises the bound of log p(x) with the evidence
    scaled by fa and the divergence of speakers from their prior scaled by fb.
    """
    count = int(labels.max()) + 1
    start = SMOOTHING * np.eye(count)[labels]
    posterior = np.exp(start - logsumexp(start, axis=1, keepdims=True))
    shares = np.full(count, 1.0 / count)
    ratio = settings.fa / settings.fb
    rho = x * np.sqrt(phi)
    alone = -0.5 * ((x**2).sum(axis=1) + x.shape[1] * np.log(2.0 * np.pi))
    bounds: list[float] = []
    for _ in range(MOST_ROUNDS):
        # Speakers: y_s is N(mean_s, variance_s), axis by axis.
        variance = 1.0 / (1.0 + ratio * posterior.sum(axis=0)[:, None] * phi)
        mean = ratio * variance * (posterior.T @ rho)
        cost = 0.5 * (variance + mean**2) @ phi
        logs = settings.fa * (rho @ mean.T - cost + alone[:, None])
        total, posterior, shares = chain(logs, shares, settings.loop)
        divergence = 0.5 * (np.log(variance) - variance - mean**2 + 1.0).sum()
        bounds.append(total + settings.fb * float(divergence))
        if len(bounds) > 1 and bounds[-1] - bounds[-2] < LEAST_GAIN:
            break
    return Found(posterior, shares, bounds)


def chain(logs: Array, shares: Array, loop: float) -> tuple[float, Array, Array]:
    """Forward and backward: log p(x), posterior (n, S), and the shares that raise log p(x) most.

    `logs` is log p(x_t | s). A share is how often its speaker was drawn: at the start, and where
    the chain did not simply stay.
    """
    with np.errstate(divide="ignore"):
        drawn, stay, leave = np.log(shares), np.log(loop), np.log1p(-loop)
    moves = np.logaddexp(np.where(np.eye(len(shares), dtype=bool), stay, -np.inf), leave + drawn)
    forward, backward = np.empty_like(logs), np.zeros_like(logs)
    forward[0] = drawn + logs[0]
    for t in range(1, len(logs)):
        forward[t] = logsumexp(forward[t - 1][:, None] + moves, axis=0) + logs[t]
    for t in range(len(logs) - 2, -1, -1):
        backward[t] = logsumexp(moves + (logs[t + 1] + backward[t + 1]), axis=1)
    total = float(logsumexp(forward[-1]))
    posterior = np.exp(forward + backward - total)
    before = logsumexp(forward[:-1], axis=1, keepdims=True)
    jumps = np.exp(before + leave + drawn + logs[1:] + backward[1:] - total).sum(axis=0)
    counts = posterior[0] + jumps
    return total, posterior, counts / counts.sum()


def cluster(plda: Plda, embeddings: NDArray[np.floating], settings: Settings) -> NDArray[np.int64]:
    """The speaker of each utterance of a recording, in the order of time."""
    reduced = plda.reduced(embeddings)
    first = first_clusters(reduced, settings.bias)
    found = vb_hmm(plda.turned(reduced), plda.phi, first, settings)
    labels: NDArray[np.int64] = found.posterior.argmax(axis=1)
    return labels


def clustered(plda: Plda, place: Path, settings: Settings, seed: str) -> dict[str, str]:
    """The speaker of every utterance of a folder's recordings."""
    table = read_vectors(f"scp:{place / 'xvector.scp'}")
    row, found = table.rows(), {}
    for name, *own in columns(place / "reco2utt"):
        own = random.Random(f"{seed} {name}").sample(own, len(own))
        labels = cluster(plda, table.matrix[[row[u] for u in own]], settings)
        found |= {u: f"{name}-{label}" for u, label in zip(own, labels, strict=True)}
    return found


def choose(plda: Plda, place: Path, settings: Settings, seed: str) -> tuple[float, float]:
    """fa and fb of GRID that confuse the fewest seconds."""

    def wrong(pair: tuple[float, float]) -> float:
        own = replace(settings, fa=pair[0], fb=pair[1])
        found = clustered(plda, place, own, seed)
        return sum(row[1] for row in judged(place / "reference", found))

    return min(GRID, key=wrong)


def main(argv: list[str]) -> None:
    """Cluster every recording of a folder, or find what suits them."""
    options = dict(a[2:].split("=", 1) for a in argv if a.startswith("--") and "=" in a)
    words = [a for a in argv if not a.startswith("--")]
    seed = options.pop("seed", "0")
    try:
        settings = Settings(**{name: float(value) for name, value in options.items()})
    except (TypeError, ValueError):
        raise fail(f"usage: {__doc__}") from None
    match words:
        case ["choose", folder, out]:
            fa, fb = choose(read_plda(Path(folder)), Path(out), settings, seed)
            print(f"--fa={fa} --fb={fb}")
        case [folder, out, utt2spk]:
            found = clustered(read_plda(Path(folder)), Path(out), settings, seed)
            write(Path(utt2spk), [f"{u} {label}" for u, label in found.items()])
        case _:
            raise fail(f"usage: {__doc__}")


if __name__ == "__main__":
    main(sys.argv[1:])
