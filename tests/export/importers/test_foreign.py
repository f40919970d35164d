"""PLDA of WeSpeaker, VBx, pyannote and SpeechBrain: their own scores, or densities written out."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from golden import EXTRACTS
from kaldi_files import binary_matrix, binary_vector
from scipy.stats import multivariate_normal

from dcaplda.bin.import_model import main as import_model
from dcaplda.runtime import Backend

pytestmark = pytest.mark.torch
FOREIGN = EXTRACTS / "foreign"
TOLERANCE = 2e-4
DIM, RANK = 16, 7


def density_llrs(u1: np.ndarray, u2: np.ndarray, psi: np.ndarray, n: int = 1) -> np.ndarray:
    """Log density of u2 given that u1, the mean of n, is of the same speaker, minus without."""
    found = np.empty((len(u1), len(u2)))
    for i, a in enumerate(u1):
        same = multivariate_normal(n * psi / (n * psi + 1) * a, np.diag(1 + psi / (n * psi + 1)))
        found[i] = same.logpdf(u2)
    return found - multivariate_normal(np.zeros(len(psi)), np.diag(1 + psi)).logpdf(u2)


def scored(bundle: Path, enroll: np.ndarray, test: np.ndarray, n: int = 1) -> np.ndarray:
    backend = Backend.load(bundle)
    left = backend.voiceprints(enroll, extra={"num_utts": np.full(len(enroll), n)})
    return backend.compare(left, backend.voiceprints(test, extra={"num_utts": np.ones(len(test))}))


@pytest.fixture
def arrays(rng) -> dict:
    """A PLDA with a full transform, as WeSpeaker keeps it."""
    mu, transform = 0.2 * rng.standard_normal(DIM), rng.standard_normal((DIM, DIM)) + np.eye(DIM)
    psi = np.linspace(5.0, 0.0, DIM)
    return {"mu": mu, "transform": transform, "psi": psi, "offset": -transform @ mu}


def hdf5(path: Path, content: dict) -> Path:
    with h5py.File(path, "w") as file:
        for name, value in content.items():
            packed = {"compression": "gzip", "fletcher32": True} if np.ndim(value) else {}
            file.create_dataset(name, data=value, **packed)
    return path


@pytest.mark.parametrize("switches", [(1, 0), (0, 0), (0, 1), ()])
@pytest.mark.parametrize("n", [1, 3])
def test_wespeaker(tmp_path, rng, arrays, switches, n, capsys) -> None:
    """Its documented layout and arithmetic; files of before the switches always normalized."""
    told = dict(zip(("normalize_length", "subtract_train_set_mean"), switches, strict=False))
    source = hdf5(tmp_path / "plda.h5", {**arrays, **told})
    mean = 0.5 * rng.standard_normal(DIM)
    (tmp_path / "mean.vec").write_bytes(binary_vector(mean))
    options = [f"--mean={tmp_path}/mean.vec"] if switches != (0, 1) else []
    mean = mean if options else np.zeros(DIM)
    assert import_model(["--from=wespeaker", *options, str(source), f"{tmp_path}/b"]) == 0
    warned = "was trained on vectors whose mean was subtracted" in capsys.readouterr().err
    assert warned == (switches == (0, 1))
    vectors = rng.standard_normal((9, DIM)).astype(np.float32)

    def turned(x: np.ndarray) -> np.ndarray:
        x = x.astype(np.float64) - mean
        normalize = told.get("normalize_length", 1)
        if normalize:
            x = np.sqrt(DIM) * x / np.linalg.norm(x, axis=1, keepdims=True)
        x = x @ arrays["transform"].T + arrays["offset"]
        return np.sqrt(DIM) * x / np.linalg.norm(x, axis=1, keepdims=True) if normalize else x

    expected = density_llrs(turned(vectors[:4]), turned(vectors[4:]), arrays["psi"], n)
    found = scored(tmp_path / "b", vectors[:4], vectors[4:], n)
    assert np.abs(found - expected).max() < TOLERANCE + 1e-6 * np.abs(expected).max()


def test_speechbrain_scores_of_its_own(tmp_path) -> None:
    source = str(FOREIGN / "speechbrain.npz")
    assert import_model(["--from=speechbrain", source, f"{tmp_path}/b"]) == 0
    with np.load(FOREIGN / "speechbrain-scores.npz") as theirs:
        found = scored(tmp_path / "b", theirs["enroll"], theirs["test"])
        assert np.abs(found - theirs["scores"]).max() < TOLERANCE


def test_pyannote_brings_vectors_to_the_same_place(tmp_path) -> None:
    """LLRs of where pyannote itself brings them, between-speaker variances being its phi."""
    assert import_model(["--from=pyannote", str(FOREIGN / "pyannote"), f"{tmp_path}/b"]) == 0
    with np.load(FOREIGN / "pyannote-vectors.npz") as theirs:
        expected = density_llrs(theirs["turned"][:8], theirs["turned"][8:], theirs["phi"])
        found = scored(tmp_path / "b", theirs["vectors"][:8], theirs["vectors"][8:])
    assert np.abs(found - expected).max() < TOLERANCE


def vbx_files(folder: Path, rng) -> tuple[Path, Path, dict]:
    made = {
        "mean1": rng.standard_normal(DIM),
        "mean2": 0.2 * rng.standard_normal(RANK),
        "lda": rng.standard_normal((DIM, RANK)),
        "mu": 0.05 * rng.standard_normal(RANK),
        "tr": 3.0 * rng.standard_normal((RANK, RANK)),
        "psi": np.linspace(5.0, 0.1, RANK),
    }
    transform = hdf5(folder / "transform.h5", {k: made[k] for k in ("mean1", "mean2", "lda")})
    vector = [binary_vector(made[name])[2:] for name in ("mu", "psi")]
    plda = b"\0B<Plda> " + vector[0] + binary_matrix(made["tr"])[2:] + vector[1] + b"</Plda> "
    (folder / "plda").write_bytes(plda)
    return transform, folder / "plda", made


def test_vbx(tmp_path, rng) -> None:
    """Lengths of 1 before and behind the LDA, then the PLDA of Kaldi's form."""
    transform, plda, made = vbx_files(tmp_path, rng)
    words = ["--from=vbx", f"--plda={plda}", str(transform), f"{tmp_path}/b"]
    assert import_model(words) == 0
    vectors = rng.standard_normal((11, DIM)).astype(np.float32)
    x = vectors.astype(np.float64) - made["mean1"]
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)) @ made["lda"] - made["mean2"]
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    u = (x - made["mu"]) @ made["tr"].T
    expected = density_llrs(u[:5], u[5:], made["psi"])
    assert np.abs(scored(tmp_path / "b", vectors[:5], vectors[5:]) - expected).max() < TOLERANCE


