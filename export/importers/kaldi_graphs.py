"""The graphs of a bundle for Kaldi's backend.

A voiceprint is [u, n]: the vector in the PLDA's space and the number of utterances behind it.
With t = 1 + psi, v(n) = 1 + psi / (n psi + 1) and the posterior mean m = n psi / (n psi + 1) u1,
the LLR is the sum over dimensions of

    log(t / v(n)) / 2 - m^2 / v(n) / 2      the enrolment's own part
    m / v(n) * u2                           the cross term
    (1 / v(1) - 1 / v(n)) / 2 * u2^2        zero unless n > 1
    (1 / t - 1 / v(1)) / 2 * u2^2           the test's own part

which is one product of rows [m / v, (...) / 2, own, 1] and [u2, u2^2, 1, own]. The square's
factor is split at n = 1 so that float32 does not subtract large numbers there.
"""

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import numpy_helper

from dcaplda.export.graphs import names
from dcaplda.export.graphs.onnx_ops import Graph, OnnxOps, Symbol

if TYPE_CHECKING:
    from dcaplda.export.importers.kaldi import KaldiBackend

VARIANT = "kaldi-plda"


def voiceprints(
    ops: OnnxOps,
    backend: "KaldiBackend",
    embeddings: Symbol,
    num_utts: Symbol,
    groups: Symbol | None = None,
) -> Symbol:
    """[u, n] of vectors, or of the means of groups of vectors; num_utts is a column."""
    dim, plda = backend.dim, backend.plda
    if groups is not None:
        # Each vector is itself a mean over its n utterances, and counts as so many.
        width = backend.weight.shape[1]
        weighted = ops.concat([embeddings * num_utts, num_utts])
        means = ops.group_means(weighted, width + 1, groups)
        mean, mean_count = ops.split(means, [width, 1])
        embeddings, num_utts = mean / mean_count, mean_count * _group_sizes(ops, groups)
    if backend.centre is not None:
        width = len(backend.centre)
        embeddings = ops.normalize(embeddings - backend.centre, width) * np.sqrt(width)
    # A scale commutes with the PLDA's transform, so that both are taken from the input and
    # roundings of w do not pile up.
    u = ops.affine(embeddings, plda.transform @ backend.weight, plda.transform @ backend.bias)
    if backend.normalize_input:
        w = ops.affine(embeddings, backend.weight, backend.bias)
        u = u / ops.graph.node("Sqrt", ops.row_sum(w * w, dim) * (1.0 / dim))
    u = u - plda.transform @ plda.mean
    if backend.normalization == "plda":
        expected = ops.ones_like(num_utts) / num_utts + plda.psi
        u = u / ops.graph.node("Sqrt", ops.row_sum(u * u / expected, dim) * (1.0 / dim))
    elif backend.normalization == "simple":
        u = ops.normalize(u, dim) * np.sqrt(dim)
    return ops.concat([u, num_utts])


def _group_sizes(ops: OnnxOps, groups: Symbol) -> Symbol:
    """How many rows each group has, as a column."""
    graph = ops.graph
    one = graph.constant(1, np.int64)
    top = graph.node("ReduceMax", groups, keepdims=0)
    shape = graph.node("Unsqueeze", graph.node("Add", top, one), graph.constant([0], np.int64))
    none = numpy_helper.from_array(np.zeros(1, dtype=np.float32))
    zeros = graph.node("ConstantOfShape", shape, value=none)
    place = graph.node("Unsqueeze", groups, graph.constant([1], np.int64))
    sizes = graph.node("ScatterND", zeros, place, ops.ones_like(groups), reduction="add")
    return ops.stack([sizes])


