"""The exact log-likelihood ratio of a trial in a simulated world, by closed form.

What the oracle knows: the world's parameters, which domain the trial comes from and hence how
probable each condition and each quality is there, the embeddings, their durations, and which
utterances of an enrolment model are chunks of one recording. What it does not know: who
speaks, which condition a recording has, which qualities a speaker has; it sums over them.
No system can have a lower expected cross-entropy on the trials of that domain.

Given the condition k of a recording, its utterances tell about z = mean(g) + y through a
Gaussian factor exp(log_norm - p (v - z)^2 / 2) on each axis: with n_i the chunk variances,
a_i = u_i - shift and P = sum 1/n_i,

    v = sum(a_i / n_i) / P        p = 1 / (session + 1 / P)

Factors of several recordings multiply: their (p, p v) add. Integrating z ~ N(mean_g, b) out of
exp(C + h z - p z^2 / 2) gives, with q = 1 / (1 + b p),

    C + sum over axes of (b q h^2 + log q) / 2 + (q h) mean_g - (q p) mean_g^2 / 2

The LLR is the logarithm of the sum over qualities and conditions of enrolment and test
together, less the two sums of each side by itself.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from dcaplda.simulate.world import Array, Domain, Index, World

# Combinations of conditions that the two sides by themselves make less probable than exp(-REACH)
# are left out of a trial's sum.
REACH = 60.0
# Trials at once: the arrays of a step stay in a core's cache.
AT_ONCE = 512
# Axes whose factors are multiplied before a logarithm is taken: no product can overflow.
_AXES_AT_ONCE = 16


@dataclass(frozen=True)
class Voices:
    """What is known of z = mean(g) + y before anything is heard, on the axes where z varies."""

    axes: NDArray[np.bool_]
    """Which of the world's axes these are; on the others z is 0."""
    between: Array
    means: Array
    log_weights: Array

    @classmethod
    def of(cls, world: World, domain: Domain) -> "Voices":
        """The speakers of a domain."""
        axes = (world.between > 0) | (domain.quality_means != 0).any(axis=0)
        log_weights = np.log(domain.quality_weights)
        return cls(axes, world.between[axes], domain.quality_means[:, axes], log_weights)


@dataclass(frozen=True)
class Factors:
    """What n speakers' evidence tells about z, for each of C combinations of conditions.

    precision and weighted (n, C, axes of z) hold p and p v; constant (n, C) the rest of the
    logarithm and the conditions' prior; a combination of constant -inf does not exist.
    """

    precision: Array
    weighted: Array
    constant: Array


def recording_factors(
    domain: Domain,
    axes: NDArray[np.bool_],
    latent: Array,
    seconds: Array,
    recording: Index | None = None,
) -> Factors:
    """Factors of recordings from their utterances; `recording` numbers each utterance's."""
    if recording is None:
        recording = np.arange(len(latent))
    count = int(recording.max()) + 1
    residual = latent[:, None, :] - domain.shifts  # (N, K, D)
    noise = domain.chunk / seconds[:, None, None]
    total = _sums(1.0 / noise, recording, count)
    mean = _sums(residual / noise, recording, count) / total
    spread = (residual - mean[recording]) ** 2 / noise
    log_norm = _sums(-0.5 * (np.log(2 * np.pi * noise) + spread).sum(axis=2), recording, count)
    log_norm -= 0.5 * np.log1p(domain.session * total).sum(axis=2)
    precision = 1.0 / (domain.session + 1.0 / total)
    constant = log_norm - 0.5 * (precision * mean**2).sum(axis=2)
    constant += np.log(domain.condition_weights)
    return Factors(precision[:, :, axes], (precision * mean)[:, :, axes], constant)


def _sums(values: Array, groups: Index, count: int) -> Array:
    result = np.zeros((count, *values.shape[1:]))
    np.add.at(result, groups, values)
    return result


def joined(factors: Factors, members: list[Index]) -> Factors:
    """Factors of speakers from those of their recordings, over all combinations of conditions.

    `members` holds one array per place: the first recording of each speaker, the second, ...
    (-1 where a speaker has no more).
    """
    result = _taken(factors, members[0])
    for place in members[1:]:
        more = _taken(factors, place)
        sizes = result.constant.shape[1], more.constant.shape[1]
        left, right = (index.reshape(-1) for index in np.indices(sizes))
        result = Factors(
            result.precision[:, left] + more.precision[:, right],
            result.weighted[:, left] + more.weighted[:, right],
            result.constant[:, left] + more.constant[:, right],
        )
    return result


def _taken(factors: Factors, rows: Index) -> Factors:
    """Rows of factors; row -1 is no evidence: one combination that says nothing."""
    there = rows >= 0
    if there.all():
        return Factors(factors.precision[rows], factors.weighted[rows], factors.constant[rows])
    constant = np.where(there[:, None], factors.constant[rows], -np.inf)
    constant[~there, 0] = 0.0
    mask = there[:, None, None]
    return Factors(factors.precision[rows] * mask, factors.weighted[rows] * mask, constant)


