"""Unsupervised adaptation of Kaldi's PLDA: ivector-adapt-plda's model and scores, and bad input."""

from pathlib import Path

import numpy as np
import pytest
from golden import EXTRACTS, FULL, needs_full_golden, read_columns
from kaldi_files import binary_ark, random_vectors

from dcaplda.bin.adapt_backend import main as adapt
from dcaplda.bin.score_trials import main as score
from dcaplda.export.importers import kaldi_adapt
from dcaplda.export.importers.kaldi import read_backend
from dcaplda.runtime.tables.kaldi_objects import KaldiPlda, read_plda_file
from dcaplda.runtime.tables.vectors import read_vectors

TOLERANCE = 5e-5
GOLDEN = kaldi_adapt.Scales(within=0.75, between=0.25)
FILES = ["--from=kaldi", "--plda=plda", "--transform=transform.mat", "--mean=mean.vec"]
OPTIONS = [*FILES, "--within-covar-scale=0.75", "--between-covar-scale=0.25"]
TABLE = "scp:test_xvector.scp"
ROOTS = [
    pytest.param(EXTRACTS / "kaldi", id="extract"),
    pytest.param(FULL / "kaldi-golden", id="full", marks=needs_full_golden),
]


def covariances(plda: KaldiPlda) -> tuple[np.ndarray, np.ndarray]:
    """Within and between, which have no sign of rows to choose."""
    back = np.linalg.inv(plda.transform)
    return back @ back.T, back @ np.diag(plda.psi) @ back.T


@pytest.mark.parametrize("root", ROOTS)
def test_the_adapted_plda_is_that_of_ivector_adapt_plda(monkeypatch, root: Path) -> None:
    monkeypatch.chdir(root)
    first = read_backend("plda", "transform.mat", "mean.vec")
    found = kaldi_adapt.adapted_backend(first, read_vectors(TABLE).matrix, GOLDEN).plda
    golden = read_plda_file("plda.adapted")
    assert np.abs(first.plda.psi - golden.psi).max() > 1.0  # there is something to find
    np.testing.assert_allclose(found.mean, golden.mean, atol=TOLERANCE)
    np.testing.assert_allclose(found.psi, golden.psi, atol=TOLERANCE)
    for ours, theirs in zip(covariances(found), covariances(golden), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=TOLERANCE)


@pytest.mark.parametrize("root", ROOTS)
def test_scores_of_the_adapted_bundle_are_kaldis(tmp_path, monkeypatch, root: Path) -> None:
    monkeypatch.chdir(root)
    out = tmp_path / "scores"
    assert adapt([*OPTIONS, TABLE, str(tmp_path / "model")]) == 0
    assert score([str(tmp_path / "model"), TABLE, TABLE, "trials", str(out)]) == 0
    ours, theirs = read_columns(out), read_columns(Path("scores.single.adapted"))
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    worst = max(abs(float(a[2]) - float(b[2])) for a, b in zip(ours, theirs, strict=True))
    assert worst < TOLERANCE


def random_plda(dim: int) -> KaldiPlda:
    rng = np.random.default_rng(0)
    transform = rng.standard_normal((dim, dim)) + 3.0 * np.eye(dim)
    return KaldiPlda(rng.standard_normal(dim), transform, rng.uniform(0.5, 4.0, dim))


def test_vectors_that_scatter_less_than_the_model_change_its_mean_only() -> None:
    plda = random_plda(5)
    w = plda.mean + 1e-3 * np.random.default_rng(1).standard_normal((50, 5))
    found = kaldi_adapt.adapted_plda(plda, w, kaldi_adapt.Scales())
    np.testing.assert_allclose(found.mean, w.mean(axis=0))
    for ours, theirs in zip(covariances(found), covariances(plda), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_shares_of_one_make_the_total_covariance_that_of_the_data() -> None:
    """Where the data scatter more in every direction, within + between becomes their covariance."""
    plda = random_plda(4)
    w = plda.mean + 50.0 * np.random.default_rng(1).standard_normal((200, 4))
    scales = kaldi_adapt.Scales(within=0.4, between=0.6, mean_diff=0.0)
    within, between = covariances(kaldi_adapt.adapted_plda(plda, w, scales))
    np.testing.assert_allclose(within + between, np.cov(w.T, bias=True), rtol=1e-9)
    apart = w.mean(axis=0) - plda.mean
    moved = kaldi_adapt.Scales(within=0.4, between=0.6, mean_diff=2.0)
    within, between = covariances(kaldi_adapt.adapted_plda(plda, w, moved))
    expected = np.cov(w.T, bias=True) + 2.0 * np.outer(apart, apart)
    np.testing.assert_allclose(within + between, expected, rtol=1e-9)


def pool(folder: Path, count: int = 50, dim: int = 64, bad: float | None = None) -> str:
    vectors = random_vectors(count, dim)
    if bad is not None:
        vectors["u1"][3] = bad
    (folder / "pool.ark").write_bytes(binary_ark(vectors))
    return f"ark:{folder / 'pool.ark'}"


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"bad": np.nan}, "nan"),
        ({"bad": np.inf}, "inf"),
        ({"dim": 30}, "30 values per row, the model takes 64"),
        ({"count": 1}, "needs at least 2"),
    ],
)
def test_bad_vectors(tmp_path, monkeypatch, capfd, made: dict, says: str) -> None:
    monkeypatch.chdir(EXTRACTS / "kaldi")
    assert adapt([*FILES, "--print-args=false", pool(tmp_path, **made), str(tmp_path / "m")]) == 1
    err = capfd.readouterr().err
    assert says in err.lower() and err.count("\n") == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--within-covar-scale=-1"], "cannot be negative"),
        (["--mean-diff-scale=nan"], "expected a number"),
        (["--between-covar-scale=inf"], "expected a number"),
        (["--plda="], "takes --plda"),
        (["--plda=mean.vec"], "instead of <Plda>"),
        (["--report=x.html"], "are for bundles"),
        (["--from=other"], "expected kaldi"),
        (["--from="], "go with --from=kaldi"),
    ],
)
def test_bad_options(tmp_path, monkeypatch, capfd, options: list[str], says: str) -> None:
    monkeypatch.chdir(EXTRACTS / "kaldi")
    assert adapt([*FILES, *options, pool(tmp_path), str(tmp_path / "m")]) == 1
    assert says in capfd.readouterr().err
    assert not (tmp_path / "m").exists()


def test_few_vectors_are_taken_with_a_warning(tmp_path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(EXTRACTS / "kaldi")
    assert adapt([*FILES, pool(tmp_path, count=10), str(tmp_path / "m")]) == 0
    assert "10 vectors do not fill the 40 dimensions" in capfd.readouterr().err