def _factors(
    ops: OnnxOps, backend: "KaldiBackend", enroll: Symbol, test: Symbol
) -> tuple[Symbol, Symbol]:
    """Rows of both sides whose product is the LLR; each is 2 R + 2 wide."""
    dim, psi = backend.dim, backend.plda.psi
    single, total = 1.0 + psi / (psi + 1.0), 1.0 + psi
    u1, n = ops.split(enroll, [dim, 1])
    u2, _ = ops.split(test, [dim, 1])
    scaled = n * psi
    denominator = scaled + 1.0
    mean = scaled / denominator * u1
    precision = denominator / (denominator + psi)
    own_enroll = ops.row_sum(ops.log(precision * total) - mean * mean * precision, dim) * 0.5
    square = u2 * u2
    own_test = square @ ops.graph.constant(0.5 * (1.0 / total - 1.0 / single)[:, None])
    left = [mean * precision, precision * -0.5 + 0.5 / single, own_enroll, ops.ones_like(n)]
    right = [u2, square, ops.ones_like(own_test), own_test]
    return ops.concat(left), ops.concat(right)


def build_graphs(backend: "KaldiBackend") -> dict[str, onnx.ModelProto]:
    """All graphs, by name."""
    dim, width = backend.weight.shape[1], backend.dim + 1
    facts = {
        "variant": VARIANT,
        "embedding_dim": dim,
        "voiceprint_dim": width,
        "uses_durations": False,
    }

    def side(graph: Graph, prefix: str, size: str, counted: bool) -> tuple[Symbol, Symbol]:
        """Embeddings and number of utterances; durations are taken as by every bundle."""
        embeddings = graph.input(prefix + names.EMBEDDINGS, [size, dim])
        seconds = graph.input(prefix + names.DURATIONS, [size])
        ops = OnnxOps(graph)
        if not counted:
            return embeddings, ops.stack([ops.ones_like(seconds)])
        return embeddings, ops.stack([graph.input(prefix + names.NUM_UTTS, [size])])

    graphs = {}

    graph = Graph(names.BACKEND)
    ops = OnnxOps(graph)
    enroll = voiceprints(ops, backend, *side(graph, names.ENROLL_PREFIX, "E", True))
    test = voiceprints(ops, backend, *side(graph, names.TEST_PREFIX, "T", False))
    llrs = ops.products(*_factors(ops, backend, enroll, test))
    graph.output(names.LLRS, llrs, ["E", "T"])
    graphs[names.BACKEND] = graph.build("LLR of every enrolment against every test vector", facts)

    graph = Graph(names.VOICEPRINT)
    made = voiceprints(OnnxOps(graph), backend, *side(graph, "", "N", True))
    graph.output(names.VOICEPRINTS, made, ["N", width])
    graphs[names.VOICEPRINT] = graph.build("Voiceprints of vectors", facts)

    graph = Graph(names.AVERAGE)
    inputs, groups = side(graph, "", "N", True), graph.indices(names.GROUPS, "N")
    made = voiceprints(OnnxOps(graph), backend, *inputs, groups)
    graph.output(names.VOICEPRINTS, made, ["G", width])
    graphs[names.AVERAGE] = graph.build("Voiceprints of means of groups of vectors", facts)

    graph = Graph(names.COMPARE)
    ops = OnnxOps(graph)
    sides = graph.input(names.ENROLL, ["E", width]), graph.input(names.TEST, ["T", width])
    graph.output(names.LLRS, ops.products(*_factors(ops, backend, *sides)), ["E", "T"])
    graphs[names.COMPARE] = graph.build(
        "LLR of every enrolment voiceprint against every test one", facts
    )

    graph = Graph(names.PAIRS)
    ops = OnnxOps(graph)
    sides = graph.input(names.ENROLL, ["N", width]), graph.input(names.TEST, ["N", width])
    left, right = _factors(ops, backend, *sides)
    graph.output(names.LLRS, ops.flatten(ops.row_sum(left * right, 2 * backend.dim + 2)), ["N"])
    graphs[names.PAIRS] = graph.build("LLR of voiceprints row by row", facts)
    return graphs
