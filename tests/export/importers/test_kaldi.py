"""Kaldi's backend as a bundle: its scores, its files, and float64 arithmetic."""

from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS, FULL, needs_full_golden, read_columns
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from dcaplda.bin.import_model import main as import_model
from dcaplda.bin.score_trials import main as score
from dcaplda.export.importers import kaldi, kaldi_bundle
from dcaplda.runtime import Backend
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda, read_plda_file, read_vector_file
from dcaplda.runtime.tables.matrices import read_matrix_file

pytestmark = pytest.mark.torch
TOLERANCE = 5e-5
ROOTS = [
    pytest.param(EXTRACTS / "kaldi", id="extract"),
    pytest.param(FULL / "kaldi-golden", id="full", marks=needs_full_golden),
]
SINGLE = {
    "scores.single": ["--plda=plda"],
    "scores.single.double": ["--plda=plda", "--normalize-length=true"],
    "scores.single.nonorm": ["--plda=plda", "--normalize-length=false"],
    "scores.single.simple": ["--plda=plda", "--simple-length-normalization=true"],
    "scores.single.smooth0.1": ["--plda=plda", "--smoothing=0.1"],
    "scores.single.adapted": ["--plda=plda.adapted"],
    "scores.single.from-text-plda": ["--plda=plda.txt"],
}
MULTI = {
    "scores.multi": (["--num-utts=ark:num_utts.ark"], "enroll_mean_xvector"),
    "scores.multi.double": (["--num-utts=ark:num_utts.bin.ark"], "enroll_mean_xvector"),
    "scores.multi.no-num-utts": ([], "enroll_mean_xvector"),
    # Not Kaldi's command, but the same sum: the means are taken here.
    "scores.multi by spk2utt": (
        ["--spk2utt=enroll_spk2utt", "--multi-enroll=voiceprints"],
        "test_xvector",
    ),
}


def bundle(target: Path, *options: str) -> str:
    """Import from the working directory."""
    files = ["--transform=transform.mat", "--mean=mean.vec"]
    assert import_model(["--from=kaldi", *files, *options, str(target)]) == 0
    return str(target)