BAD = {
    "no psi": (lambda a: a.pop("psi"), "has no array 'psi'; is it a file of WeSpeaker"),
    "other shape": (lambda a: a.update(psi=np.ones(3)), r"'psi' has the shape \(3,\), expected 16"),
    "flat": (lambda a: a.update(transform=np.ones(DIM)), "'transform' has the shape"),
    "nan": (lambda a: a.update(mu=np.full(DIM, np.nan)), "'mu' holds NaN"),
    "negative": (lambda a: a.update(psi=-np.ones(DIM)), "'psi' has a negative value"),
    "singular": (lambda a: a.update(transform=np.ones((DIM, DIM))), "transform is singular"),
    "offset": (lambda a: a.update(offset=np.ones(DIM)), "'offset' is not -transform mu"),
    "switch": (lambda a: a.update(normalize_length=7), "'normalize_length' is no switch"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_of_wespeaker_is_one_line(tmp_path, arrays, name, capsys) -> None:
    import re

    change, words = BAD[name]
    change(arrays)
    source = hdf5(tmp_path / "plda.h5", arrays)
    assert import_model(["--from=wespeaker", str(source), f"{tmp_path}/b"]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if "ERROR" in line]
    assert len(told) == 1 and re.search(words, told[0]) and "plda.h5" in told[0]
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("content", [b"", b"not a file of anybody", b"PK\3\4 damaged"])
@pytest.mark.parametrize("source", ["wespeaker", "speechbrain"])
def test_damage_is_one_line(tmp_path, content, source, capsys) -> None:
    (tmp_path / "file").write_bytes(content)
    assert import_model([f"--from={source}", f"{tmp_path}/file", f"{tmp_path}/b"]) == 1
    told = [line for line in capsys.readouterr().err.splitlines() if "ERROR" in line]
    assert len(told) == 1 and "file': cannot be read as" in told[0]


def test_arrays_of_other_shapes_in_pyannotes_files(tmp_path, capsys) -> None:
    np.savez(
        tmp_path / "xvec_transform.npz", mean1=np.ones(4), mean2=np.ones(3), lda=np.ones((4, 3))
    )
    np.savez(tmp_path / "plda.npz", mu=np.ones(3), tr=np.eye(2), psi=np.ones(3))
    assert import_model(["--from=pyannote", str(tmp_path), f"{tmp_path}/b"]) == 1
    assert "'tr' has the shape (2, 2), expected 3 x 3" in capsys.readouterr().err
    (tmp_path / "plda.npz").unlink()
    assert import_model(["--from=pyannote", str(tmp_path), f"{tmp_path}/b"]) == 1
    assert "has no plda.npz" in capsys.readouterr().err


def test_objects_are_never_loaded(tmp_path, capsys) -> None:
    np.savez(tmp_path / "p.npz", mean=np.array([object()]), F=np.ones((1, 1)), Sigma=np.eye(1))
    assert import_model(["--from=speechbrain", f"{tmp_path}/p.npz", f"{tmp_path}/b"]) == 1
    assert "holds Python objects, which are never loaded" in capsys.readouterr().err
