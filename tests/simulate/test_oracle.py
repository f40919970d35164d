"""The exact LLR against brute force: joint Gaussians written out in full, and Monte Carlo."""

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from small_world import small_world

from dcaplda.eval.metrics.scalars import cllr
from dcaplda.simulate import oracle
from dcaplda.simulate.draws import draw_recordings, draw_utterances
from dcaplda.simulate.world import Domain, World


def log_joint(world: World, domain: Domain, x: np.ndarray, seconds, recording) -> float:
    """log p(x_1, ..., x_n) of utterances of ONE speaker: a sum over g and every recording's
    condition of one Gaussian in the space of embeddings, with its full covariance."""
    n, mixing = len(x), world.mixing
    recordings = sorted(set(recording))
    terms = []
    for g, weight in enumerate(domain.quality_weights):
        for kinds in itertools.product(
            range(len(domain.condition_weights)), repeat=len(recordings)
        ):
            kind = {r: k for r, k in zip(recordings, kinds, strict=True)}
            k = [kind[r] for r in recording]
            mean = np.concatenate(
                [
                    mixing @ (domain.quality_means[g] + domain.shifts[k[i]]) + world.origin
                    for i in range(n)
                ]
            )
            blocks = [[np.diag(world.between) for _ in range(n)] for _ in range(n)]
            for i, j in itertools.product(range(n), range(n)):
                if recording[i] == recording[j]:
                    blocks[i][j] = blocks[i][j] + np.diag(domain.session[k[i]])
                if i == j:
                    blocks[i][i] = blocks[i][i] + np.diag(domain.chunk[k[i]] / seconds[i])
            covariance = np.block([[mixing @ b @ mixing.T for b in row] for row in blocks])
            density = multivariate_normal(mean, covariance).logpdf(x.reshape(-1))
            prior = np.log(weight) + sum(np.log(domain.condition_weights[c]) for c in kinds)
            terms.append(density + prior)
    return float(logsumexp(terms))


def brute_llr(world, domain, x, seconds, recording, enroll, test) -> float:
    def part(rows):
        return log_joint(world, domain, x[rows], seconds[rows], [recording[r] for r in rows])

    return part(enroll + [test]) - part(enroll) - part([test])


def drawn(world: World, name: str, speakers: int, recordings: int, chunks: int, seed: int):
    rng = np.random.default_rng(seed)
    domain = world.domains[name]
    made = draw_recordings(rng, world, domain, speakers, recordings)
    which = np.repeat(np.arange(len(made.speaker)), chunks)
    seconds = rng.uniform(3, 40, len(which))
    x = draw_utterances(rng, world, domain, made, which, seconds).astype(np.float64)
    return made.speaker[which], which, seconds, x