def worst(found: Path, golden: str) -> float:
    """Largest difference of two score files with the same trials in the same order."""
    ours, theirs = read_columns(found), read_columns(Path(golden))
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    return max(abs(float(a[2]) - float(b[2])) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", SINGLE)
def test_single_enrolment_scores_of_kaldi(tmp_path, monkeypatch, root: Path, name: str) -> None:
    monkeypatch.chdir(root)
    model, out = bundle(tmp_path / "model", *SINGLE[name]), tmp_path / "scores"
    table = "scp:test_xvector.scp"
    assert score([model, table, table, "trials", str(out)]) == 0
    assert worst(out, name) < TOLERANCE


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", MULTI)
def test_scores_of_averaged_models_of_kaldi(tmp_path, monkeypatch, root: Path, name: str) -> None:
    monkeypatch.chdir(root)
    options, table = MULTI[name]
    model, out = bundle(tmp_path / "model", "--plda=plda"), tmp_path / "scores"
    sides = [f"scp:{table}.scp", "scp:test_xvector.scp"]
    assert score([*options, model, *sides, "trials_multi", str(out)]) == 0
    assert worst(out, name.split(" ")[0]) < TOLERANCE


@needs_full_golden
def test_a_smoothed_plda_equals_kaldis(monkeypatch) -> None:
    """Kaldi keeps the factor 0.1 as a float, hence 1e-7."""
    monkeypatch.chdir(FULL / "kaldi-golden")
    ours, theirs = kaldi.smoothed(read_plda_file("plda"), 0.1), read_plda_file("plda.smooth0.1")
    np.testing.assert_allclose(ours.psi, theirs.psi, rtol=1e-7)
    np.testing.assert_allclose(ours.transform, theirs.transform, rtol=1e-7, atol=1e-9)


@needs_full_golden
def test_text_and_binary_objects_of_kaldi_agree(monkeypatch) -> None:
    """Text has seven digits."""
    monkeypatch.chdir(FULL / "kaldi-golden")
    text, binary = read_matrix_file("transform.txt.mat"), read_matrix_file("transform.mat")
    np.testing.assert_allclose(text, binary, rtol=5e-7)
    text, binary = read_vector_file("mean.vec"), read_vector_file("mean.bin.vec")
    np.testing.assert_allclose(text, binary, rtol=5e-7)
    a, b = read_plda_file("plda.txt"), read_plda_file("plda")
    for name in ("mean", "transform", "psi"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-6)


def random_plda(dim: int, seed: int = 0) -> KaldiPlda:
    rng = np.random.default_rng(seed)
    transform = np.linalg.qr(rng.standard_normal((dim, dim)))[0] * rng.uniform(1, 4, dim)[:, None]
    return KaldiPlda(rng.standard_normal(dim), transform, np.sort(rng.uniform(0, 9, dim))[::-1])


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_llr_is_a_ratio_of_joint_densities(n: int) -> None:
    """log N(mean of n, test | one speaker) - log N | two speakers, by scipy, within 1e-8."""
    plda = random_plda(4)
    model = kaldi.KaldiBackend(np.eye(4), np.zeros(4), plda, False, "none")
    rng = np.random.default_rng(1)
    enroll, test = rng.standard_normal((2, 3, 4))
    found = kaldi.llrs(model, enroll, np.full(3, float(n)), test)
    between = np.diag(plda.psi)
    first, second = between + np.eye(4) / n, between + np.eye(4)
    same = np.block([[first, between], [between, second]])
    u1, u2 = ((x - plda.mean) @ plda.transform.T for x in (enroll, test))
    for i in range(3):
        for j in range(3):
            joint = multivariate_normal(np.zeros(8), same).logpdf(np.concatenate([u1[i], u2[j]]))
            apart = multivariate_normal(np.zeros(4), first).logpdf(u1[i])
            apart += multivariate_normal(np.zeros(4), second).logpdf(u2[j])
            assert found[i, j] == pytest.approx(joint - apart, abs=1e-8)


@settings(max_examples=12, deadline=None)
@given(
    dim=st.integers(2, 60),
    seed=st.integers(0, 1000),
    normalize_input=st.booleans(),
    normalization=st.sampled_from(kaldi.NORMALIZATIONS),
)
def test_every_setting_agrees_with_float64(
    tmp_path_factory, dim: int, seed: int, normalize_input: bool, normalization: str
) -> None:
    rng = np.random.default_rng(seed)
    weight = rng.standard_normal((dim, dim + 3)) / np.sqrt(dim)
    backend = kaldi.KaldiBackend(
        weight, rng.standard_normal(dim), random_plda(dim, seed), normalize_input, normalization
    )
    directory = tmp_path_factory.mktemp("kaldi") / "model"
    kaldi_bundle.export_backend(backend, directory)
    vectors = kaldi_bundle.random_vectors(backend, 40)
    counts = rng.integers(1, 8, 20).astype(np.float32)
    opened = Backend.load(directory, threads=1)
    left = opened.voiceprints(vectors[:20], extra={"num_utts": counts})
    right = opened.voiceprints(vectors[20:], extra={"num_utts": np.ones(20)})
    expected = kaldi.llrs(
        backend, vectors[:20].astype(float), counts.astype(float), vectors[20:].astype(float)
    )
    allowed = 1e-4 + 1e-5 * np.abs(expected).max()
    np.testing.assert_allclose(opened.compare(left, right), expected, atol=allowed, rtol=0)
    diagonal = opened.compare_pairs(left, right)
    np.testing.assert_allclose(diagonal, np.diagonal(expected), atol=allowed, rtol=0)


def test_a_backend_without_transform_and_mean(tmp_path: Path) -> None:
    model = kaldi.read_backend(str(EXTRACTS / "kaldi" / "plda"))
    assert model.weight.shape == (40, 40)
    kaldi_bundle.export_backend(model, tmp_path / "model")
    assert Backend.load(tmp_path / "model").info.embedding_dim == 40


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--plda=mean.vec"], "instead of <Plda>"),
        (["--plda=transform.mat"], "instead of <Plda>"),
        (["--plda=nowhere"], "no such file"),
        (["--plda=plda", "--mean=plda"], "instead of a vector"),
        (["--plda=plda", "--transform=mean.vec"], "PLDA of 40 dimensions"),
        (["--plda=plda", "--transform="], "PLDA of 40 dimensions, but mean.vec gives 64"),
        (["--plda=plda", "--mean=", "--transform=plda"], "instead of a matrix"),
        (["--plda=head -c 5000 plda |"], "ends too early"),
        (["--plda=false |"], "status 1"),
        (["--plda=plda", "--smoothing=-1"], "at least 0"),
        ([], "takes --plda"),
        (["--plda=plda", "--model-out=x"], "--from=dca-plda only"),
    ],
)
def test_bad_kaldi_files(tmp_path, monkeypatch, capfd, options: list[str], says: str) -> None:
    monkeypatch.chdir(EXTRACTS / "kaldi")
    files = ["--transform=transform.mat", "--mean=mean.vec"]
    assert import_model(["--from=kaldi", *files, *options, str(tmp_path / "model")]) == 1
    assert says in capfd.readouterr().err
    assert not (tmp_path / "model").exists()
