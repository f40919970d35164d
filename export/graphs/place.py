"""A joint model's place in a graph: whether an utterance sounds of it, and what changes then.

A graph works as the model before any place does; k, two columns, is what is known of the place of
an utterance (its ease, and how well it is known): 0 of any other place. All that a place changes is
k times a constant under a name of its own, so that adaptation replaces constants and nothing else
(runtime/joint/layout.py).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from dcaplda.export.graphs.onnx_ops import OnnxOps, Symbol
from dcaplda.runtime.joint.layout import (
    ALONE,
    AXES,
    CENTRE,
    FACTORS,
    GATE,
    HALF,
    KNOWN,
    QUADRATICS,
    SCORE,
    SHIFT,
    place_constants,
)
from dcaplda.runtime.joint.scorer import JointScorer


def place_symbols(ops: OnnxOps, joint: JointScorer) -> dict[str, Symbol]:
    """The constants of a joint model, those that a place changes among them, by name."""
    return {name: ops.graph.named(name, value) for name, value in place_constants(joint).items()}


def placed(
    ops: OnnxOps, places: Mapping[str, Symbol], reduced: Symbol, w: Symbol
) -> tuple[Symbol, Symbol]:
    """Vectors behind LDA (n, R) with the shift of their place, and k (n, 2)."""
    along = ops.graph.node("Gemm", w, places[f"{GATE}.weight"], places[f"{GATE}.bias"])
    known = ops.above(along, 0.0) * places[KNOWN]
    return ops.graph.node("Gemm", known, places[SHIFT], reduced), known


def conditions(ops: OnnxOps, dim: int, told: Sequence[Symbol]) -> Symbol:
    """Durations, lengths and ease, then log 1 and `known`."""
    order = np.zeros((dim - 1, dim))
    order[: dim - 2, : dim - 2] = np.eye(dim - 2)
    order[-1, -1] = 1.0
    return ops.concat(told) @ ops.graph.constant(order)


def axis_block(
    ops: OnnxOps,
    joint: JointScorer,
    places: Mapping[str, Symbol],
    w: Symbol,
    known: Symbol,
) -> list[Symbol]:
    """z, own, 1, the sums of squares, and no weights: one utterance, with its k (n, 2)."""
    rank, width = len(joint.between), 2 * len(joint.quadratics)
    x = ops.graph.node("Gemm", w, places[f"{AXES}.weight"], places[f"{AXES}.bias"])
    x = ops.normalize(ops.graph.node("Gemm", known, places[CENTRE], x), rank)
    of_x, of_squares = ops.split(
        ops.graph.node("Gemm", known, places[SCORE], places[FACTORS]), [rank, rank]
    )
    squares = x * x
    own = ops.row_sum(squares * of_squares, rank)
    # own, then 1; half of the constant comes with them.
    alone = ops.graph.node("Gemm", ops.concat([own, known]), places[ALONE], places[HALF])
    sums = ops.graph.node("Gemm", squares, places[QUADRATICS], np.zeros(width))
    return [x * of_x, alone, sums]
