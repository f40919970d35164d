"""Bundles adapted to a place: the identity, the posterior, the fingerprint, what is refused."""

import gc
from pathlib import Path

import numpy as np
import pytest
from bundles import edit_manifest
from joint_models import joint_bundle, place_pool, utterances
from random_models import DIM

from dcaplda.runtime import Backend, BundleError, InputError
from dcaplda.runtime.adaptation import adapt_bundle, write_adaptation
from dcaplda.runtime.bundle.agreement import read_graph
from dcaplda.runtime.bundle.manifest import read_info
from dcaplda.runtime.bundle.writing import write_files
from dcaplda.runtime.errors import ModelError
from dcaplda.runtime.joint import place

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    return joint_bundle(tmp_path_factory.mktemp("joint") / "bundle")


@pytest.fixture(scope="module")
def backend(bundle: Path) -> Backend:
    return Backend.load(bundle, threads=1)


@pytest.mark.parametrize("nothing", [np.empty((0, DIM)), np.empty((0, DIM), np.float32), []])
def test_no_utterance_is_the_identity(backend: Backend, nothing) -> None:
    assert backend.adapted(nothing) is backend


def test_an_adapted_model_is_another_model(backend: Backend) -> None:
    office = backend.adapted(place_pool(20))
    assert office.info.fingerprint != backend.info.fingerprint
    assert office.info.manifest["adaptation"]["parent"] == backend.info.fingerprint
    assert office.info.manifest["adaptation"]["utterances"] == 20
    ann = backend.enroll(*utterances(2, 1))
    with pytest.raises(InputError, match="enrolled with another model.*enrol again"):
        office.verify(ann, *utterances(1, 2), prior=0.1)
    other = backend.adapted(place_pool(21))
    assert other.info.fingerprint not in (office.info.fingerprint, backend.info.fingerprint)


def test_the_same_pool_gives_the_same_model(backend: Backend) -> None:
    one, other = (backend.adapted(place_pool(20)) for _ in range(2))
    assert one.info.fingerprint == other.info.fingerprint


def test_the_order_of_the_pool_does_not_matter(backend: Backend) -> None:
    """Within 1e-4: float32 sums."""
    ann, test = utterances(2, 1), utterances(3, 2)
    llrs = []
    for pool in (place_pool(20), place_pool(20)[::-1]):
        office = backend.adapted(pool)
        llrs.append(office.compare(office.enroll(*ann), office.voiceprints(*test)))
    np.testing.assert_allclose(*llrs, atol=1e-4)


def test_the_offset_is_the_mean_of_its_posterior(backend: Backend) -> None:
    """Bayes for one Gaussian per axis, written out: prior N(0, o), a mean with variance v."""
    pool = place_pool(20).astype(np.float64)
    before, after = backend.joint.scorer, backend.adapted(pool).joint.scorer
    variance = (before.between / after.heard + 1.0 / 20) / place.TRUST
    np.testing.assert_allclose(after.offset, before.offset * variance / (before.offset + variance))
    moved = pool.mean(axis=0) - before.embedding_mean
    shift = before.weight @ moved * place.SHIFT * after.known
    np.testing.assert_allclose(after.bias, before.bias - shift, atol=1e-9)
    w = pool @ before.weight.T + after.bias
    x = (w / np.linalg.norm(w, axis=1, keepdims=True)) @ before.turn.T - before.centre
    posterior = before.offset / (before.offset + variance) * x.mean(axis=0)
    np.testing.assert_allclose(after.centre - before.centre, posterior, rtol=1e-6, atol=1e-9)
    assert after.known == pytest.approx(np.mean(before.offset / (before.offset + variance)))
    np.testing.assert_array_equal(after.prior_offset, before.prior_offset)


def test_people_that_return_are_counted_once(backend: Backend) -> None:
    """24 utterances of 4 people, and of 24: the effective number tells them apart."""
    few = backend.adapted(utterances(24, 3, people=4)[0]).joint.scorer
    many = backend.adapted(utterances(24, 3)[0]).joint.scorer
    assert 3.0 < few.heard < 6.0 < 12.0 < many.heard <= 24.0
    assert few.known < many.known
    assert (few.offset > many.offset).all()


def test_of_the_graphs_only_constants_change(backend: Backend, bundle: Path) -> None:
    """All sizes stay; graphs that know no embeddings stay byte for byte."""
    office = backend.adapted(place_pool(20))
    for name in backend.info.manifest["graphs"]:
        before = read_graph(bundle, backend.info, name)
        after = read_graph(office.directory, office.info, name)
        assert len(before) == len(after)
        assert (before == after) == (name in ("compare", "pairs", "search", "prepare", "tile"))


def test_backend_onnx_is_adapted_too(backend: Backend) -> None:
    """The graph for other runtimes gives what voiceprints and compare give, within 1e-4."""
    import onnxruntime

    office = backend.adapted(place_pool(20))
    (x, d), (y, e) = utterances(3, 1), utterances(4, 2)
    session = onnxruntime.InferenceSession(f"{office.directory}/backend.onnx")
    names = ("enroll_embeddings", "enroll_durations", "test_embeddings", "test_durations")
    (llrs,) = session.run(None, dict(zip(names, (x, d, y, e), strict=True)))
    np.testing.assert_allclose(llrs, office.score(x, d, y, e), atol=1e-4)


