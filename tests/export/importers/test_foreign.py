"""PLDA of WeSpeaker, VBx, pyannote and SpeechBrain: their own scores, or densities written out."""

from pathlib import Path

import h5py
import numpy as np
import pytest
from golden import EXTRACTS
from kaldi_files import binary_matrix, binary_vector
from scipy.stats import multivariate_normal

from dcaplda.bin.cluster_utterances import main as cluster
from dcaplda.bin.import_model import main as import_model
from dcaplda.bin.score_dense import main as score_dense
from dcaplda.runtime import Backend
from dcaplda.runtime.clustering.linkage import average_link
from dcaplda.runtime.tables.vector_writer import write_vectors

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


@pytest.mark.parametrize("name", ["normalized", "plain"])
@pytest.mark.parametrize(("way", "n"), [("average", 1), ("counted", 3)])
def test_wespeaker_scores_of_its_own(tmp_path, name, way, n) -> None:
    """Files that it trained and wrote; three vectors of a person, counted or taken for one."""
    with np.load(FOREIGN / f"wespeaker-{name}-scores.npz") as theirs:
        (tmp_path / "mean.vec").write_bytes(binary_vector(theirs["mean"].astype(np.float64)))
        words = ["--from=wespeaker", f"--mean={tmp_path}/mean.vec"]
        assert import_model([*words, str(FOREIGN / f"wespeaker-{name}.h5"), f"{tmp_path}/b"]) == 0
        found = scored(tmp_path / "b", theirs["enroll"].mean(axis=1), theirs["test"], n)
        assert np.abs(found - theirs[way]).max() < TOLERANCE
        assert np.ptp(found) > 5  # not all the same


def test_recordings_are_clustered_by_a_plda_of_others(tmp_path, capsys) -> None:
    """Its own LLRs among three people of three vectors each, one matrix, and who is who."""
    with np.load(FOREIGN / "wespeaker-plain-scores.npz") as theirs:
        enroll = theirs["enroll"]
    vectors = enroll[:3].reshape(9, -1)
    names = [f"p{i}-{k}" for i in range(3) for k in range(3)]
    write_vectors(f"ark,scp:{tmp_path}/x.ark,{tmp_path}/x.scp", names, vectors)
    (tmp_path / "reco2utt").write_text(f"meeting {' '.join(names)}\n")
    source = str(FOREIGN / "wespeaker-plain.h5")
    assert import_model(["--from=wespeaker", source, f"{tmp_path}/b"]) == 0
    tables = [f"{tmp_path}/b", f"{tmp_path}/reco2utt", f"scp:{tmp_path}/x.scp"]
    assert score_dense([*tables, f"ark:{tmp_path}/llrs.ark"]) == 0
    matrix = np.fromfile(tmp_path / "llrs.ark", "<f4", 81, offset=len("meeting ") + 15)
    found = scored(tmp_path / "b", vectors, vectors)
    np.testing.assert_allclose(matrix.reshape(9, 9), found, atol=1e-5)
    np.testing.assert_array_equal(
        Backend.load(tmp_path / "b").score(vectors, None, vectors, None), found
    )
    assert cluster(["--num-speakers=3", *tables, f"{tmp_path}/utt2spk"]) == 0
    assert "may not be LLRs" not in capsys.readouterr().err
    lines = dict(line.split() for line in (tmp_path / "utt2spk").read_text().splitlines())
    clusters = average_link(found, 0.0, 3)
    assert [lines[name] for name in names] == [f"meeting-{number + 1}" for number in clusters]
    # A prior has a threshold for LLRs, which scores of others are not yet.
    assert cluster([*tables, f"{tmp_path}/utt2spk"]) == 0
    assert "b: its scores may not be LLRs" in capsys.readouterr().err


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
    "complex": (lambda a: a.update(psi=np.ones(DIM) * 1j), "'psi' holds complex128; expected num"),
    "words": (lambda a: a.update(psi=np.array([b"a"] * DIM)), "'psi' holds bytes8; expected num"),
    "matrix": (
        lambda a: a.update(mu=np.ones((1, DIM))),
        r"shape \(1, 16\), expected one dimension",
    ),
    "nobody": (lambda a: a.update(psi=np.zeros(DIM)), "all between-speaker variances are 0"),
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


def test_a_damaged_npz_is_not_called_hdf5(tmp_path, capsys) -> None:
    whole = (FOREIGN / "pyannote" / "plda.npz").read_bytes()
    (tmp_path / "xvec_transform.npz").write_bytes(
        (FOREIGN / "pyannote" / "xvec_transform.npz").read_bytes()
    )
    (tmp_path / "plda.npz").write_bytes(whole[:-30])
    assert import_model(["--from=pyannote", str(tmp_path), f"{tmp_path}/b"]) == 1
    assert "plda.npz': cannot be read as npz (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("wespeaker", "--transform=x"),
        ("wespeaker", "--normalize-length=false"),
        ("pyannote", "--plda=x"),
        ("vbx", "--mean=x"),
        ("kaldi", "--calibration=x"),
    ],
)
def test_options_that_nobody_would_look_at_are_refused(tmp_path, source, word, capsys) -> None:
    assert import_model([f"--from={source}", word, f"{tmp_path}/f", f"{tmp_path}/b"]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert f"ERROR: {word.split('=')[0]} goes with --from=" in told


def test_objects_are_never_loaded(tmp_path, capsys) -> None:
    np.savez(tmp_path / "p.npz", mean=np.array([object()]), F=np.ones((1, 1)), Sigma=np.eye(1))
    assert import_model(["--from=speechbrain", f"{tmp_path}/p.npz", f"{tmp_path}/b"]) == 1
    assert "holds Python objects, which are never loaded" in capsys.readouterr().err
