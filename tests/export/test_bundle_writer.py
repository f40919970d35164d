import json

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from random_models import DIM, random_model

from dcaplda.export import parity
from dcaplda.export.bundle_files import write_bundle
from dcaplda.export.bundle_writer import export_model
from dcaplda.export.graphs import names
from dcaplda.export.graphs.bundle import build_graphs
from dcaplda.runtime.errors import ModelError
from dcaplda.train.model.config import ACTIVATIONS, VARIANTS
from dcaplda.train.model.durations import FEATURES

pytestmark = pytest.mark.torch


def shapes() -> list:
    """Every variant with every feature and activation that it uses."""
    cases = []
    for variant, stages in VARIANTS.items():
        for feature in FEATURES if stages.duration_stage else ("wlog",):
            for activation in ACTIVATIONS if stages.side_stage else ("identity",):
                cases.append((variant, feature, activation))
    return cases


@pytest.mark.parametrize(("variant", "feature", "activation"), shapes())
def test_graphs_equal_torch_and_the_reference_evaluator(variant, feature, activation) -> None:
    """Each graph by onnxruntime and by the onnx package against float64 torch, within 1e-4."""
    model = random_model(variant, duration_feature=feature, side_activation=activation)
    graphs = build_graphs(model)
    enroll, test = parity.random_side(DIM, 6, seed=5), parity.random_side(DIM, 4, seed=6)
    expected = parity.expected_llrs(model, enroll, test)
    sessions = {k: onnxruntime.InferenceSession(g.SerializeToString()) for k, g in graphs.items()}
    evaluators = {k: ReferenceEvaluator(g) for k, g in graphs.items()}
    for runners in (sessions, evaluators):
        found = parity.graph_llrs(lambda name, x, r=runners: r[name].run(None, x)[0], enroll, test)
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, atol=1e-4, rtol=1e-5, err_msg=name)


def test_torch_oracle_of_the_parity_check_is_the_model() -> None:
    model = random_model("d-plda-dsd").double()
    enroll, test = parity.random_side(DIM, 5, seed=1), parity.random_side(DIM, 3, seed=2)
    sides = [torch.tensor(v).double() for v in (*enroll, *test)]
    expected = model(*sides).detach().numpy()
    np.testing.assert_allclose(parity.torch_llrs(model, enroll, test), expected, atol=1e-10)


@pytest.mark.parametrize("graph", names.GRAPHS)
def test_export_fails_when_a_graph_differs_from_torch(tmp_path, monkeypatch, graph: str) -> None:
    model = random_model("d-plda-dsd")
    good = build_graphs(model)
    spoilt = good | {graph: build_graphs(random_model("d-plda-dsd", seed=1))[graph]}
    monkeypatch.setattr("dcaplda.export.bundle_writer.build_graphs", lambda *_: spoilt)
    with pytest.raises(ModelError, match="differs from torch"):
        export_model(model, tmp_path / "bundle")
    assert not any(tmp_path.iterdir())


def test_graph_signatures_are_those_of_the_design() -> None:
    graphs = build_graphs(random_model("d-plda-dsd"))

    def inputs(name: str) -> list[str]:
        session = onnxruntime.InferenceSession(graphs[name].SerializeToString())
        return [i.name for i in session.get_inputs()]

    assert inputs("backend") == [
        "enroll_embeddings",
        "enroll_durations",
        "test_embeddings",
        "test_durations",
    ]
    assert inputs("voiceprint") == ["embeddings", "durations"]
    assert inputs("compare") == inputs("pairs") == ["enroll", "test"]
    for graph in graphs.values():
        assert graph.opset_import[0].version == names.OPSET
        assert {n.domain for n in graph.graph.node} == {""}, "only standard operators"


def test_manifest_tells_the_model_and_the_hashes(tmp_path) -> None:
    import hashlib

    model = random_model("d-plda-dd", duration_feature="wlog", duration_parameters={"center": 5.0})
    export_model(model, tmp_path / "b", training={"training_prior": 0.01})
    manifest = json.loads((tmp_path / "b/model.json").read_text())
    assert manifest["format_version"] == 3
    assert manifest["variant"] == "d-plda-dd"
    assert manifest["architecture"]["duration_parameters"] == {"center": 5.0, "slope": 2.0}
    assert manifest["training"]["training_prior"] == 0.01
    for entry in manifest["graphs"].values():
        content = (tmp_path / "b" / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
    grid = manifest["calibration"]["duration"]
    seconds = torch.tensor(grid["seconds"], dtype=torch.float32)
    features = model.duration_features(seconds)
    np.testing.assert_allclose(
        grid["alpha"], model.scale_dur(features, features).detach(), rtol=1e-5
    )


def test_export_replaces_a_bundle_but_nothing_else(tmp_path) -> None:
    graphs = build_graphs(random_model("plda"))
    told = {"embedding_dim": 24, "voiceprint_dim": 14, "uses_durations": False}
    told["averages_groups"] = True
    write_bundle(tmp_path / "b", graphs, {**told, "variant": "one"})
    write_bundle(tmp_path / "b", graphs, {**told, "variant": "two"})
    assert json.loads((tmp_path / "b/model.json").read_text())["variant"] == "two"
    (tmp_path / "other").mkdir()
    (tmp_path / "other/letter.txt").write_text("dear")
    with pytest.raises(ModelError, match="not a bundle"):
        write_bundle(tmp_path / "other", graphs, {**told, "variant": "one"})
    assert (tmp_path / "other/letter.txt").read_text() == "dear"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b", "other"]


def test_a_manifest_that_does_not_fit_is_not_written(tmp_path) -> None:
    graphs = build_graphs(random_model("plda"))
    told = {"variant": "plda", "embedding_dim": 24, "voiceprint_dim": 14, "averages_groups": True}
    with pytest.raises(ModelError, match="backend.onnx its scores do not depend on"):
        write_bundle(tmp_path / "b", graphs, {**told, "uses_durations": True})
    assert not (tmp_path / "b").exists()


def test_same_model_gives_the_same_bytes(tmp_path) -> None:
    for name in ("a", "b"):
        export_model(random_model("d-plda-dsd"), tmp_path / name)
    for graph in names.GRAPHS:
        one, two = ((tmp_path / n / f"{graph}.onnx").read_bytes() for n in "ab")
        assert one == two
        onnx.checker.check_model(onnx.load_from_string(one))
