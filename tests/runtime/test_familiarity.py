import json
from pathlib import Path

import numpy as np
import pytest
from bundles import as_version_1, edit_manifest
from random_models import DIM, random_model, statistics, written_out

from dcaplda.export.bundle_writer import export_model
from dcaplda.runtime import Backend, BundleError, InputError
from dcaplda.runtime.gallery.speakers import Gallery

pytestmark = pytest.mark.torch


def training_set() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((4000, DIM)).astype(np.float32)


def loaded(directory: Path, variant: str = "d-plda-dsd", **settings) -> Backend:
    model = random_model(variant, **settings)
    export_model(model, directory, statistics(model, training_set()))
    return Backend.load(directory)


@pytest.mark.parametrize("variant", ["d-plda-dsd", "d-plda-sd"])
@pytest.mark.parametrize("activation", ["identity", "softmax", "log-softmax"])
def test_distance_in_the_rotated_basis_is_that_of_z(tmp_path, variant, activation) -> None:
    """Written out in torch's own coordinates; within 1e-3 relative (float32 voiceprints)."""
    backend = loaded(tmp_path / "b", variant, side_activation=activation)
    model = random_model(variant, side_activation=activation)
    x = training_set()
    prints = backend.voiceprints(x, np.full(len(x), 10.0))
    assert backend.familiarity.side is not None
    found = np.array([backend.familiarity.side.distance(row) for row in prints])
    np.testing.assert_allclose(found, written_out(model, x), rtol=1e-3, atol=2e-3)


def test_training_data_itself_is_flagged_as_often_as_promised(tmp_path) -> None:
    backend = loaded(tmp_path / "b")
    x = training_set()
    distances = backend.familiarity.distances(backend.voiceprints(x, np.full(len(x), 10.0)))
    norms = np.linalg.norm(x, axis=1)
    flags = [
        backend.familiarity.warnings([10.0], [norms[i]], [distances[i]], "test")
        for i in range(len(x))
    ]
    share = {word: sum(word in " ".join(f) for f in flags) for word in ("distance", "length")}
    # 4 of 4000 are above a 99.9th percentile, and outside both ends of 0.05 % each.
    assert 3 <= share["distance"] <= 5
    assert 3 <= share["length"] <= 5


def test_duration_outside_is_said(tmp_path) -> None:
    backend = loaded(tmp_path / "b")
    x = training_set()[:3]
    ann = backend.enroll(x[0], 10.0)
    assert ann.warnings == ()
    answer = backend.verify(ann, x[1], 1.2, prior=0.5)
    assert answer.warnings == ("test: duration 1.2 s, trained on 4.0-240.0 s",)
    assert backend.verify(ann, x[1], 4.0, prior=0.5).warnings == ()
    assert backend.verify(ann, x[1], 240.0, prior=0.5).warnings == ()


def test_the_edge_of_the_range_is_inside_in_spite_of_rounding(tmp_path) -> None:
    model = random_model("d-plda-dsd")
    told = statistics(model, training_set())
    told["statistics"]["durations"] = {"min": 4.04, "max": 239.99}
    export_model(model, tmp_path / "b", told)
    backend = Backend.load(tmp_path / "b")
    x = training_set()[0]
    assert backend.enroll(np.stack([x, x]), [4.04, 239.99]).warnings == ()
    assert len(backend.enroll(x, 4.03).warnings) == len(backend.enroll(x, 240.0).warnings) == 1


def test_the_worst_of_several_enrolments_is_named(tmp_path) -> None:
    backend = loaded(tmp_path / "b")
    x = training_set()[:4]
    for way in ("scores", "voiceprints"):
        ann = backend.enroll(x, [10.0, 3.0, 2.0, 300.0], multi_enroll=way)
        assert ann.warnings == ("enrolment: duration 2.0 s, trained on 4.0-240.0 s",)
        answer = backend.verify(ann, x[0], 500.0, prior=0.5)
        assert answer.warnings == (
            "enrolment: duration 2.0 s, trained on 4.0-240.0 s",
            "test: duration 500.0 s, trained on 4.0-240.0 s",
        )


def test_a_strange_embedding_is_said(tmp_path) -> None:
    backend = loaded(tmp_path / "b")
    x = training_set()[0]
    (warning,) = backend.enroll(100 * x, 10.0).warnings[:1]
    assert warning.startswith("enrolment: embedding of length ")
    # z of an embedding whose direction the training never had.
    model = random_model("d-plda-dsd")
    far = model.side_projection.weight.detach().numpy().sum(axis=0)
    found = backend.enroll(far * np.linalg.norm(x) / np.linalg.norm(far), 10.0).warnings
    limit = backend.familiarity.side.limit
    true = written_out_distance(model, far * np.linalg.norm(x) / np.linalg.norm(far))
    assert any("side-information" in line for line in found) == (true > limit)


