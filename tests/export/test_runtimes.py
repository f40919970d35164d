"""Every graph in every runtime at hand: onnxruntime, the ONNX reference evaluator, OpenVINO."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from golden import EXTRACTS
from joint_models import joint_torch_model
from onnx.reference import ReferenceEvaluator
from random_models import DIM, random_model, statistics

from dcaplda.export import parity
from dcaplda.export.familiarity import familiarity
from dcaplda.export.graphs.algebra import compile_backend
from dcaplda.export.graphs.bundle import build_graphs
from dcaplda.export.importers import kaldi, kaldi_bundle
from dcaplda.export.importers.kaldi_graphs import build_graphs as kaldi_graphs
from dcaplda.train.model.config import VARIANTS

pytestmark = pytest.mark.torch

Graphs = Mapping[str, onnx.ModelProto]
Run = Callable[[str, Mapping[str, Any]], np.ndarray]


def in_onnxruntime(graphs: Graphs) -> Run:
    made = {k: onnxruntime.InferenceSession(g.SerializeToString()) for k, g in graphs.items()}
    return lambda name, inputs: made[name].run(None, dict(inputs))[0]


def in_reference_evaluator(graphs: Graphs) -> Run:
    made = {name: ReferenceEvaluator(graph) for name, graph in graphs.items()}
    return lambda name, inputs: made[name].run(None, dict(inputs))[0]


def in_openvino(graphs: Graphs) -> Run:
    openvino = pytest.importorskip("openvino", reason="OpenVINO is not installed")
    core = openvino.Core()
    # Without the hint it may compute in half precision where the processor offers it.
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    made = {
        name: core.compile_model(core.read_model(graph.SerializeToString()), "CPU", settings)
        for name, graph in graphs.items()
    }
    taken = {name: [port.any_name for port in one.inputs] for name, one in made.items()}
    for name, graph in graphs.items():
        # It leaves out what no node looks at: durations of a model without a duration stage.
        used = {value for node in graph.graph.node for value in node.input}
        assert taken[name] == [port.name for port in graph.graph.input if port.name in used]
    return lambda name, inputs: made[name]({key: inputs[key] for key in taken[name]})[0]


RUNTIMES = (in_onnxruntime, in_reference_evaluator, in_openvino)
MODELS = {
    **{variant: lambda variant=variant: random_model(variant) for variant in VARIANTS},
    "joint": joint_torch_model,
}


def known_graphs(model: Any) -> Graphs:
    """With all outputs that verify.onnx can have."""
    x = np.random.default_rng(9).standard_normal((300, DIM)).astype(np.float32)
    told = None if model.config.joint else statistics(model, x)
    return build_graphs(model, familiarity(compile_backend(model), told))


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", MODELS)
def test_every_graph_equals_torch(name: str, runtime: Callable[[Graphs], Run]) -> None:
    """LLRs of all ways through the graphs against float64 torch, within 1e-4 + 1e-5 |llr|."""
    model = MODELS[name]()
    run = runtime(known_graphs(model))
    enroll, test = parity.random_side(DIM, 6, seed=5), parity.random_side(DIM, 4, seed=6)
    found = parity.graph_llrs(run, enroll, test)
    for way, expected in parity.expected_llrs(model, enroll, test).items():
        np.testing.assert_allclose(found[way], expected, atol=1e-4, rtol=1e-5, err_msg=way)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("normalization", kaldi.NORMALIZATIONS)
def test_every_graph_of_an_imported_plda_equals_float64(normalization: str, runtime) -> None:
    backend = kaldi.read_backend(
        f"{EXTRACTS}/kaldi/plda",
        f"{EXTRACTS}/kaldi/transform.mat",
        f"{EXTRACTS}/kaldi/mean.vec",
        normalization=normalization,
    )
    assert kaldi_bundle.check(backend, kaldi_graphs(backend), runtime) < 1e-3


def every_graph() -> list[Any]:
    backend = kaldi.read_backend(f"{EXTRACTS}/kaldi/plda", f"{EXTRACTS}/kaldi/transform.mat")
    made = {"kaldi": kaldi_graphs(backend)}
    made |= {name: known_graphs(model()) for name, model in MODELS.items()}
    return [pytest.param(g, id=f"{m}-{n}") for m, gs in made.items() for n, g in gs.items()]


@pytest.mark.parametrize("graph", every_graph())
def test_a_graph_is_what_every_runtime_takes(graph: onnx.ModelProto, capfd) -> None:
    """No branches, no optional inputs; names and words for all that a viewer shows."""
    inside = graph.graph
    attributes = [a for node in inside.node for a in node.attribute]
    assert not [a for a in attributes if a.type in (a.GRAPH, a.GRAPHS)]
    constants = {tensor.name for tensor in inside.initializer}
    assert not constants & {port.name for port in inside.input}
    named = [node.name for node in inside.node]
    assert all(named) and len(set(named)) == len(named)
    assert all(port.doc_string for port in (*inside.input, *inside.output)) and inside.doc_string
    told = {item.key: item.value for item in graph.metadata_props}
    assert told["dcaplda.graph"] == inside.name
    assert told["dcaplda.durations"] == "seconds"
    sizes = {
        port.name.removeprefix("enroll_"): port.type.tensor_type.shape.dim[-1].dim_value
        for port in (*inside.input, *inside.output)
    }
    for port, key in (("embeddings", "embedding"), ("voiceprints", "voiceprint")):
        assert int(told[f"dcaplda.{key}_dim"]) == sizes.get(port, int(told[f"dcaplda.{key}_dim"]))
    onnxruntime.InferenceSession(graph.SerializeToString())
    assert not capfd.readouterr().err, "nothing to warn of"