def test_it_lives_as_long_as_it_is_used_and_leaves_nothing(backend: Backend) -> None:
    office = backend.adapted(place_pool(20))
    home = Path(office.directory)
    assert office.verify(office.enroll(*utterances(1, 1)), *utterances(1, 2), prior=0.1)
    del office
    gc.collect()
    assert not home.parent.exists()


def test_an_adapted_bundle_is_not_adapted_again(backend: Backend) -> None:
    office = backend.adapted(place_pool(20))
    with pytest.raises(InputError, match="is adapted already"):
        office.adapted(place_pool(20))


def test_a_model_that_is_not_joint_cannot_be_adapted(small_bundle: Path) -> None:
    with pytest.raises(InputError, match="d-plda-dsd.*cannot be adapted"):
        Backend.load(small_bundle).adapted(place_pool(3))


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        (np.full((3, DIM), np.nan), "'b0' holds nan"),
        (np.zeros((3, DIM)), "'b0' is all zero"),
        (np.ones((3, DIM + 1)), "25 values per row, the model takes 24"),
        (utterances(9, 1, people=1)[0], "the 9 utterances seem to be of one person"),
        ([[1.0], [1.0, 2.0]], "not an array of numbers"),
    ],
)
def test_bad_pools_are_one_line(backend: Backend, pool, words: str) -> None:
    ids = [f"b{i}" for i in range(len(pool))]
    with pytest.raises(InputError, match=words) as error:
        backend.adapted(pool, ids=ids)
    assert "\n" not in str(error.value)


def test_one_utterance_is_a_pool(backend: Backend) -> None:
    office = backend.adapted(place_pool(1)[0])
    assert 0 < office.joint.scorer.known < backend.adapted(place_pool(20)).joint.scorer.known


def test_ids_may_be_an_array(backend: Backend) -> None:
    with pytest.raises(InputError, match="'b1' holds nan"):
        pool = place_pool(2)
        pool[1, 0] = np.nan
        backend.adapted(pool, ids=np.array(["b0", "b1"]))


def test_a_graph_without_the_constants_is_a_bundle_error(bundle: Path, tmp_path: Path) -> None:
    """A manifest that takes one graph for another."""
    import shutil

    copy = shutil.copytree(bundle, tmp_path / "copy")
    edit_manifest(copy, lambda m: m["graphs"].update(voiceprint=m["graphs"]["pairs"]))
    with pytest.raises(BundleError, match="has the inputs enroll, test, not embeddings"):
        adapt_bundle(copy, read_info(copy), place_pool(9))


# Seconds


def test_seconds_are_noted_and_change_nothing_else(backend: Backend) -> None:
    seconds = np.linspace(1.5, 20.5, 20)
    told, untold = backend.adapted(place_pool(20), seconds), backend.adapted(place_pool(20))
    noted = told.info.manifest["adaptation"]["seconds"]
    assert noted == {"total": pytest.approx(220.0), "least": 1.5, "most": 20.5}
    assert "seconds" not in untold.info.manifest["adaptation"]
    assert told.info.fingerprint == untold.info.fingerprint


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ([1.0, 2.0], "2 durations for 3 embeddings"),
        ([1.0, -2.0, 3.0], "'b1' has -2 seconds"),
        ([1.0, 2.0, np.nan], "'b2' has nan seconds"),
        (["x", 1.0, 2.0], "holds text"),
    ],
)
def test_bad_seconds_are_one_line(backend: Backend, seconds, words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        backend.adapted(place_pool(3), seconds, ids=["b0", "b1", "b2"])
    assert "\n" not in str(error.value)


# Writing


def test_a_bundle_replaces_a_bundle_and_nothing_else(bundle: Path, tmp_path: Path) -> None:
    made = adapt_bundle(bundle, read_info(bundle), place_pool(9))
    target = tmp_path / "deep" / "office"
    write_adaptation(made, target)
    first = Backend.load(target).info.fingerprint
    write_adaptation(adapt_bundle(bundle, read_info(bundle), place_pool(12)), target)
    assert Backend.load(target).info.fingerprint != first
    assert [path.name for path in target.parent.iterdir()] == ["office"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").write_text("x")
    with pytest.raises(ModelError, match="not empty and not a bundle"):
        write_adaptation(made, tmp_path / "mine")
    with pytest.raises(ModelError, match="is a file"):
        write_adaptation(made, tmp_path / "mine" / "notes")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


def test_a_link_to_a_bundle_leads_to_the_new_one(bundle: Path, tmp_path: Path) -> None:
    """A link such as `current` stays a link; the directory behind it is replaced."""
    made = adapt_bundle(bundle, read_info(bundle), place_pool(9))
    write_adaptation(made, tmp_path / "office")
    (tmp_path / "current").symlink_to("office")
    write_adaptation(adapt_bundle(bundle, read_info(bundle), place_pool(12)), tmp_path / "current")
    assert (tmp_path / "current").is_symlink()
    assert Backend.load(tmp_path / "office").info.manifest["adaptation"]["utterances"] == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "office"]


def test_a_failed_write_leaves_the_old_bundle(bundle: Path, tmp_path: Path) -> None:
    made = adapt_bundle(bundle, read_info(bundle), place_pool(9))
    write_adaptation(made, tmp_path / "office")
    with pytest.raises(OSError):
        write_files(tmp_path / "office", {"model.json": b"{}", "no/such/folder": b""})
    assert Backend.load(tmp_path / "office").info.manifest["adaptation"]["utterances"] == 9
    assert [path.name for path in tmp_path.iterdir()] == ["office"]
