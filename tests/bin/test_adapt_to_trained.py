"""adapt-backend where the pool is of a place that training knew: it is said, kept and used."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from joint_models import joint_torch_model, place_pool
from kaldi_files import write_scp

from dcaplda.bin.adapt_backend import main
from dcaplda.export.bundle_writer import export_model
from dcaplda.export.graphs.algebra import joint_scorer_of
from dcaplda.runtime import Backend
from dcaplda.runtime.bundle.checksums import sha256
from dcaplda.runtime.joint.place import posterior

pytestmark = pytest.mark.torch
PLACES, NUMBER = 4, 2


@pytest.fixture(scope="module")
def pool() -> np.ndarray:
    return place_pool(20)


@pytest.fixture(scope="module")
def bundle(pool, tmp_path_factory) -> Path:
    """A model that knows the pool's place well, and three others far off."""
    model = joint_torch_model(places=PLACES)
    mean = joint_scorer_of(model).centred(pool).mean(axis=0)
    far = 8.0 * np.random.default_rng(5).standard_normal((PLACES, len(mean)))
    far[NUMBER] = 0.0
    axes = model.plda
    with torch.no_grad():
        for centres in (axes.trained_mean, axes.trained_centre):
            centres.copy_(torch.from_numpy(mean + far))
        axes.trained_left.fill_(0.01)
        axes.trained_own.copy_(torch.linspace(-2.0, 3.0, PLACES))
    folder = tmp_path_factory.mktemp("trained") / "bundle"
    names = ["car", "office", "phone", "studio"]
    # A model that was started from another one knows that one's places, not its own domains.
    export_model(model, folder, training={"domains": ["street"], "trained_places": names})
    return folder


def adapt(bundle: Path, folder: Path, pool: np.ndarray) -> Backend:
    vectors = {f"p{i}": np.asarray(row, np.float32) for i, row in enumerate(pool)}
    table = f"scp:{write_scp(folder, vectors, 'pool')}"
    assert main([f"--report-text={folder / 'text'}", str(bundle), table, str(folder / "new")]) == 0
    return Backend.load(folder / "new")


def test_the_place_is_named_and_kept(bundle: Path, pool, tmp_path: Path, capsys) -> None:
    office = adapt(bundle, tmp_path, pool)
    assert "are of a place that training knew: phone" in capsys.readouterr().err
    assert office.info.manifest["adaptation"]["trained_place"] == "phone"
    assert "place of training: phone" in (tmp_path / "text").read_text()


def test_it_scores_as_the_posterior_from_training_does(bundle: Path, pool, tmp_path: Path) -> None:
    """Graphs of the adapted bundle against the closed form in float64, 1e-3 of LLRs below 200."""
    parent = Backend.load(bundle)
    assert parent.joint.scorer.trained is not None
    scorer = posterior(parent.joint.scorer, pool)
    office = adapt(bundle, tmp_path, pool)
    assert office.joint.scorer.known == pytest.approx(scorer.known, abs=1e-6) and scorer.known > 0.9
    tests, seconds = place_pool(6, 51), np.linspace(3.0, 20.0, 6)
    llrs = office.score(tests, seconds, tests, seconds)
    sides = office.joint.sides(office.voiceprints(tests, seconds))
    np.testing.assert_allclose(llrs, office.joint.llrs(sides, sides), atol=1e-3)


def test_another_place_is_not_named(bundle: Path, tmp_path: Path, capsys) -> None:
    elsewhere = adapt(bundle, tmp_path, place_pool(20, seed=90))
    assert "training knew" not in capsys.readouterr().err
    assert "trained_place" not in elsewhere.info.manifest["adaptation"]
    assert "place of training: none" in (tmp_path / "text").read_text()


@pytest.mark.parametrize(
    "names",
    [["car", "office", "phone"], ["car", "office", "", "studio"], ["a", "b", "c\nd", "e"], 7],
)
def test_names_that_are_not_those_of_the_places_are_refused(
    bundle: Path, pool, tmp_path: Path, capsys, names
) -> None:
    other = shutil.copytree(bundle, tmp_path / "bundle")
    manifest = json.loads((other / "model.json").read_text())
    manifest["training"]["trained_places"] = names
    (other / "model.json").write_text(json.dumps(manifest))
    (other / "SHA256SUMS").unlink()
    sums = {path.name: sha256(path.read_bytes()) for path in sorted(other.iterdir())}
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    (other / "SHA256SUMS").write_text(text)
    table = write_scp(tmp_path, {f"p{i}": np.float32(row) for i, row in enumerate(pool)}, "pool")
    assert main([str(other), f"scp:{table}", str(tmp_path / "new")]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "'trained_places' are not the names of the 4 places that training knew" in said
    assert not (tmp_path / "new").exists()


def test_files_of_the_bundle_are_not_written_over(bundle: Path, pool, tmp_path, capsys) -> None:
    table = write_scp(tmp_path, {f"p{i}": np.float32(row) for i, row in enumerate(pool)}, "pool")
    for name in ("model.json", "joint.npz", "voiceprint.onnx"):
        before = (bundle / name).read_bytes()
        report = f"--report-text={bundle / name}"
        assert main([report, str(bundle), f"scp:{table}", str(tmp_path / "new")]) == 1
        assert "is an input of this command" in capsys.readouterr().err.splitlines()[-1]
        assert (bundle / name).read_bytes() == before
        assert not (tmp_path / "new").exists()


def test_bundles_from_before_have_no_places(tmp_path: Path, pool) -> None:
    export_model(joint_torch_model(), tmp_path / "before")
    backend = Backend.load(tmp_path / "before")
    assert backend.joint.scorer.trained is None
    config = json.loads((tmp_path / "before" / "model.json").read_text())
    assert "trained_place" not in str(config.get("adaptation"))
    assert backend.adapted(pool).joint.scorer.known > 0
