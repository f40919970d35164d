"""Small ONNX extractors whose embeddings can be written out, in the forms that people have."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

DIM, BINS = 6, 80
FLOAT = TensorProto.FLOAT


def weights(width: int = BINS, dim: int = DIM, seed: int = 0) -> NDArray[np.float32]:
    """What an extractor of features multiplies their mean absolute values with."""
    return np.random.default_rng(seed).standard_normal((width, dim)).astype(np.float32)


def embedding_of(frames: NDArray[np.floating], seed: int = 0) -> NDArray[np.float64]:
    """The embedding (D,) of frames (T, F), written out: their mean absolute values, projected."""
    return np.abs(frames.astype(np.float64)).mean(axis=0) @ weights(frames.shape[1], seed=seed)


def write_extractor(
    path: Path,
    *,
    axes: str = "BTF",
    bins: int | str = BINS,
    metadata: dict[str, str] | None = None,
    names: tuple[str, str] = ("feats", "embs"),
    lengths: bool = False,
    more_outputs: Sequence[str] = (),
    seed: int = 0,
) -> Path:
    """mean(|x|) over time, times a matrix; of samples: mean(|x|) and mean(x * x), likewise."""
    signal, output = names
    shapes: dict[str, list[int | str]] = {
        "BTF": ["B", "T", bins],
        "BFT": ["B", bins, "T"],
        "TF": ["T", bins],
        "BN": ["B", "N"],
        "B1N": ["B", 1, "N"],
        "N": ["N"],
    }
    time = {"BTF": 1, "BFT": 2, "TF": 0, "BN": 1, "B1N": 2, "N": 0}[axes]
    width = 2 if "N" in axes else int(bins) if isinstance(bins, int) else BINS
    nodes = [helper.make_node("Abs", [signal], ["absolute"])]
    if "N" in axes:
        flat = numpy_helper.from_array(np.array([1, -1], np.int64), "flat")
        nodes = [
            helper.make_node("Reshape", [signal, "flat"], ["row"]),
            helper.make_node("Abs", ["row"], ["absolute"]),
            helper.make_node("Mul", ["row", "row"], ["square"]),
            helper.make_node("ReduceMean", ["absolute"], ["loud"], axes=[1], keepdims=1),
            helper.make_node("ReduceMean", ["square"], ["power"], axes=[1], keepdims=1),
            helper.make_node("Concat", ["loud", "power"], ["pooled"], axis=1),
        ]
        constants = [flat]
    else:
        keep = int(axes == "TF")
        nodes.append(
            helper.make_node("ReduceMean", ["absolute"], ["pooled"], axes=[time], keepdims=keep)
        )
        constants = []
    constants.append(numpy_helper.from_array(weights(width, seed=seed), "weights"))
    nodes.append(helper.make_node("MatMul", ["pooled", "weights"], [output]))
    inputs = [helper.make_tensor_value_info(signal, FLOAT, shapes[axes])]
    if lengths:
        inputs.append(helper.make_tensor_value_info("length", TensorProto.INT64, ["B"]))
    outputs = []
    for name in (*more_outputs, output):
        if name != output:
            nodes.append(helper.make_node("Identity", ["pooled"], [name]))
        outputs.append(helper.make_tensor_value_info(name, FLOAT, None))
    graph = helper.make_graph(nodes, "extractor", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    path.write_bytes(model.SerializeToString())
    assert onnx.load(path).graph.name == "extractor"
    return path