@pytest.mark.parametrize("name", ["home", "street", "hall"])
def test_single_llr_equals_written_out_gaussians(name):
    world = small_world()
    _, _, seconds, x = drawn(world, name, 4, 1, 1, seed=1)
    pairs = [(0, 1), (0, 2), (3, 1), (2, 2 - 1)]
    trials = oracle.Trials([[0], [3], [2]], np.array([0, 0, 1, 2]), np.array([1, 2, 1, 1]))
    found = oracle.score(world, name, x, seconds, trials)
    domain = world.domains[name]
    expected = [brute_llr(world, domain, x, seconds, list(range(4)), [e], t) for e, t in pairs]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_multi_llr_equals_written_out_gaussians_with_models_of_different_sizes():
    world = small_world()
    _, _, seconds, x = drawn(world, "street", 1, 6, 1, seed=2)
    members = [[0, 1, 2], [3], [1, 4]]
    trials = oracle.Trials(members, np.array([0, 1, 2]), np.array([5, 5, 0]))
    found = oracle.score(world, "street", x, seconds, trials)
    domain = world.domains["street"]
    expected = [
        brute_llr(world, domain, x, seconds, list(range(6)), m, t)
        for m, t in zip(members, [5, 5, 0], strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_chunks_of_one_recording_share_their_session_noise():
    world = small_world()
    _, recording, seconds, x = drawn(world, "home", 2, 2, 2, seed=3)
    members = [[0, 1, 2], [4, 5]]  # two chunks of one recording and one of another; two of one
    trials = oracle.Trials(members, np.array([0, 1, 0]), np.array([6, 2, 7]))
    found = oracle.score(world, "home", x, seconds, trials, recording)
    domain = world.domains["home"]
    expected = [
        brute_llr(world, domain, x, seconds, list(recording), members[m], t)
        for m, t in ((0, 6), (1, 2), (0, 7))
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    apart = oracle.score(world, "home", x, seconds, trials)
    assert np.abs(apart - found).max() > 1e-3  # it does matter


def monte_carlo_log(world: World, domain: Domain, rng, groups, count: int) -> tuple[float, float]:
    """log of the mean likelihood over draws of all latent variables, and its standard error.

    `groups` are lists of (latent u, seconds) whose speaker is one; chunk noise is the density.
    """
    log_likelihood = np.zeros(count)
    for utterances in groups:
        g = rng.choice(len(domain.quality_weights), count, p=domain.quality_weights)
        y = np.sqrt(world.between) * rng.standard_normal((count, world.dim))
        for u, seconds in utterances:
            k = rng.choice(len(domain.condition_weights), count, p=domain.condition_weights)
            e = np.sqrt(domain.session[k]) * rng.standard_normal((count, world.dim))
            center = domain.quality_means[g] + y + domain.shifts[k] + e
            variance = domain.chunk[k] / seconds
            density = -0.5 * (np.log(2 * np.pi * variance) + (u - center) ** 2 / variance)
            log_likelihood += density.sum(axis=1)
    likelihood = np.exp(log_likelihood - log_likelihood.max())
    error = likelihood.std() / likelihood.mean() / np.sqrt(count)
    return float(np.log(likelihood.mean()) + log_likelihood.max()), float(error)


@pytest.mark.parametrize("n_enroll", [1, 3])
def test_llr_equals_monte_carlo_over_the_latent_draws(n_enroll):
    world = small_world(dim=2, speaker_axes=1)
    domain = world.domains["street"]
    _, _, _, x = drawn(world, "street", 1, n_enroll + 1, 1, seed=4)
    seconds = np.full(n_enroll + 1, 6.0)
    u = world.latent(x)
    heard = [(u[i], seconds[i]) for i in range(n_enroll + 1)]
    rng = np.random.default_rng(7)
    same = monte_carlo_log(world, domain, rng, [heard], 1_000_000)
    enroll = monte_carlo_log(world, domain, rng, [heard[:-1]], 1_000_000)
    test = monte_carlo_log(world, domain, rng, [heard[-1:]], 1_000_000)
    trials = oracle.Trials([list(range(n_enroll))], np.array([0]), np.array([n_enroll]))
    found = oracle.score(world, "street", x, seconds, trials)[0]
    error = np.sqrt(same[1] ** 2 + enroll[1] ** 2 + test[1] ** 2)
    assert error < 0.02
    assert abs(found - (same[0] - enroll[0] - test[0])) < 5 * error


def test_leaving_out_improbable_conditions_changes_nothing():
    world = small_world(dim=12, speaker_axes=8)
    speaker, _, seconds, x = drawn(world, "hall", 20, 4, 1, seed=5)
    members = [[4 * s, 4 * s + 1, 4 * s + 2] for s in range(20)]
    enroll, test = (index.reshape(-1) for index in np.indices((20, 20)))
    domain, voices = world.domains["hall"], oracle.Voices.of(world, world.domains["hall"])
    factors = oracle.recording_factors(domain, voices.axes, world.latent(x), seconds)
    places = [np.array(members)[:, place] for place in range(3)]
    sides = oracle.joined(factors, places), factors
    cut, whole = (
        oracle.trial_llrs(voices, *sides, enroll, 4 * test + 3, reach)
        for reach in (oracle.REACH, np.inf)
    )
    np.testing.assert_allclose(cut, whole, atol=1e-6)


def test_a_nontarget_likelihood_ratio_has_mean_one_and_no_map_improves_calibration():
    world = small_world(dim=6, speaker_axes=4)
    speaker, _, seconds, x = drawn(world, "street", 4000, 2, 1, seed=6)
    first = np.arange(0, 8000, 2)
    members = [[int(row)] for row in first]
    index = np.arange(4000)
    target = oracle.score(world, "street", x, seconds, oracle.Trials(members, index, first + 1))
    others = oracle.Trials(members, index, np.roll(first + 1, 1))
    nontarget = oracle.score(world, "street", x, seconds, others)
    ratio = np.exp(nontarget)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio))
    best = cllr(target, nontarget)
    for alpha, beta in ((1.15, 0), (0.87, 0), (1, 0.3), (1, -0.3)):
        assert cllr(alpha * target + beta, alpha * nontarget + beta) > best
