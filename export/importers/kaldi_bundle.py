"""Writes the bundle of a Kaldi backend, once its graphs agree with float64 arithmetic."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from dcaplda.export.bundle_files import write_bundle
from dcaplda.export.graphs import names
from dcaplda.export.importers.kaldi import KaldiBackend, llrs
from dcaplda.export.importers.kaldi_graphs import VARIANT, build_graphs
from dcaplda.runtime.errors import ModelError

ABSOLUTE, RELATIVE = 1e-4, 1e-5
"""Largest difference allowed: ABSOLUTE + RELATIVE * the largest |llr|, as float32 adds terms of
that size."""

Graphs = Mapping[str, onnx.ModelProto]
Run = Callable[[str, Mapping[str, Any]], NDArray[np.float32]]


def export_backend(backend: KaldiBackend, directory: str | Path) -> float:
    """Build, check and write; returns the largest difference from float64."""
    graphs = build_graphs(backend)
    worst = check(backend, graphs, _in_onnxruntime)
    manifest = {
        "variant": VARIANT,
        "embedding_dim": backend.weight.shape[1],
        "voiceprint_dim": backend.dim + 1,
        "uses_durations": False,
        "duration_unit": "seconds",
        "voiceprint_inputs": [names.NUM_UTTS],
        "averages_groups": True,
        "architecture": {
            "lda_dim": backend.dim,
            "normalize_input": backend.normalize_input,
            "normalization": backend.normalization,
            "normalize_before_lda": backend.centre is not None,
        },
        "calibration": {},
        "training": None,
        "largest_difference_from_float64": worst,
    }
    write_bundle(directory, graphs, manifest)
    return worst


def check(backend: KaldiBackend, graphs: Graphs, runtime: Callable[[Graphs], Run]) -> float:
    """Largest difference of any way of scoring in a runtime; a ModelError if one is too large."""
    run = runtime(graphs)
    vectors = random_vectors(backend, 30)
    enroll, test = vectors[:18], vectors[18:]
    counts = np.random.default_rng(1).integers(1, 6, len(enroll)).astype(np.float32)
    exact = llrs(backend, _float64(enroll), _float64(counts), _float64(test))
    # Groups of three vectors, each of one utterance: their mean stands for three.
    means = _float64(enroll).reshape(6, 3, -1).mean(axis=1)
    grouped = llrs(backend, means, np.full(6, 3.0), _float64(test))
    expected = {
        names.BACKEND: exact,
        names.COMPARE: exact,
        names.PAIRS: np.diagonal(exact),
        names.GROUPS: grouped,
    }
    worst = 0.0
    for name, found in _graph_llrs(run, enroll, counts, test).items():
        difference = np.abs(found - expected[name])
        worst = max(worst, float(difference.max()))
        if not difference.max() <= ABSOLUTE + RELATIVE * np.abs(expected[name]).max():
            raise ModelError(
                f"graph '{name}' differs from float64 by {difference.max():.3g}; this backend "
                "cannot be computed in float32: train it on vectors of a sensible scale"
            )
    return worst


def random_vectors(backend: KaldiBackend, count: int) -> NDArray[np.float32]:
    """Vectors that the backend takes for speech: of the mean and spread that its PLDA expects."""
    rng = np.random.default_rng(0)
    wanted = rng.standard_normal((count, backend.dim)) * np.sqrt(1.0 + backend.plda.psi)
    w = wanted @ np.linalg.pinv(backend.plda.transform).T + backend.plda.mean
    vectors = (w - backend.bias) @ np.linalg.pinv(backend.weight).T
    if backend.centre is not None:
        vectors = vectors + backend.centre
    return np.asarray(vectors, np.float32)


def _graph_llrs(run: Run, enroll: Any, counts: Any, test: Any) -> dict[str, NDArray[np.float32]]:
    """LLRs of all ways through the graphs."""

    def side(vectors: Any, num_utts: Any) -> dict[str, Any]:
        seconds = np.ones(len(vectors), np.float32)
        return {
            names.EMBEDDINGS: vectors,
            names.DURATIONS: seconds,
            names.NUM_UTTS: num_utts,
        }

    x, y = side(enroll, counts), side(test, np.ones(len(test), np.float32))
    whole = {names.ENROLL_PREFIX + key: value for key, value in x.items()}
    whole |= {names.TEST_PREFIX + key: y[key] for key in (names.EMBEDDINGS, names.DURATIONS)}
    left, right = run(names.VOICEPRINT, x), run(names.VOICEPRINT, y)
    single = {**x, names.NUM_UTTS: np.ones_like(counts)}
    grouped = run(names.AVERAGE, {**single, names.GROUPS: np.arange(len(enroll)) // 3})
    count = min(len(left), len(right))
    return {
        names.BACKEND: run(names.BACKEND, whole),
        names.COMPARE: run(names.COMPARE, {names.ENROLL: left, names.TEST: right}),
        names.PAIRS: run(names.PAIRS, {names.ENROLL: left[:count], names.TEST: right[:count]}),
        names.GROUPS: run(names.COMPARE, {names.ENROLL: grouped, names.TEST: right}),
    }


def _in_onnxruntime(graphs: Graphs) -> Run:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = {
        name: onnxruntime.InferenceSession(graph.SerializeToString(), options)
        for name, graph in graphs.items()
    }
    return lambda name, inputs: sessions[name].run(None, dict(inputs))[0]


def _float64(values: Any) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)