def written_out_distance(model, x: np.ndarray) -> float:
    return float(written_out(model, np.vstack([training_set(), x.astype(np.float32)]))[-1])


def test_a_model_without_side_stage_has_the_other_warnings(tmp_path) -> None:
    backend = loaded(tmp_path / "b", "d-plda-dd")
    assert backend.familiarity.side is None
    assert "duration 1.0 s" in backend.enroll(training_set()[0], 1.0).warnings[0]


def test_without_training_information_there_are_no_warnings(tmp_path) -> None:
    export_model(random_model("d-plda-dsd"), tmp_path / "b")
    backend = Backend.load(tmp_path / "b")
    assert not backend.familiarity.informed
    assert backend.enroll(1e6 * training_set()[0], 0.001).warnings == ()


def test_a_gallery_keeps_the_warnings_of_an_enrolment(tmp_path) -> None:
    """Those of the probe come first, each under its own side."""
    backend = loaded(tmp_path / "b")
    x = training_set()
    with Gallery.open(tmp_path / "g.db", backend) as gallery:
        gallery.add("ann", backend.enroll(x[0], 1.0))
        ann = gallery.get("ann")
        assert ann is not None and len(ann.warnings) == 1
        found = gallery.identify(backend.enroll(x[0], 2.0), prior=0.5)
    assert [line.split(" s,")[0] for line in found.warnings] == [
        "test: duration 2.0",
        "enrolment: duration 1.0",
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told["seconds"].pop("min"),
        lambda told: told["side_information"].update(columns=[0, 99999]),
        lambda told: told["side_information"].update(mean=[1.0]),
        lambda told: told.update(norm="long"),
    ],
)
def test_damaged_information_is_refused(tmp_path, change) -> None:
    loaded(tmp_path / "b")
    edit_manifest(tmp_path / "b", lambda manifest: change(manifest["familiarity"]))
    with pytest.raises(BundleError, match="(familiarity|side_information).*export the model again"):
        Backend.load(tmp_path / "b")


@pytest.mark.parametrize("variant", ["d-plda-dsd", "d-plda-dd", "plda"])
def test_one_call_says_what_two_calls_say(tmp_path, variant) -> None:
    """verify.onnx against voiceprint.onnx and compare.onnx, as a bundle without it has to do.

    LLRs within 1e-4 (float32 in another order), the same warnings.
    """
    one = loaded(tmp_path / "one", variant)
    other = loaded(tmp_path / "other", variant)
    for name in ("one", "other"):
        as_version_1(tmp_path / name)
    manifest = json.loads((tmp_path / "other/model.json").read_text())
    del manifest["graphs"]["verify"], manifest["graphs"]["search"]
    (tmp_path / "other/model.json").write_text(json.dumps(manifest))
    one, other = (Backend.load(tmp_path / name) for name in ("one", "other"))
    assert {"verify", "search"} <= one.info.further_graphs
    assert not {"verify", "search"} & other.info.further_graphs
    assert one.info.fingerprint == other.info.fingerprint, "galleries of version 1 stay valid"
    x = training_set()
    x[1] *= 9.0
    x[2, 0] += 40.0
    for speaker in (one.enroll(x[3], 10.0), one.enroll(x[3:6], [10.0, 20.0, 30.0])):
        for row, seconds in ((0, 10.0), (1, 10.0), (2, 10.0), (6, 1.2)):
            found = one.verify(speaker, x[row], seconds, prior=0.1)
            expected = other.verify(speaker, x[row], seconds, prior=0.1)
            assert found.llr == pytest.approx(expected.llr, abs=1e-4, rel=1e-5)
            assert found.warnings == expected.warnings
            assert bool(found.warnings) == (row > 0)


def test_zeros_are_refused_though_the_graph_has_an_answer(tmp_path) -> None:
    backend = loaded(tmp_path / "b")
    speaker = backend.enroll(training_set()[0], 10.0)
    for value, words in ((0.0, "zero"), (np.nan, "nan"), (np.inf, "inf")):
        with pytest.raises(InputError, match=f"(?i){words}"):
            backend.verify(speaker, np.full(DIM, value, np.float32), 10.0, prior=0.1)
