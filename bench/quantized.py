"""What int8 does to the LLRs of a bundle: voiceprint.onnx by onnxruntime's dynamic quantization.

    python bench/quantized.py exp/bundle scp:data/dev/xvector.scp data/dev/utt2dur

Every other utterance is enrolled, the rest are tests; errors are against the float32 graph's LLRs.
The default depends on the processor: without VNNI, sums of int8 by uint8 saturate.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic

from dcaplda.runtime import Backend
from dcaplda.runtime.tables.text_tables import read_numbers
from dcaplda.runtime.tables.vectors import read_vectors

UNSIGNED = {"weight_type": QuantType.QUInt8}
# The large product, from the embedding to the reduced space; quantization calls it so.
FIRST = {**UNSIGNED, "nodes_to_quantize": ["gemm_0_MatMul"]}
WAYS: dict[str, dict[str, Any]] = {
    "default (QInt8)": {},
    "QInt8, reduce_range": {"reduce_range": True},
    "QUInt8": UNSIGNED,
    "QUInt8, per_channel": {**UNSIGNED, "per_channel": True},
    "QUInt8, first product only": FIRST,
}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("bundle", "embeddings", "durations"):
        parser.add_argument(name)
    arguments = parser.parse_args()
    backend = Backend.load(arguments.bundle, threads=1)
    table, known = read_vectors(arguments.embeddings), read_numbers(arguments.durations)
    seconds = np.array([known[name] for name in table.ids], np.float32)
    graph = Path(arguments.bundle) / "voiceprint.onnx"
    inputs = {"embeddings": table.matrix, "durations": seconds}
    whole = llrs(backend, graph, inputs)
    print("| quantization | size | largest error of an LLR | mean | decisions at 0 changed |")
    print("|" + " --- |" * 5)
    with tempfile.TemporaryDirectory() as folder:
        for name, settings in WAYS.items():
            made = Path(folder) / "quantized.onnx"
            quantize_dynamic(graph, made, **settings)
            found = llrs(backend, made, inputs)
            error, size = np.abs(found - whole), made.stat().st_size / graph.stat().st_size
            changed = 100 * float(((found >= 0) != (whole >= 0)).mean())
            words = f"{size:.0%} | {error.max():.2f} | {error.mean():.3f} | {changed:.2f} %"
            print(f"| {name} | {words} |")


def llrs(backend: Backend, graph: Path, inputs: dict[str, Any]) -> np.ndarray:
    """LLRs of voiceprints that a graph makes, compared in float32."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    made = onnxruntime.InferenceSession(graph, options).run(None, inputs)[0]
    return backend.tile(made[::2], made[1::2])


if __name__ == "__main__":
    main()