def evidence(voices: Voices, factors: Factors) -> Array:
    """log p(evidence, combination, g), (n, C, G)."""
    width = len(voices.between)
    flat = _integral(
        voices, factors.precision.reshape(-1, width), factors.weighted.reshape(-1, width)
    )
    return flat.reshape(*factors.constant.shape, -1) + factors.constant[:, :, None]


def _integral(voices: Voices, precision: Array, weighted: Array) -> Array:
    """log of p(g) times the integral over z, for rows of p and p v: (n, axes) -> (n, G)."""
    denominator = 1.0 + voices.between * precision
    log_q = np.zeros(len(precision))
    for begin in range(0, len(voices.between), _AXES_AT_ONCE):
        block = denominator[:, begin : begin + _AXES_AT_ONCE]
        log_q -= np.log(np.multiply.reduce(block, axis=1))
    qh = weighted / denominator
    own = 0.5 * ((qh * weighted) @ voices.between + log_q)
    means = voices.means.T
    by_quality = qh @ means - 0.5 * ((precision / denominator) @ means**2)
    return own[:, None] + by_quality + voices.log_weights


def trial_llrs(
    voices: Voices,
    enroll: Factors,
    test: Factors,
    enroll_index: Index,
    test_index: Index,
    reach: float = REACH,
) -> Array:
    """LLR of each trial between row enroll_index of one side and row test_index of the other."""
    own = [evidence(voices, side) for side in (enroll, test)]
    totals = [logsumexp(part, axis=(1, 2)) for part in own]
    # log posterior of each combination of each side, to see which pairs can matter.
    posterior = [
        logsumexp(part, axis=2) - total[:, None] for part, total in zip(own, totals, strict=True)
    ]
    sums = np.full(len(enroll_index), -np.inf)
    for left, right in itertools.product(range(own[0].shape[1]), range(own[1].shape[1])):
        weight = posterior[0][enroll_index, left] + posterior[1][test_index, right]
        rows = np.flatnonzero(weight > -reach)
        for begin in range(0, len(rows), AT_ONCE):
            some = rows[begin : begin + AT_ONCE]
            e, t = enroll_index[some], test_index[some]
            value = _integral(
                voices,
                enroll.precision[e, left] + test.precision[t, right],
                enroll.weighted[e, left] + test.weighted[t, right],
            )
            constant = enroll.constant[e, left] + test.constant[t, right]
            sums[some] = np.logaddexp(sums[some], logsumexp(value, axis=1) + constant)
    result: Array = sums - totals[0][enroll_index] - totals[1][test_index]
    return result


@dataclass(frozen=True)
class Trials:
    """Trials between rows of embeddings: `members` lists each enrolment model's rows."""

    members: list[list[int]]
    enroll_index: Index
    test_index: Index


def score(
    world: World,
    domain_name: str,
    embeddings: NDArray[np.floating],
    seconds: Array,
    trials: Trials,
    recording: Index | None = None,
) -> Array:
    """Exact LLRs of trials of one domain, from what a system would get and the world.

    test_index numbers rows of the embeddings, enroll_index numbers models. `recording` numbers
    the recording of each row (default: each row its own); the two sides of a trial must not
    share one, as the trials of speaker verification do not.
    """
    domain = world.domains[domain_name]
    voices = Voices.of(world, domain)
    latent = world.latent(np.asarray(embeddings))
    seconds = np.asarray(seconds, np.float64)
    tests = np.unique(trials.test_index)
    test = recording_factors(domain, voices.axes, latent[tests], seconds[tests])
    rows, recordings, models = _enrolment(trials.members, recording)
    factors = recording_factors(domain, voices.axes, latent[rows], seconds[rows], recordings)
    return trial_llrs(
        voices,
        joined(factors, models),
        test,
        np.asarray(trials.enroll_index),
        np.searchsorted(tests, trials.test_index),
    )


def _enrolment(
    members: list[list[int]], recording: Index | None
) -> tuple[Index, Index, list[Index]]:
    """The rows of all models, the number of each row's recording, and each model's recordings.

    A recording that two models use is counted for each; models of fewer than most get -1.
    """
    rows: list[int] = []
    numbers: list[int] = []
    owned: list[list[int]] = []
    count = 0
    for model in members:
        found: dict[int, int] = {}
        for row in model:
            own = row if recording is None else int(recording[row])
            if own not in found:
                found[own] = count
                count += 1
            rows.append(row)
            numbers.append(found[own])
        owned.append(list(found.values()))
    most = max(len(model) for model in owned)
    padded = np.array([model + [-1] * (most - len(model)) for model in owned])
    return np.array(rows), np.array(numbers), [padded[:, place] for place in range(most)]
