"""A trained model's PLDA in the files of others: round trips through our own importers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from joint_models import joint_torch_model
from random_models import DIM, random_model

from dcaplda.bin.export_onnx import main as export
from dcaplda.bin.import_model import main as import_model
from dcaplda.export.exporters.equivalent import equivalent_plda
from dcaplda.runtime import Backend
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.tables.kaldi_objects import read_plda_file
from dcaplda.train.plda.form import plda_form
from dcaplda.train.store import save_model

pytestmark = pytest.mark.torch
TARGETS = ("pyannote", "kaldi", "vbx")
RANK = 12


def model_of(between: np.ndarray, within: np.ndarray, mean: np.ndarray, variant: str = "d-plda-dd"):
    """A model whose score is that of a PLDA of these covariances on unit vectors."""
    model = random_model(variant, lda_dim=RANK)
    form = plda_form(np.linalg.inv(between), np.linalg.inv(within), mean)
    with torch.no_grad():
        for name in ("cross", "auto", "linear", "offset"):
            getattr(model.plda, name).copy_(torch.tensor(np.asarray(getattr(form, name))))
    return model


@pytest.fixture
def covariances(rng) -> tuple:
    """Of unit vectors in 12 dimensions, about 1 / 12 each direction."""

    def covariance(scale: float) -> np.ndarray:
        root = rng.standard_normal((RANK, 2 * RANK))
        return scale * root @ root.T / (2 * RANK) / RANK

    return covariance(0.7), covariance(0.3), 0.05 * rng.standard_normal(RANK)


def import_back(program: str, folder: Path, bundle: Path) -> Backend:
    words = {
        "pyannote": [str(folder)],
        "vbx": [f"--plda={folder}/plda", f"{folder}/transform.h5"],
        "kaldi": [
            f"--plda={folder}/plda",
            f"--transform={folder}/transform.mat",
            f"--mean={folder}/mean.vec",
            "--normalize-length=false",
        ],
    }[program]
    assert import_model([f"--from={program}", *words, str(bundle)]) == 0
    return Backend.load(bundle)


def raw_scores(model, x: np.ndarray) -> np.ndarray:
    """eq. 9 in float64, before any calibration."""
    model = model.double()
    with torch.no_grad():
        w = model.inputs(torch.tensor(x).double(), torch.ones(len(x)).double())["projected"]
        return model.plda(w, w).numpy()


@pytest.mark.parametrize("program", TARGETS)
@pytest.mark.parametrize("variant", ["plda", "d-plda-dsd"])
def test_round_trips_score_as_the_model(tmp_path, rng, covariances, program, variant) -> None:
    """Imported again, scores plus the shift that was told are the model's, within 2e-4."""
    model = model_of(*covariances, variant)
    save_model(model, tmp_path / "exp")
    target = tmp_path / "out"
    assert export([f"--to={program}", str(tmp_path / "exp"), str(target)]) == 0
    backend = import_back(program, target, tmp_path / "bundle")
    x = rng.standard_normal((14, DIM)).astype(np.float32)
    prints = backend.voiceprints(x, extra={"num_utts": np.ones(14)})
    expected = raw_scores(model, x)
    shift = equivalent_plda(model.float(), "exp").shift
    assert np.abs(backend.compare(prints, prints) + shift - expected).max() < 2e-4


def test_the_covariances_come_back(covariances) -> None:
    """A model that is a PLDA: its own covariances and mean, no shift, nothing clipped."""
    between, within, mean = covariances
    found = equivalent_plda(model_of(between, within, mean), "exp")
    back = np.linalg.inv(found.plda.transform)
    np.testing.assert_allclose(back @ back.T, within, atol=1e-6 * np.abs(within).max() * RANK)
    np.testing.assert_allclose(
        back @ np.diag(found.plda.psi) @ back.T, between, atol=1e-5 * np.abs(between).max() * RANK
    )
    np.testing.assert_allclose(found.plda.mean, mean, atol=1e-5)
    assert abs(found.shift) < 1e-3 and found.above == found.below == 0
    assert (np.diff(found.plda.psi) <= 0).all(), "the largest first, as others sort them"


def test_what_no_plda_can_be_is_clipped_and_counted(tmp_path, covariances, capsys) -> None:
    model = model_of(*covariances)
    with torch.no_grad():
        model.plda.auto.mul_(1.2)  # the best directions pass 1
    save_model(model, tmp_path / "exp")
    found = equivalent_plda(model, "exp")
    assert found.above > 0 and found.plda.psi.max() == pytest.approx(999.0)
    assert export(["--to=kaldi", str(tmp_path / "exp"), str(tmp_path / "out")]) == 0
    assert f"{found.above} of {RANK} directions are of no PLDA" in capsys.readouterr().err
    assert read_plda_file(str(tmp_path / "out/plda")).psi.max() == pytest.approx(999.0)
    with torch.no_grad():
        model.plda.cross.neg_()
    with pytest.raises(ModelError, match="no positive direction"):
        equivalent_plda(model.double(), "exp")


def test_what_cannot_be_exported_is_one_line(tmp_path, covariances, capsys) -> None:
    save_model(joint_torch_model(), tmp_path / "joint")
    save_model(model_of(*covariances), tmp_path / "exp")
    (tmp_path / "file").touch()
    for words, told in (
        (["--to=kaldi", f"{tmp_path}/joint", f"{tmp_path}/out"], "a joint model normalizes"),
        (
            ["--to=sherpa", f"{tmp_path}/exp", f"{tmp_path}/out"],
            "expected pyannote or kaldi or vbx",
        ),
        (["--to=vbx", f"{tmp_path}/exp", f"{tmp_path}/file"], "is a file; give a directory"),
    ):
        assert export(words) == 1
        assert told in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
