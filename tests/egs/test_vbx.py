"""VBx of the recipe: the chain against a sum over all paths, the rounds against their bound."""

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dcaplda.export.exporters.equivalent import Equivalent
from dcaplda.export.exporters.targets import write_pyannote, write_vbx
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda

LOCAL = Path(__file__).parents[2] / "egs" / "recordings" / "local"


@pytest.fixture
def vbx(monkeypatch):
    monkeypatch.syspath_prepend(LOCAL)
    import vbx

    return vbx


def written_out(logs, shares, loop):
    """log p(x), posterior and expected draws of each speaker: every path, drawn or stayed."""
    n, count = logs.shape
    total, posterior, draws = 0.0, np.zeros((n, count)), np.zeros(count)
    for path in itertools.product(range(count), repeat=n):
        for stayed in itertools.product((False, True), repeat=n - 1):
            if any(s and path[t] != path[t + 1] for t, s in enumerate(stayed)):
                continue
            p = shares[path[0]] * np.exp(sum(logs[t, s] for t, s in enumerate(path)))
            for t, s in enumerate(stayed):
                p *= loop if s else (1.0 - loop) * shares[path[t + 1]]
            total += p
            posterior[range(n), path] += p
            draws[path[0]] += p
            for t, s in enumerate(stayed):
                draws[path[t + 1]] += 0.0 if s else p
    return np.log(total), posterior / total, draws / draws.sum()


@pytest.mark.parametrize("loop", [0.0, 0.4, 0.99])
def test_chain_is_the_sum_over_all_paths(vbx, rng, loop):
    logs, shares = rng.normal(size=(4, 3)), rng.dirichlet(np.ones(3))
    for found, expected in zip(
        vbx.chain(logs, shares, loop), written_out(logs, shares, loop), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_a_speaker_without_a_share_never_speaks(vbx, rng):
    _, posterior, shares = vbx.chain(rng.normal(size=(5, 3)), np.array([0.5, 0.5, 0.0]), 0.3)
    assert (posterior[:, 2] == 0).all() and shares[2] == 0
    np.testing.assert_allclose(posterior.sum(axis=1), 1.0, atol=1e-12)


def test_one_speaker_is_the_posterior_of_linear_regression(vbx, rng):
    """fa = fb = 1 and one speaker: the bound is log p(x) of one Gaussian, and it is reached."""
    from scipy.stats import multivariate_normal

    x, phi = rng.normal(size=(6, 2)), np.array([3.0, 0.5])
    found = vbx.vb_hmm(x, phi, np.zeros(6, int), vbx.Settings(1.0, 1.0, 0.5))
    expected = sum(
        multivariate_normal.logpdf(x[:, d], np.zeros(6), np.eye(6) + phi[d]) for d in range(2)
    )
    assert found.bounds[-1] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("settings", [(0.3, 17.0, 0.99), (1.0, 1.0, 0.0), (0.07, 0.8, 0.5)])
def test_every_round_raises_the_bound(vbx, rng, settings):
    x, labels = rng.normal(size=(30, 4)) * 3, rng.integers(0, 5, 30)
    found = vbx.vb_hmm(x, np.array([9.0, 4.0, 1.0, 0.2]), labels, vbx.Settings(*settings))
    gains = np.diff(found.bounds)
    assert len(gains) and (gains > -1e-9).all()


def test_speakers_too_many_are_given_up(vbx, rng):
    """Two people far apart, each in two first clusters."""
    phi = np.full(3, 50.0)
    people = rng.normal(size=(2, 3)) * np.sqrt(phi)
    who = np.repeat([0, 1], 20)
    x = people[who] + rng.normal(size=(40, 3))
    first = 2 * who + np.arange(40) % 2
    labels = vbx.vb_hmm(x, phi, first, vbx.Settings(1.0, 1.0, 0.9)).posterior.argmax(axis=1)
    assert len(np.unique(labels)) == 2
    assert len(set(zip(labels, who, strict=True))) == 2


def test_two_gaussians_meet_in_the_middle_of_equal_ones(vbx, rng):
    scores = np.concatenate([rng.normal(-3, 1, 4000), rng.normal(5, 1, 4000)])
    assert vbx.two_gaussians(scores) == pytest.approx(1.0, abs=0.05)


def plda(rng, people=3):
    """A PLDA of 4 of 6 dimensions, and embeddings of some people."""
    weight = rng.normal(size=(4, 6))
    model = Equivalent(
        rng.normal(size=6),
        weight,
        KaldiPlda(np.zeros(4), 4.0 * np.eye(4), np.array([9.0, 7.0, 5.0, 3.0])),
        0.0,
        0,
        0,
    )
    who = np.repeat(np.arange(people), 6)
    x = model.mean + 4 * rng.normal(size=(people, 6))[who] + 0.05 * rng.normal(size=(len(who), 6))
    return model, who, x


def test_files_of_both_programs_are_one_model(vbx, rng, tmp_path):
    pytest.importorskip("h5py")
    model, _, x = plda(rng)
    found = []
    for name, writer in (("v", write_vbx), ("p", write_pyannote)):
        (tmp_path / name).mkdir()
        writer(model, tmp_path / name)
        read = vbx.read_plda(tmp_path / name)
        np.testing.assert_allclose(read.phi, model.plda.psi)
        found.append(read.turned(read.reduced(x)))
    np.testing.assert_allclose(found[0], found[1], atol=1e-10)


def test_recordings_are_clustered(rng, tmp_path):
    from dcaplda.runtime.tables.vector_writer import write_vectors

    model, who, x = plda(rng)
    write_pyannote(model, tmp_path)
    names = [f"u{i}" for i in range(len(who))]
    write_vectors(f"ark,scp:{tmp_path}/x.ark,{tmp_path}/xvector.scp", names, x.astype(np.float32))
    (tmp_path / "reco2utt").write_text(" ".join(["r", *names]) + "\n")
    reference = [f"{n} r s{w} 1.0 d\n" for n, w in zip(names, who, strict=True)]
    (tmp_path / "reference").write_text("".join(reference))
    script = [sys.executable, LOCAL / "vbx.py", "--loop=0"]
    words = [*script, "choose", tmp_path, tmp_path]
    chosen = subprocess.run(words, capture_output=True, text=True).stdout.split()
    words = [*script, *chosen, tmp_path, tmp_path, tmp_path / "utt2spk"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert len(chosen) == 2 and done.returncode == 0, done.stderr
    label = dict(line.split() for line in (tmp_path / "utt2spk").read_text().splitlines())
    assert len({(label[n], w) for n, w in zip(names, who, strict=True)}) == 3


def test_an_empty_folder_is_told(tmp_path):
    words = [sys.executable, LOCAL / "vbx.py", tmp_path, tmp_path, tmp_path / "utt2spk"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1 and "neither plda.npz nor transform.h5" in done.stderr
